// JSON for people to read: coloured, with long lists folded.
import { html } from "./html.js";

const LONGEST_TEXT = 100_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

export function Json({ value, label }) {
  const text = JSON.stringify(value, null, 2) ?? "null";
  const shown = text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}\n… ${text.length - LONGEST_TEXT} more characters` : text;
  return html`<pre class="json" tabindex="0" role="group" aria-label=${label}>${coloured(compact(shown))}</pre>`;
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
