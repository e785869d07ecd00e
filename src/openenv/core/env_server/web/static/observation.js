// An observation: as its environment renders it, else readable by itself.
import { ansi } from "./ansi.js";
import { html, useState } from "./html.js";
import { isShort, Json } from "./json.js";
import { declaredPicture, isPixels, Pixels, PIXELS } from "./pixels.js";

const IMAGE_BEGINNINGS = { iVBORw0KGgo: "png", "/9j/": "jpeg", R0lGOD: "gif", UklGR: "webp" };
const SVG = "image/svg+xml";
const MOST_CELLS = 1600;
const LONGEST_BOARD_CELL = 6;
const LONGEST_CELL = 60;
const MOST_IN_LINE = 16;
const LONG_LINE = 60;
const WORDS = /[a-z]{2,} [a-z]{2,} [a-z]{2,}/i;
const LONGEST_TEXT = 100_000;
const LONGEST_TEXTS = 1_000_000;
const OPEN_JSON = 2_000;
const MOST_FIELDS = 200;
// For the frame of an environment's HTML: no script, and nothing is loaded. The page's own policy holds there, too.
const FRAME_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/** Show an observation, with what its environment rendered and its schema, if they are known. */
export function Observation({ observation, view, raw, first, schema }) {
  return html`<div class="observation" data-testid="observation">
    ${raw ? html`<${Json} value=${observation} label="Observation as JSON" />` : html`<${Rendered} observation=${observation} view=${view} first=${first} schema=${schema} />`}
  </div>`;
}

function Rendered({ observation, view, first, schema }) {
  const { metadata, ...fields } = observation ?? {};
  if (view?.html) {
    return html`<${Frame} content=${view.html} title="The environment's own view" />
      <details class="more"><summary>All fields</summary><div class="fields"><${Fields} value=${fields} schema=${schema} /></div></details>`;
  }
  const picture = view?.media_type ? html`<${Picture} picture=${view} alt="The environment's picture" />` : null;
  // The text, for models, says what the picture shows; with the first picture also the task.
  const isFolded = picture !== null && typeof fields.text === "string";
  return html`
    ${view?.problem && html`<p class="note">The environment could not render this: ${view.problem}</p>`}
    ${picture}
    ${isFolded
      ? html`<details class="more" open=${first && view.content !== fields.text}><summary>What a model reads</summary><div class="fields"><${Fields} value=${fields} schema=${schema} /></div></details>`
      : html`<${Fields} value=${fields} schema=${schema} />`}`;
}

/** HTML of an environment, in a frame that may do nothing. */
export function Frame({ content, title }) {
  const page = `<meta http-equiv="Content-Security-Policy" content="${FRAME_POLICY}"><meta name="color-scheme" content="light dark"><style>:root { print-color-adjust: exact }</style>${content}`;
  return html`<iframe class="frame" sandbox="" srcdoc=${page} title=${title}></iframe>`;
}

/** A picture as the wire has it: `media_type` and `content`. */
export function Picture({ picture, alt }) {
  const { media_type: type, content } = picture;
  if (type === "text/plain") return html`<pre class=${`text terminal ${isProse(content) ? "prose" : ""}`} tabindex="0" role="img" aria-label=${alt}>${ansi(content)}</pre>`;
  if (type === "text/html") return html`<${Frame} content=${content} title=${alt} />`;
  const source = type === SVG ? `data:${SVG};charset=utf-8,${encodeURIComponent(content)}` : `data:${type};base64,${content}`;
  return html`<img class="picture" src=${source} alt=${alt} />`;
}

/** Whether a text has a sentence that is longer than a board is wide, and is to be wrapped. */
function isProse(text) {
  return text.split("\n").some((row) => row.length > LONG_LINE && WORDS.test(row));
}

