// The forms of the page: what to do next, and how to start an episode.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { Field, ObjectFields } from "./fields.js";
import { words } from "./observation.js";
import { choices, describe, initialObject, unfit } from "./schema.js";

const NUMBERED = 9;

/** Messages by the path of their field, and those of no field. */
export function faults(error, kind) {
  const byPath = new Map();
  const others = [];
  if (error === null) return { byPath, others };
  const names = Object.keys(kind?.schema.properties ?? {});
  for (const { loc = [], msg } of error.errors ?? []) {
    const path = loc.map(String).filter((part) => part !== "body" && part !== "arguments");
    if (path.length > 1 && !names.includes(path[0])) {
      const member = path.shift(); // of a union, which reports what is wrong by each of its members
      if (kind.members !== undefined && !kind.members.has(member)) continue;
    }
    if (names.includes(path[0])) byPath.set(path.join("."), msg);
    else others.push(path.length ? `${path.join(".")}: ${msg}` : msg);
  }
  if (byPath.size + others.length === 0) others.push(error.message);
  return { byPath: placed(byPath, kind), others };
}

/** The messages by the path of the field that shows them: the nearest one in the form. */
function placed(byPath, kind) {
  const found = new Map();
  for (const [path, message] of byPath) {
    const shown = shownPart(path.split("."), kind.schema, kind.root ?? kind.schema);
    if (!found.has(shown)) found.set(shown, path === shown ? message : `${path.slice(shown.length + 1)}: ${message}`);
  }
  return found;
}

/** The beginning of a path that has a field in the form: parts of objects and items of lists have. */
function shownPart(parts, schema, root) {
  let inner = schema;
  for (const [at, part] of parts.entries()) {
    const given = inner.type === "array" ? inner.items : inner.properties?.[part];
    if (given === undefined) return parts.slice(0, at).join(".");
    const described = describe(part, given, root);
    if (described.kind !== "object" && described.kind !== "list") return parts.slice(0, at + 1).join(".");
    inner = described.schema;
  }
  return parts.join(".");
}

/**
 * What can be done: the kinds of actions and the tools, and the fields of the chosen one.
 *
 * Its buttons are left out where the environment offers its own (`isOffered`).
 */
export function ActionForm({ game, chosen, onChoose, isOffered }) {
  const kind = game.kinds[chosen] ?? game.kinds[0];
  if (kind === undefined) return html`<p class="note">There are no actions before the first reset.</p>`;
  return html`
    ${game.kinds.length > 1 && html`<${KindChoice} kinds=${game.kinds} chosen=${kind} onChoose=${onChoose} />`}
    ${!(isOffered && game.kinds.length === 1 && choices(kind).length > 0) && html`<${KindForm} key=${kind.name} game=${game} kind=${kind} />`}`;
}

function KindChoice({ kinds, chosen, onChoose }) {
  return html`<div class="input">
    <label for="kind">${kinds.every((kind) => kind.isTool) ? "Tool" : "Action"}</label>
    <select id="kind" data-testid="kind" value=${kinds.indexOf(chosen)} onChange=${(event) => onChoose(Number(event.target.value))}>
      ${kinds.map((kind, at) => html`<option value=${at}>${kind.name}${kind.isTool && kinds.some((other) => !other.isTool) ? " (tool)" : ""}</option>`)}
    </select></div>`;
}

function KindForm({ game, kind }) {
  const [value, setValue] = useState(() => initialObject(kind.schema, kind.root));
  const form = useRef(null);
  const { byPath, others } = faults(game.turns.length > 0 ? game.error : null, kind);
  const buttons = useMemo(() => choices(kind), [kind]);
  const send = (event) => {
    event.preventDefault();
    // The server checks what an action has, and has a tool called with any arguments, which is a step.
    const errors = kind.isTool ? unfit(kind.schema, kind.root, value) : [];
    if (errors.length > 0) game.refuse(errors);
    else game.step(kind.step(value));
  };
  useEffect(() => {
    form.current?.querySelector("[aria-invalid=true], fieldset:has(> .problem) :is(input, select, textarea, button)")?.focus();
  }, [game.error]);
  const blocked = game.turns.length === 0;
  return html`<form ref=${form} class="action" data-testid="action" onSubmit=${send} onKeyDown=${sendOnEnter}>
    ${kind.description && html`<p class="hint">${summaryOf(kind.description)}</p>`}
    ${buttons.length > 0
      ? html`<div class="buttons" style=${columnsFor(buttons)}>${buttons.map((button, at) => html`<${Choice} ...${button} number=${at + 1} disabled=${blocked} game=${game} />`)}</div>`
      : html`
        <${ObjectFields} schema=${kind.schema} root=${kind.root} value=${value} onChange=${setValue} path="" errors=${byPath} hidden=${kind.hidden} />
        ${others.map((message) => html`<p class="problem" role="alert">${message}</p>`)}
        <button type="submit" class="primary" data-testid="step" disabled=${blocked} aria-disabled=${game.busy !== null}>${kind.isTool ? "Call" : "Step"}<kbd>Ctrl ↵</kbd></button>`}
    ${buttons.length > 0 && [...byPath.values(), ...others].map((message) => html`<p class="problem" role="alert">${message}</p>`)}
  </form>`;
}

