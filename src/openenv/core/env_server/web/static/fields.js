// The fields of a form, each of the kind that its JSON Schema describes.
import { html, useEffect, useState } from "./html.js";
import { words } from "./observation.js";
import { choiceLabel, constOf, describe, initial, initialObject, resolve } from "./schema.js";

const FEW = 6;
const SHORT = 48;

/**
 * The fields of an object.
 *
 * Props: `schema`, `root` (for references), `value`, `onChange(value)`, `path` (of the object in the form), `errors`
 * (messages by path) and `hidden` (names that are not shown).
 */
export function ObjectFields({ schema, root, value, onChange, path, errors, hidden }) {
  const names = Object.keys(schema.properties ?? {}).filter((name) => !hidden?.has(name));
  const required = new Set(schema.required ?? []);
  const set = (name, field) => {
    const { [name]: _, ...others } = value ?? {};
    onChange(field === undefined ? others : { ...others, [name]: field });
  };
  return names.map((name) => html`
    <${Field} key=${name} name=${name} given=${schema.properties[name]} root=${root} required=${required.has(name)}
      value=${value?.[name]} onChange=${(field) => set(name, field)} path=${join(path, name)} errors=${errors} />`);
}

function join(path, name) {
  return path === "" ? String(name) : `${path}.${name}`;
}

/** One field, with its label, its description and its error. */
export function Field({ name, given, root, required, value, onChange, path, errors, label }) {
  const { kind, schema, nullable, members } = describe(name, given, root);
  if (kind === "const") return null;
  const id = `field-${path.replace(/[^\w-]/g, "-")}`;
  const error = errors.get(path);
  const shared = { id, name, schema, root, value, onChange, path, errors, required, nullable, members, error };
  const title = label ?? words(name);
  const optional = required ? null : html`<span class="optional">optional</span>`;
  const hint = schema.description && html`<span class="hint" id=${`${id}-hint`}>${schema.description}</span>`;
  const problem = error && html`<span class="problem" id=${`${id}-problem`}>${error}</span>`;
  if (isGroup(kind, schema)) {
    return html`<fieldset class="group" aria-describedby=${describedBy(id, schema, error)}>
      <legend>${title} ${optional}</legend>${hint}${problem}${control(kind, shared)}</fieldset>`;
  }
  if (kind === "boolean" && required && !nullable) {
    return html`<div class="input check">${control(kind, shared)}<label for=${id}>${title}</label>${hint}${problem}</div>`;
  }
  return html`<div class="input"><label for=${id}>${title} ${optional}</label>${hint}${control(kind, shared)}${problem}</div>`;
}

function isGroup(kind, schema) {
  return kind === "object" || kind === "list" || kind === "union" || kind === "enum" && isSegmented(schema);
}

function isSegmented(schema) {
  const labels = schema.enum.map(String);
  return labels.length <= FEW && labels.join("").length <= SHORT;
}

function describedBy(id, schema, error) {
  const ids = [schema.description && `${id}-hint`, error && `${id}-problem`].filter(Boolean);
  return ids.length ? ids.join(" ") : undefined;
}

function control(kind, props) {
  switch (kind) {
    case "enum":
      return isSegmented(props.schema) ? html`<${Segments} ...${props} />` : html`<${Select} ...${props} />`;
    case "boolean":
      return html`<${Flag} ...${props} />`;
    case "number":
      return html`<${NumberInput} ...${props} />`;
    case "object":
      return html`<${Nested} ...${props} />`;
    case "list":
      return html`<${List} ...${props} />`;
    case "union":
      return html`<${Union} ...${props} />`;
    case "value":
      return html`<${ValueInput} ...${props} />`;
    case "json":
      return html`<${JsonInput} ...${props} />`;
    default:
      return html`<${TextInput} kind=${kind} ...${props} />`;
  }
}

