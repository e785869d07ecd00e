// Text with the colours of a terminal, as elements. Nothing of the text is ever read as markup.
import { html } from "./html.js";

const SEQUENCE = /\x1b\[([0-9;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b./g;
const DARK = new Set([0, 1, 2, 4, 5, 6, 8]);
const LEVELS = [0, 95, 135, 175, 215, 255];

/** @returns The text's elements. */
export function ansi(text) {
  if (!text.includes("\x1b")) return text;
  const parts = [];
  let style = plain();
  let from = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    push(parts, text.slice(from, match.index), style);
    if (match[2] === "m") style = changed(style, match[1]);
    from = match.index + match[0].length;
  }
  push(parts, text.slice(from), style);
  return parts;
}

function plain() {
  return { names: new Set(), colour: null, background: null };
}

function push(parts, text, { names, colour, background }) {
  if (text === "") return;
  const classes = [...names];
  const style = {};
  paint(colour, "fg", "color", classes, style);
  paint(background, "bg", "background-color", classes, style);
  if (background !== null && colour === null) classes.push(isDark(background) ? "ansi-on-dark" : "ansi-on-light");
  parts.push(classes.length || colour || background ? html`<span class=${classes.join(" ")} style=${style}>${text}</span>` : text);
}

function paint(colour, prefix, property, classes, style) {
  if (typeof colour === "number") classes.push(`ansi-${prefix}-${colour}`);
  else if (colour !== null) style[property] = colour;
}

/** Whether light text can be read on a background, which has no colour of text beside it. */
function isDark(background) {
  if (typeof background === "number") return DARK.has(background);
  const [red, green, blue] = background.match(/\d+/g).map(Number);
  return 0.3 * red + 0.59 * green + 0.11 * blue < 128;
}

function changed(before, codes) {
  const style = { ...before, names: new Set(before.names) };
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) Object.assign(style, plain());
    else if (code === 1) style.names.add("ansi-bold");
    else if (code === 2) style.names.add("ansi-dim");
    else if (code === 3) style.names.add("ansi-italic");
    else if (code === 4) style.names.add("ansi-underline");
    else if (code === 7) style.names.add("ansi-reverse");
    else if (code === 22) ["ansi-bold", "ansi-dim"].forEach((name) => style.names.delete(name));
    else if (code === 27) style.names.delete("ansi-reverse");
    else if (code === 39) style.colour = null;
    else if (code === 49) style.background = null;
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(numbers.slice(at + 1));
      style[code === 38 ? "colour" : "background"] = colour;
      at += used;
    } else setBasic(style, code);
  }
  return style;
}

function setBasic(style, code) {
  if (code >= 30 && code <= 37) style.colour = code - 30;
  else if (code >= 90 && code <= 97) style.colour = code - 82;
  else if (code >= 40 && code <= 47) style.background = code - 40;
  else if (code >= 100 && code <= 107) style.background = code - 92;
}

function extended([kind, ...values]) {
  if (kind === 2) return [`rgb(${values.slice(0, 3).join(" ")})`, 4];
  const [index] = values;
  if (index < 16) return [index, 2];
  if (index > 231) return [`rgb(${Array(3).fill(8 + 10 * (index - 232)).join(" ")})`, 2];
  const cube = index - 16;
  const [red, green, blue] = [Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((level) => LEVELS[level]);
  return [`rgb(${red} ${green} ${blue})`, 2];
}