/** The first paragraph of a docstring; the fields have descriptions of their own. */
function summaryOf(description) {
  return description.split(/\n\s*\n/)[0];
}

function sendOnEnter(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    event.currentTarget.requestSubmit();
  }
}

/** How many buttons stand beside each other. */
export function columnsFor(buttons) {
  const longest = Math.max(...buttons.map(({ label }) => label.length));
  const fit = longest > 24 ? 1 : longest > 9 ? 2 : 3;
  return { "--columns": buttons.length === 4 ? Math.min(fit, 2) : Math.min(fit, buttons.length) };
}

/** A button that does an action at once. Disabled while a step is under way, it would lose the focus. */
export function Choice({ label, action, number, disabled, isOld, game }) {
  return html`<button type="button" class="choice" data-number=${number <= NUMBERED ? number : undefined} disabled=${disabled} aria-disabled=${game.busy !== null || isOld}
    onClick=${() => isOld || game.step(action)}>${label}${number <= NUMBERED && html`<kbd aria-hidden="true">${number}</kbd>`}</button>`;
}

/** How to start an episode: the seed, the task, and the parameters of the environment's reset. */
export function ResetForm({ game }) {
  const schema = game.schemas.reset ?? { properties: {} };
  const [value, setValue] = useState({});
  const [task, setTask] = useState({});
  const withTask = game.splits.length > 0;
  const hidden = new Set(["episode_id", "seed", ...(withTask ? ["split", "index"] : [])]);
  const { byPath, others } = faults(game.busy === null && game.turns.length === 0 ? game.error : null, { schema });
  // Paths of their own, since the action may have fields of the same names, and each label needs the id of its field.
  const errors = new Map([...byPath].map(([path, message]) => [`reset.${path}`, message]));
  const names = Object.keys(schema.properties ?? {}).filter((name) => !hidden.has(name));
  const reset = (event) => {
    event.preventDefault();
    game.reset({ ...value, ...task });
  };
  const seed = { type: "integer", minimum: 0, description: "The same seed gives the same episode." };
  return html`<form class="reset" data-testid="reset-form" onSubmit=${reset}>
    ${others.map((message) => html`<p class="problem" role="alert">${message}</p>`)}
    <div class="row">
      <${Field} name="seed" given=${{ ...seed, description: undefined }} root=${schema} required=${false} value=${value.seed} path="reset.seed" errors=${errors}
        onChange=${(changed) => setValue(without({ ...value, seed: changed }))} />
      <button type="submit" class=${game.turns.length === 0 || game.last?.done ? "primary" : "secondary"} data-testid="reset" aria-disabled=${game.busy !== null}>Reset<kbd>R</kbd></button>
    </div>
    ${withTask && html`<${TaskChoice} game=${game} task=${task} onChange=${setTask} />`}
    ${names.length > 0 && html`<details class="more"><summary>${names.length === 1 ? words(names[0]) : `${names.length} more parameters`}</summary>
      <${ObjectFields} schema=${schema} root=${schema} value=${value} onChange=${(changed) => setValue(without(changed))} path="reset" errors=${errors} hidden=${hidden} />
    </details>`}
  </form>`;
}

function without(value) {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined));
}

function TaskChoice({ game, task, onChange }) {
  const [count, setCount] = useState(null);
  const [preview, setPreview] = useState(null);
  const { split, index } = task;
  useEffect(() => {
    setCount(null);
    if (split !== undefined) game.taskCount(split).then(setCount, () => {});
  }, [split]);
  useEffect(() => {
    setPreview(null);
    if (split !== undefined && Number.isInteger(index)) game.task(split, index).then(setPreview, (error) => setPreview({ problem: error.message }));
  }, [split, index]);
  const choose = (event) => onChange(event.target.value === "" ? {} : { split: event.target.value, index: 0 });
  return html`<div class="row">
    <div class="input"><label for="split">Split</label>
      <select id="split" value=${split ?? ""} onChange=${choose}><option value="">any task</option>
        ${game.splits.map(({ name }) => html`<option value=${name}>${name}</option>`)}</select></div>
    ${split !== undefined && html`<${Field} name="index" label=${count === null ? "Task" : `Task of ${count}`} given=${{ type: "integer", minimum: 0, maximum: count === null ? undefined : count - 1 }} root=${{}}
      required=${false} value=${index} path="reset.index" errors=${new Map()} onChange=${(changed) => onChange(without({ split, index: changed }))} />`}
  </div>
  ${preview !== null && html`<p class="hint task">${summary(preview)}</p>`}`;
}

function summary(task) {
  if (task === null || typeof task !== "object") return String(task);
  const shown = Object.entries(task).filter(([name, value]) => !["split", "index"].includes(name) && value !== null);
  const text = shown.map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(" · ");
  return text.length > 300 ? `${text.slice(0, 300)}…` : text;
}
