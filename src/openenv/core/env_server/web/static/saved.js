// The page as a file: the answers that it was saved with, in place of a server, and its address, as a file has only one.

const BASE = "http://saved.invalid";
const RANGE = ["start", "stop", "limit", "after", "before"];
const PREFIX = /web\/.*$/;
// What stands for an entry that a file has no room for.
const LEFT_OUT = { kind: "step", at: 0, took_s: 0, failed: false, request: null, left_out: ["request", "observation"], answer: { observation: null, reward: null, done: false } };

const element = document.getElementById("saved");

/** What the page was saved with: `start`, `made_at`, `left_out` and `answers`; null on a server's page. */
export const SAVED = element === null ? null : JSON.parse(element.textContent);

/** The address of the page; in a file, what follows its "#". */
export function here() {
  return SAVED === null ? location : new URL(location.hash.slice(1) || SAVED.start, BASE);
}

/** Change the address of the page, which a view then shows. */
export function moveTo(address, replaces = false) {
  history[replaces ? "replaceState" : "pushState"](null, "", SAVED === null ? address : `#${address}`);
}

/** What a server answered to a path when the page was saved, or the range of it that the path names; undefined where it was left out. */
export function savedAnswer(path) {
  const { pathname, searchParams: query } = new URL(path, BASE + prefixOf(here()));
  const range = Object.fromEntries(RANGE.map((name) => [name, query.get(name)]));
  RANGE.forEach((name) => query.delete(name));
  query.sort();
  const whole = pathname.slice(1);
  const named = String(query);
  const key = [named ? `${whole}?${named}` : whole, `${whole}?*`].find((each) => Object.hasOwn(SAVED.answers, each));
  return key === undefined ? undefined : rangeOf(SAVED.answers[key], range);
}

function rangeOf(found, range) {
  if (Array.isArray(found?.rows) && range.limit !== null) return { ...found, rows: rangeOf(found.rows, range) };
  if (!Array.isArray(found)) return found;
  const { start, stop, limit, after, before } = range;
  if (before !== null) return found.slice(0, positionOf(found, before)).reverse().slice(0, limit ?? undefined);
  const first = after === null ? Number(start ?? 0) : positionOf(found, after) + 1;
  return found.slice(first, stop ?? (limit === null ? undefined : first + Number(limit))).map((each) => each ?? LEFT_OUT);
}

function positionOf(episodes, id) {
  return Math.max(0, episodes.findIndex((episode) => episode.id === id));
}

function prefixOf({ pathname }) {
  return pathname.replace(PREFIX, "");
}

/** Follow a link within the file, which begins anew there, as a server's page does. */
function follow(event) {
  const address = event.target.closest?.("a[href]")?.getAttribute("href");
  if (address === undefined || event.defaultPrevented || /^([a-z]+:|#)/.test(address)) return;
  event.preventDefault();
  const { pathname, search, hash } = new URL(address, here());
  moveTo(pathname + search + hash);
  location.reload();
}

if (SAVED !== null) {
  document.documentElement.dataset.saved = "";
  addEventListener("click", follow);
  const prefix = prefixOf(here());
  addEventListener("popstate", () => prefixOf(here()) !== prefix && location.reload());
}