function shared({ id, schema, error, required }) {
  return { id, "aria-describedby": describedBy(id, schema, error), "aria-invalid": error ? "true" : undefined, "aria-required": required ? "true" : undefined };
}

function TextInput({ kind, ...props }) {
  const { schema, value, onChange, required } = props;
  const change = (event) => onChange(event.target.value === "" && !required ? undefined : event.target.value);
  const common = { ...shared(props), value: value ?? "", onInput: change, maxLength: schema.maxLength, spellcheck: false, autocomplete: "off" };
  if (kind === "long") return html`<textarea rows="3" placeholder=${example(schema)} ...${common}></textarea>`;
  return html`<input type=${kind === "secret" ? "password" : "text"} placeholder=${example(schema)} ...${common} />`;
}

function example(schema) {
  const [first] = schema.examples ?? [];
  return first === undefined ? undefined : typeof first === "string" ? first : JSON.stringify(first);
}

/** A number; what is no number is sent as it is, for the server to say so. */
function NumberInput(props) {
  const { schema, value, onChange, required, nullable } = props;
  const change = (event) => {
    const text = event.target.value.trim();
    const number = Number(text);
    onChange(text === "" ? (required ? (nullable ? null : "") : undefined) : Number.isNaN(number) ? text : number);
  };
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const bounds = low !== undefined && high !== undefined ? `${low} to ${high}` : low !== undefined ? `from ${low}` : high !== undefined ? `to ${high}` : example(schema);
  return html`<input type="text" inputmode=${schema.type === "integer" ? "numeric" : "decimal"} class="number"
    value=${value ?? ""} placeholder=${bounds} autocomplete="off" onInput=${change} ...${shared(props)} />`;
}

function Flag(props) {
  const { schema, value, onChange, required, nullable } = props;
  if (required && !nullable) {
    return html`<input type="checkbox" checked=${value === true} onChange=${(event) => onChange(event.target.checked)} ...${shared(props)} />`;
  }
  const none = nullable && schema.default !== null ? null : undefined;
  const change = (event) => onChange({ true: true, false: false }[event.target.value] ?? none);
  return html`<select value=${String(value ?? "")} onChange=${change} ...${shared(props)}>
    <option value="">${none === null ? "none" : "not set"}</option><option value="true">true</option><option value="false">false</option></select>`;
}

function Select(props) {
  const { schema, value, onChange } = props;
  const at = schema.enum.indexOf(value ?? null);
  return html`<select value=${at} onChange=${(event) => onChange(schema.enum[event.target.value])} ...${shared(props)}>
    <option value="-1">choose</option>
    ${schema.enum.map((option, index) => html`<option value=${index}>${choiceLabel(option, schema)}</option>`)}</select>`;
}

function Segments({ id, schema, value, onChange, required }) {
  const options = schema.enum.map((option) => ({ label: choiceLabel(option, schema), option }));
  if (!required && !schema.enum.includes(null)) options.unshift({ label: "not set", option: undefined });
  return html`<div class="segments">${options.map(({ label, option }, at) => html`
    <label class="segment"><input type="radio" name=${id} checked=${value === option || option === null && value === undefined} onChange=${() => onChange(option)}
      value=${at} /><span>${label}</span></label>`)}</div>`;
}

function Nested({ schema, root, value, onChange, path, errors, required }) {
  if (!required && value === undefined) {
    return html`<button type="button" class="quiet" onClick=${() => onChange(initialObject(schema, root))}>Add</button>`;
  }
  return html`
    <${ObjectFields} schema=${schema} root=${root} value=${value} onChange=${onChange} path=${path} errors=${errors} />
    ${!required && html`<button type="button" class="quiet" onClick=${() => onChange(undefined)}>Remove</button>`}`;
}

