// What a JSON Schema says of a field, with references and null resolved.

const SECRET = /passw|secret|token|api_?key|credential/i;
const LONG = /text|message|code|prompt|content|query|sql|answer|command|script|body|reasoning|thought|source|patch/i;
const LIST_TOOLS = "list_tools";
const CALL_TOOL = "call_tool";

/** Follow references, and merge what stands beside them. */
export function resolve(schema, root) {
  let found = schema ?? {};
  for (let depth = 0; found.$ref !== undefined && depth < 50; depth += 1) {
    const { $ref, ...beside } = found;
    const path = $ref.replace(/^#\//, "").split("/");
    const target = path.reduce((part, key) => part?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
    found = { ...(target ?? {}), ...beside };
  }
  if (found.allOf?.length === 1) {
    const { allOf, ...beside } = found;
    return { ...resolve(allOf[0], root), ...beside };
  }
  return found;
}

/** The members of a union without null, resolved, and whether null is among them. */
function options(schema, root) {
  const members = (schema.anyOf ?? schema.oneOf).map((member) => resolve(member, root));
  return {
    nullable: members.some((member) => member.type === "null"),
    members: members.filter((member) => member.type !== "null"),
  };
}

/**
 * Describe a field.
 *
 * @returns {{kind: string, schema: object, nullable: boolean, members?: object[]}} The kind is `const`, `enum`,
 *   `boolean`, `number`, `text`, `long`, `secret`, `object`, `list`, `union` (of objects), `value` (of one of
 *   several plain types) or `json`.
 */
export function describe(name, given, root) {
  let schema = resolve(given, root);
  let nullable = schema.nullable === true;
  if (schema.anyOf || schema.oneOf) {
    const found = options(schema, root);
    nullable ||= found.nullable;
    if (found.members.length !== 1) return { kind: unionKind(found.members), schema, nullable, members: found.members };
    const { anyOf, oneOf, ...beside } = schema;
    schema = { ...found.members[0], ...beside };
  }
  if (Array.isArray(schema.type)) {
    nullable = schema.type.includes("null");
    const types = schema.type.filter((type) => type !== "null");
    if (types.length !== 1) {
      const members = types.map((type) => ({ title: type, type }));
      return { kind: unionKind(members), schema, nullable, members };
    }
    schema = { ...schema, type: types[0] };
  }
  if (nullable) schema = withNull(schema);
  return { kind: kindOf(name, schema, root), schema, nullable };
}

/** A choice that may be null has that among its values, as the first one. */
function withNull({ const: only, ...schema }) {
  const values = schema.enum ?? (only !== undefined ? [only] : undefined);
  return values ? { ...schema, enum: [null, ...values.filter((value) => value !== null)] } : schema;
}

/** What people read for a value of a choice; leaving out a field whose default is null says null as well. */
export function choiceLabel(value, schema) {
  return value === null ? (schema.default === null ? "not set" : "none") : String(value);
}

/** What a person types says whether it is a text, a number or a list. */
function unionKind(members) {
  return members.some((member) => member.type === "object" || member.type === undefined) ? "union" : "value";
}

function kindOf(name, schema, root) {
  if ("const" in schema || schema.enum?.length === 1) return "const";
  if (schema.enum) return "enum";
  switch (schema.type) {
    case "boolean":
      return "boolean";
    case "integer":
    case "number":
      return "number";
    case "string":
      return textKind(name, schema);
    case "array":
      return isNested(resolve(schema.items, root)) ? "json" : "list";
    case "object":
      return schema.properties ? "object" : "json";
    default:
      return "json";
  }
}

function isNested(items) {
  return items.type === "array" || items.type === undefined && !items.enum && !items.anyOf && !items.oneOf;
}

function textKind(name, schema) {
  if (schema.format === "password" || schema.writeOnly || SECRET.test(name)) return "secret";
  const isShort = schema.maxLength !== undefined && schema.maxLength <= 80 || schema.format !== undefined;
  return !isShort && (LONG.test(name) || schema.maxLength > 80) ? "long" : "text";
}

export function constOf(schema) {
  return "const" in schema ? schema.const : schema.enum[0];
}

/** The fields of an object with a single possible value. */
export function constants(schema, root) {
  const found = {};
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const described = resolve(field, root);
    if ("const" in described || described.enum?.length === 1) found[name] = constOf(described);
  }
  return found;
}

/** The value with which a form begins: defaults, constants and objects; `undefined` for what is left out. */
export function initial(name, given, root, required) {
  const { kind, schema, nullable } = describe(name, given, root);
  if (kind === "const") return constOf(schema);
  if (schema.default !== undefined && schema.default !== null) return schema.default;
  if (required && nullable && ["enum", "boolean", "number"].includes(kind)) return null;
  if (!required || nullable) return undefined;
  if (kind === "object") return initialObject(schema, root);
  if (kind === "list") return [];
  if (kind === "boolean") return false;
  return undefined;
}

export function initialObject(schema, root) {
  const value = {};
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const begin = initial(name, field, root, (schema.required ?? []).includes(name));
    if (begin !== undefined) value[name] = begin;
  }
  return value;
}

