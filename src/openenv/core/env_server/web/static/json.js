// JSON for people to read: coloured, with long lists folded.
import { html } from "./html.js";

const LONGEST_TEXT = 100_000;
const MOST_VALUES = 20_000;
const MOST_IN_LINE = 120;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** JSON of a value; `inLine` writes what is short in one line. */
export function Json({ value, label, inLine = false }) {
  const { text, isWhole } = written(value);
  const line = inLine && text.length < MOST_IN_LINE ? text.replace(/\n\s*/g, " ") : text;
  return html`<pre class="json" tabindex="0" role="group" aria-label=${label}>${coloured(compact(line))}${isWhole ? "" : "\n… and more"}</pre>`;
}

/** Whether the JSON of a value is as short as that; no more of it is looked at. */
export function isShort(value, length) {
  const { text, isWhole } = written(value, length);
  return isWhole && text.length <= length;
}

/** The beginning of a value's JSON, cut before it is written, since all of it could take seconds. */
function written(value, longest = LONGEST_TEXT) {
  const room = { values: MOST_VALUES, characters: longest };
  const text = JSON.stringify(beginning(value, room), null, 2) ?? "null";
  const isWhole = room.values > 0 && room.characters > 0;
  return { text: text.slice(0, 2 * LONGEST_TEXT), isWhole: isWhole && text.length <= 2 * LONGEST_TEXT };
}

function beginning(value, room) {
  room.values -= 1;
  if (typeof value === "string") return beginningOfText(value, room);
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) {
    const items = [];
    for (const item of value) {
      if (room.values <= 0 || room.characters <= 0) break;
      items.push(beginning(item, room));
    }
    return items;
  }
  const fields = {};
  for (const name in value) {
    if (room.values <= 0 || room.characters <= 0) break;
    room.characters -= name.length;
    fields[name] = beginning(value[name], room);
  }
  return fields;
}

function beginningOfText(text, room) {
  const shown = text.slice(0, Math.max(room.characters, 0));
  room.characters -= text.length;
  return shown;
}

/** Write lists of numbers in one line each. */
function compact(text) {
  return text.replace(/\[\s*(-?[\d.eE+-]+(?:,\s*-?[\d.eE+-]+)*)\s*\]/g, (_, inner) => `[${inner.replace(/\s+/g, " ")}]`);
}

function coloured(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [whole, string, colon, word] = match;
    parts.push(text.slice(from, match.index));
    if (string) parts.push(html`<span class=${colon ? "json-key" : "json-text"}>${string}</span>`, colon ?? "");
    else parts.push(html`<span class=${word ? "json-word" : "json-number"}>${whole}</span>`);
    from = match.index + whole.length;
  }
  parts.push(text.slice(from));
  return parts;
}