/** The fields of an object, those first that show most; of the schema, pictures are known that look like other values. */
export function Fields({ value, schema }) {
  const all = Object.entries(value ?? {});
  const entries = all.slice(0, MOST_FIELDS).map(([name, field]) => {
    const declared = schema ? declaredPicture(schema, name, schema) : null;
    if (declared === PIXELS) return [name, field, isPixels(field) ? PIXELS : shapeOf(field)];
    const shown = declared !== null && typeof field === "string" && field !== "" ? { media_type: declared, content: field } : field;
    return [name, shown, shapeOf(shown)];
  });
  const large = entries.filter(([, , shape]) => shape !== "line");
  const small = entries.filter(([, , shape]) => shape === "line");
  const order = [PIXELS, "picture", "pictures", "text", "content", "board", "lines", "rows", "records", "object", "json"];
  large.sort((one, other) => order.indexOf(one[2]) - order.indexOf(other[2]));
  if (entries.length === 0) return html`<p class="note">Nothing to show.</p>`;
  return html`
    ${large.map(([name, field, shape]) => html`
      <section class="field" key=${name}>
        <h3>${words(name)}</h3>
        <${Value} name=${name} value=${field} shape=${shape} longest=${Math.min(LONGEST_TEXT, Math.floor(LONGEST_TEXTS / large.length))} />
      </section>`)}
    ${small.length > 0 && html`<dl class="facts">${small.map(([name, field]) => html`
      <div key=${name}><dt>${words(name)}</dt><dd>${line(field)}</dd></div>`)}</dl>`}
    ${all.length > MOST_FIELDS && html`<p class="note">… ${(all.length - MOST_FIELDS).toLocaleString()} more fields</p>`}`;
}

function Value({ name, value, shape, longest }) {
  switch (shape) {
    case PIXELS:
      return html`<${Pixels} rows=${value} alt=${words(name)} />`;
    case "picture":
      return html`<${Picture} picture=${pictureOf(value)} alt=${words(name)} />`;
    case "pictures":
      return html`<div class="pictures">${value.map((one, at) => html`<${Picture} picture=${pictureOf(one)} alt=${`${words(name)} ${at + 1}`} />`)}</div>`;
    case "text":
      return html`<${Text} text=${value} name=${words(name)} longest=${longest} />`;
    case "content":
      return value.map((part) => (part.type === "text" ? html`<${Text} text=${part.text} name=${words(name)} />` : html`<${Picture} picture=${{ media_type: part.mimeType, content: part.data }} alt=${words(name)} />`));
    case "board":
      return html`<${Board} rows=${value} name=${words(name)} />`;
    case "lines":
      return html`<pre class="text board-text" tabindex="0" role="group" aria-label=${words(name)}>${value.join("\n")}</pre>`;
    case "rows":
      return html`<${Rows} rows=${value} name=${words(name)} />`;
    case "records":
      return html`<${Rows} head=${Object.keys(value[0])} rows=${value.map(Object.values)} name=${words(name)} />`;
    case "object":
      return html`<div class="nested"><${Fields} value=${value} /></div>`;
    default:
      return html`<${Folded} value=${value} name=${words(name)} />`;
  }
}

/** A text with the colours of a terminal; of a long one, the beginning. */
export function Text({ text, name, longest = LONGEST_TEXT }) {
  const more = text.length - longest;
  return html`<pre class="text" tabindex="0" role="group" aria-label=${name}>${ansi(more > 0 ? text.slice(0, longest) : text)}</pre>
    ${more > 0 && html`<p class="note">… ${more.toLocaleString()} more characters</p>`}`;
}

function Folded({ value, name }) {
  const [isPicture, setPicture] = useState(false);
  const [isOpen, setOpen] = useState(() => isShort(value, OPEN_JSON));
  if (isPicture) return html`<${Pixels} rows=${value} alt=${name} />`;
  const count = Array.isArray(value) ? sizes(value).join("×") : Object.keys(value).length;
  return html`<details class="fold" open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}><summary>${Array.isArray(value) ? "list" : "object"} · ${count}</summary>${isOpen && html`<${Json} value=${value} label=${name} />`}</details>
    ${isPixels(value) && html`<button type="button" class="quiet" onClick=${() => setPicture(true)}>Show as a picture</button>`}`;
}

function sizes(value) {
  return Array.isArray(value) ? [value.length, ...(Array.isArray(value[0]) ? sizes(value[0]) : [])] : [];
}

