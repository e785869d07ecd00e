// The same call as Python, curl and MCP, to copy.
import { hasToken, ROOT } from "./api.js";

const LONG = 88;

export const LANGUAGES = ["Python", "curl", "MCP"];

/** Write what was played last, in a language. */
export function snippet(language, turns, kind) {
  const reset = turns[0]?.type === "reset" ? turns[0].request : {};
  const action = turns.length > 1 ? turns[turns.length - 1].request : null;
  const address = ROOT.href.replace(/\/$/, "");
  if (language === "Python") return python(address, reset, action);
  return language === "curl" ? curl(address, reset, action) : mcp(address, action, kind);
}

function python(address, reset, action) {
  const lines = [
    "from openenv import GenericEnvClient",
    "",
    `with GenericEnvClient(base_url=${literal(address)}).sync() as client:`,
    `    result = client.reset(${Object.entries(reset).map(([name, value]) => `${name}=${literal(value)}`).join(", ")})`,
  ];
  if (action !== null) lines.push(`    result = client.step(${literal(action)})`);
  lines.push("    print(result.observation, result.reward, result.done)");
  const note = hasToken() ? "# The server's token comes from the variable OPENENV_TOKEN.\n" : "";
  return note + lines.join("\n");
}

/** A JSON value as Python writes it. */
export function literal(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, item]) => `${literal(key)}: ${literal(item)}`).join(", ")}}`;
  return JSON.stringify(value);
}

function curl(address, reset, action) {
  const token = hasToken() ? ' -H "Authorization: Bearer $OPENENV_TOKEN"' : "";
  const call = (path, body) => {
    const command = `curl -b jar -c jar${token} -H 'Content-Type: application/json'`;
    const data = `-d ${quoted(JSON.stringify(body))} ${address}/${path}`;
    return command.length + data.length > LONG ? `${command} \\\n  ${data}` : `${command} ${data}`;
  };
  return [call("reset", reset), ...(action === null ? [] : [call("step", { action })])].join("\n");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function mcp(address, action, kind) {
  const call = { name: kind?.name ?? "…", arguments: argumentsOf(action) };
  const request = { jsonrpc: "2.0", id: 1, method: "tools/call", params: call };
  return `# An agent's server: ${address}/mcp\n${JSON.stringify(request, null, 2)}`;
}

function argumentsOf(action) {
  if (action === null) return {};
  if (action.type === "call_tool") return action.arguments;
  const { type, ...fields } = action;
  return fields;
}