/** One kind of action, or a tool: what a person chooses before its fields. */
function actionKind(title, schema, root) {
  return {
    name: toolName(title),
    members: new Set([title, schema.title, ...Object.values(constants(schema, root)).map(String)]),
    description: schema.description ?? "",
    schema,
    root,
    hidden: new Set(["metadata", ...Object.keys(constants(schema, root))]),
    isTool: false,
    step: (fields) => ({ ...constants(schema, root), ...fields }),
  };
}

export function toolKind(tool) {
  const schema = tool.input_schema ?? tool.inputSchema ?? {};
  return {
    name: tool.name,
    description: tool.description ?? "",
    schema,
    root: schema,
    hidden: new Set(),
    isTool: true,
    step: (fields) => ({ type: CALL_TOOL, tool_name: tool.name, arguments: fields }),
  };
}

/** The kinds of actions of an action's schema: several in a union, none where it only calls tools. */
export function actionKinds(root) {
  return members(root, root)
    .filter(([, schema]) => !concernsTools(schema, root))
    .map(([name, schema]) => actionKind(name, schema, root));
}

function members(schema, root) {
  const found = resolve(schema, root);
  const union = found.oneOf ?? found.anyOf;
  if (union) return union.filter((option) => option.type !== "null").flatMap((option) => members(option, root));
  return [[schema.$ref?.split("/").pop() ?? found.title ?? "Action", found]];
}

function concernsTools(schema, root) {
  const { type } = constants(schema, root);
  return type === LIST_TOOLS || type === CALL_TOOL && "tool_name" in (schema.properties ?? {});
}

/** Whether listing tools is no action by the schema, so that a request for the list can do nothing else. */
export function refusesListing(root) {
  return members(root, root)
    .filter(([, schema]) => !concernsTools(schema, root))
    .every(([, schema]) => {
      const fixed = constants(schema, root).type ?? LIST_TOOLS;
      const missing = (schema.required ?? []).some((name) => name !== "type");
      const unknown = schema.additionalProperties === false && !("type" in (schema.properties ?? {}));
      return missing || unknown || fixed !== LIST_TOOLS;
    });
}

/** What is wrong with the fields of an object, as the server reports it: left out, no number, or out of bounds. */
export function unfit(schema, root, value) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).flatMap(([name, given]) => {
    const message = unfitField(describe(name, given, root), value[name], required.has(name));
    return message === null ? [] : [{ loc: [name], msg: message }];
  });
}

function unfitField({ kind, schema, nullable }, value, isRequired) {
  if (value === undefined || value === "" && kind !== "text" && kind !== "long" && kind !== "secret") {
    return isRequired && !(value === undefined && nullable) ? "Field required" : null;
  }
  if (kind !== "number" || value === null) return null;
  if (typeof value !== "number") return "Expected a number";
  if (schema.type === "integer" && !Number.isInteger(value)) return "Expected a whole number";
  if (value < schema.minimum || value <= schema.exclusiveMinimum) return `Expected ${schema.minimum === undefined ? "more than" : "at least"} ${schema.minimum ?? schema.exclusiveMinimum}`;
  if (value > schema.maximum || value >= schema.exclusiveMaximum) return `Expected ${schema.maximum === undefined ? "less than" : "at most"} ${schema.maximum ?? schema.exclusiveMaximum}`;
  return null;
}

/** The choices of an action that one press decides: it has a single field to fill, with few values. */
export function choices(kind) {
  const names = Object.keys(kind.schema.properties ?? {}).filter((name) => !kind.hidden.has(name));
  if (names.length !== 1) return [];
  const [name] = names;
  const described = describe(name, kind.schema.properties[name], kind.root);
  if (described.kind !== "enum" || described.schema.enum.length > 9) return [];
  const { schema } = described;
  return schema.enum.map((value) => ({ label: choiceLabel(value, schema), action: kind.step({ [name]: value }) }));
}

/** The name of an action as agents know it: `guess` for `GuessAction`. */
export function toolName(title) {
  const parted = title.replace(/(?<=.)Action$/, "").replace(/([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])/g, "$1$3_$2");
  return parted.toLowerCase().replace(/[^a-z0-9_]+/g, "_").replace(/^_+|_+$/g, "");
}