/** A grid of numbers or short words. */
function Board({ rows, name }) {
  const largest = Math.max(...rows.flat().map((cell) => (typeof cell === "number" ? Math.abs(cell) : 0)), 1);
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${name}><table class="board"><tbody>${rows.map((row) => html`
    <tr>${row.map((cell) => html`<td style=${{ "--heat": heat(cell, largest) }}>${cell === 0 ? html`<span class="zero">0</span>` : String(cell ?? "")}</td>`)}</tr>`)}
  </tbody></table></div>`;
}

function Rows({ head, rows, name }) {
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${name}><table class="rows">
    ${head && html`<thead><tr>${head.map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>`}
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell === null ? html`<span class="none">none</span>` : String(cell)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

function heat(cell, largest) {
  if (typeof cell !== "number" || cell === 0) return "0%";
  return `${Math.round((60 * Math.log2(1 + Math.abs(cell))) / Math.log2(1 + largest))}%`;
}

/** How a value is shown. */
function shapeOf(value) {
  if (typeof value === "string") return textShape(value);
  if (Array.isArray(value)) return listShape(value);
  if (value !== null && typeof value === "object") {
    if (pictureOf(value)) return "picture";
    const count = Object.keys(value).length;
    return count === 0 ? "line" : count > MOST_FIELDS || !isShort(value, LONGEST_TEXT) ? "json" : "object";
  }
  return "line";
}

function textShape(value) {
  if (pictureOf(value)) return "picture";
  return value.includes("\n") || value.length > LONG_LINE ? "text" : "line";
}

function listShape(value) {
  if (value.length === 0) return "line";
  if (value.every(pictureOf)) return "pictures";
  if (value.every(isContent)) return "content";
  if (value.every(isScalar)) return scalarsShape(value);
  if (value.every((row) => Array.isArray(row) && row.length === value[0].length && row.length > 0)) return gridShape(value);
  return areRecords(value) ? "records" : "json";
}

/** Whether a value is a part of what a tool of MCP returned, and is shown as what it holds. */
function isContent(value) {
  if (value?.type === "text") return typeof value.text === "string";
  return value?.type === "image" && typeof value.data === "string" && /^image\/[a-z+.-]+$/.test(value.mimeType);
}

function gridShape(rows) {
  if (rows.length * rows[0].length > MOST_CELLS) return "json";
  const cells = rows.flat();
  if (!cells.every(isScalar)) return "json";
  if (rows.length > 1 && rows[0].length > 1 && cells.every((cell) => String(cell).length <= LONGEST_BOARD_CELL)) return "board";
  return cells.every((cell) => String(cell).length <= LONGEST_CELL) ? "rows" : "json";
}

function areRecords(value) {
  if (value.length > MOST_CELLS || !value.every((item) => item !== null && typeof item === "object" && !Array.isArray(item))) return false;
  const names = Object.keys(value[0]).join();
  const cells = value.flatMap(Object.values);
  return cells.length <= MOST_CELLS && value.every((item) => Object.keys(item).join() === names)
    && cells.every((cell) => isScalar(cell) && String(cell).length <= LONGEST_CELL);
}

function scalarsShape(value) {
  const texts = value.every((item) => typeof item === "string");
  if (texts && value.length > 2 && value.length <= MOST_CELLS && value[0].length > 2 && value.every((item) => item.length === value[0].length && !item.includes(" "))) return "lines";
  return value.length <= MOST_IN_LINE && isShort(value, 400) && JSON.stringify(value).length <= 200 ? "line" : "json";
}

function isScalar(value) {
  return value === null || typeof value !== "object";
}

/** The picture in a value: a data URL, an image's base64, or an object with a media type; null for none. */
export function pictureOf(value) {
  if (value !== null && typeof value === "object") {
    return typeof value.media_type === "string" && typeof value.content === "string" ? value : null;
  }
  if (typeof value !== "string") return null;
  const url = value.slice(0, 60).match(/^data:(image\/[a-z+.-]+);base64,/);
  if (url) return { media_type: url[1], content: value.slice(url[0].length) };
  const begin = Object.keys(IMAGE_BEGINNINGS).find((beginning) => value.startsWith(beginning));
  return begin && value.length > 60 ? { media_type: `image/${IMAGE_BEGINNINGS[begin]}`, content: value } : null;
}

function line(value) {
  if (value === null || value === undefined) return html`<span class="none">none</span>`;
  if (Array.isArray(value)) return value.length === 0 ? html`<span class="none">none</span>` : value.map((item) => html`<span class="chip">${String(item)}</span>`);
  if (typeof value === "object" || value === "") return html`<span class="none">empty</span>`;
  if (typeof value === "number" && !Number.isInteger(value)) return String(Number(value.toPrecision(6)));
  return typeof value === "string" ? ansi(value) : String(value);
}

export function words(name) {
  const spaced = name.replaceAll("_", " ");
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}
