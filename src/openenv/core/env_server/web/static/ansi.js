// Text with the colours of a terminal, as elements. Nothing of the text is ever read as markup.
import { html } from "./html.js";

const SEQUENCE = /\x1b\[([0-9;:]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b./g;
const LEVELS = [0, 95, 135, 175, 215, 255];
// The sixteen colours as backgrounds and on them. Alone, the colours of text are those of the page's theme, in its style.
const BASIC = [
  [27, 29, 33], [179, 38, 30], [47, 143, 91], [199, 154, 0], [47, 79, 198], [139, 47, 160], [11, 106, 117], [213, 216, 220],
  [111, 116, 124], [217, 84, 75], [63, 174, 116], [227, 189, 74], [91, 120, 230], [173, 88, 194], [36, 146, 160], [255, 255, 255],
];
const BLACK = [0, 0, 0];
const WHITE = [255, 255, 255];
// WCAG 2.2, success criterion 1.4.3: what text needs to be read.
const LEAST_CONTRAST = 4.5;

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

/** Colours are numbers of the sixteen, or lists of red, green and blue; null is the page's own. */
function plain() {
  return { names: new Set(), colour: null, background: null };
}

function push(parts, text, { names, colour, background }) {
  if (text === "") return;
  const classes = [...names].filter((name) => name !== "ansi-reverse");
  const [front, back] = names.has("ansi-reverse") ? [background, colour] : [colour, background];
  let style = {};
  if (names.has("ansi-reverse") && back === null) classes.push("ansi-reverse");
  else if (back !== null) style = { backgroundColor: css(rgb(back)), color: css(legible(front, rgb(back))) };
  else if (typeof front === "number") classes.push(`ansi-fg-${front}`);
  else if (front !== null) {
    classes.push("ansi-fg");
    style = { "--ansi": css(front) };
  }
  parts.push(classes.length || back !== null ? html`<span class=${classes.join(" ")} style=${style}>${text}</span>` : text);
}

/** A colour of text that can be read on a background: the one that was chosen, if it can. */
function legible(colour, background) {
  const chosen = colour === null ? null : rgb(colour);
  if (chosen !== null && contrast(chosen, background) >= LEAST_CONTRAST) return chosen;
  return contrast(WHITE, background) > contrast(BLACK, background) ? WHITE : BLACK;
}

function contrast(one, other) {
  const [darker, lighter] = [luminance(one), luminance(other)].sort((first, second) => first - second);
  return (lighter + 0.05) / (darker + 0.05);
}

/** WCAG 2.2, "relative luminance". */
function luminance(colour) {
  const [red, green, blue] = colour.map((level) => (level <= 10 ? level / 3294 : ((level / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function rgb(colour) {
  return typeof colour === "number" ? BASIC[colour] : colour;
}

function css(colour) {
  return `rgb(${colour.join(" ")})`;
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

/** @returns The colour after a 38 or 48, null for none that there is, and how many numbers it takes. */
function extended([kind, ...values]) {
  if (kind === 2) return [values.length >= 3 && values.slice(0, 3).every(isByte) ? values.slice(0, 3) : null, 4];
  const [index] = values;
  if (kind !== 5 || !isByte(index)) return [null, 2];
  if (index < 16) return [index, 2];
  if (index > 231) return [Array(3).fill(8 + 10 * (index - 232)), 2];
  const cube = index - 16;
  return [[Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((level) => LEVELS[level]), 2];
}

function isByte(value) {
  return Number.isInteger(value) && value >= 0 && value <= 255;
}