function List({ name, schema, root, value, onChange, path, errors }) {
  const items = value ?? [];
  const replace = (at, item) => onChange(items.map((old, index) => (index === at ? item ?? "" : old)));
  const add = () => onChange([...items, initial(name, schema.items, root, true) ?? (isObject(schema, root) ? {} : "")]);
  return html`
    ${items.map((item, at) => html`<div class="item" key=${at}>
      <${Field} name=${name} label=${`${words(name)} ${at + 1}`} given=${schema.items} root=${root} required=${true} value=${item}
        onChange=${(changed) => replace(at, changed)} path=${join(path, at)} errors=${errors} />
      <button type="button" class="quiet" aria-label=${`Remove ${words(name)} ${at + 1}`} onClick=${() => onChange(items.filter((_, index) => index !== at))}>Remove</button>
    </div>`)}
    <button type="button" class="quiet" onClick=${add}>Add</button>`;
}

function isObject(schema, root) {
  return resolve(schema.items, root).type === "object";
}

/** One of several kinds of values; the value that comes with the form decides which is shown first. */
function Union({ id, name, root, value, onChange, path, errors, members, required }) {
  const [chosen, setChosen] = useState(() => Math.max(members.findIndex((member) => fits(value, member)), 0));
  const choose = (event) => {
    setChosen(Number(event.target.value));
    onChange(initial(name, members[event.target.value], root, required));
  };
  const others = new Map([...errors].filter(([at]) => at !== path)); // that of the field itself stands above
  const titles = members.map((member, at) => member.title ?? member.type ?? `kind ${at + 1}`);
  return html`
    <select class="kind" value=${chosen} aria-label=${`Kind of ${words(name)}`} onChange=${choose}>
      ${titles.map((title, at) => html`<option value=${at}>${title}</option>`)}</select>
    <${Field} key=${chosen} name=${name} label=${titles[chosen]} given=${withConstants(members[chosen])} root=${root} required=${required} value=${value}
      onChange=${(changed) => onChange(withFixed(changed, members[chosen], root))} path=${path} errors=${others} />`;
}

function fits(value, member) {
  if (value === undefined || value === null) return false;
  const type = Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
  return member.type === type || member.type === "number" && type === "integer";
}

function withConstants(member) {
  return member.description ? { ...member, description: undefined } : member;
}

function withFixed(value, member, root) {
  if (value === undefined || value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return { ...initialConstants(member, root), ...value };
}

function initialConstants(member, root) {
  const found = {};
  for (const [name, field] of Object.entries(member.properties ?? {})) {
    const described = describe(name, field, root);
    if (described.kind === "const") found[name] = constOf(described.schema);
  }
  return found;
}

/** A text, a number or a list: what is JSON of one of the types is that value, anything else is text. */
function ValueInput(props) {
  const { members, value, onChange, required } = props;
  const [text, setText] = useState(value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));
  const change = (event) => {
    setText(event.target.value);
    onChange(event.target.value === "" && !required ? undefined : valueOf(event.target.value, members));
  };
  return html`<textarea rows="2" placeholder=${members.map((member) => member.type).join(", ")} spellcheck=${false} value=${text}
    onInput=${change} ...${shared(props)}></textarea>`;
}

function valueOf(text, members) {
  try {
    const value = JSON.parse(text);
    return members.some((member) => fits(value, member)) ? value : text;
  } catch {
    return text;
  }
}

/** JSON as text, for what has no field of its own. */
function JsonInput(props) {
  const { value, onChange } = props;
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value));
  const [wrong, setWrong] = useState(null);
  useEffect(() => {
    if (value === undefined) setText("");
  }, [value === undefined]);
  const change = (event) => {
    setText(event.target.value);
    try {
      onChange(event.target.value.trim() === "" ? undefined : JSON.parse(event.target.value));
      setWrong(null);
    } catch (error) {
      setWrong(error.message);
    }
  };
  return html`<textarea rows="2" class="mono" placeholder="JSON" spellcheck=${false} value=${text} onInput=${change} ...${shared(props)}></textarea>
    ${wrong && html`<span class="problem" role="status">This is no JSON yet: ${wrong}</span>`}`;
}
