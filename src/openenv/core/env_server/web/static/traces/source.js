// The entries of an episode, read as they are looked at: in brief by ranges for the list, and whole one by one.
import { getPatiently } from "../api.js";
import { SAVED, savedAnswer } from "../saved.js";

/**
 * The path of an episode's routes; where several files are compared, its id begins with the number of its file and a colon.
 */
export function episodePath(id) {
  const [, source, own] = /^(?:(\d+):)?(.*)$/.exec(id);
  return `${source === undefined ? "" : `${source}/`}web/traces/episodes/${encodeURIComponent(own)}`;
}

/** The path that answers with the first difference of two episodes, of one file or of two. */
export function differencePath(first, second) {
  if (first.includes(":")) return `web/compare/difference/${encodeURIComponent(first)}/${encodeURIComponent(second)}`;
  return `${episodePath(first)}/difference/${encodeURIComponent(second)}`;
}

/** What an episode is called: its id, after the name of its source where several are compared. */
export function labelOf(id, { compare }) {
  const [source, own] = id.split(":");
  return own === undefined ? id : `${compare[Number(source) - 1] ?? source} ${own}`;
}

const RANGE = 200;
const WHOLE_KEPT = 60;

export class Source {
  /**
   * @param {string} id Id of the episode.
   * @param {() => void} onChange Called when something was read.
   * @param {(problem: string | null) => void} onProblem As of `getPatiently`.
   */
  constructor(id, onChange, onProblem) {
    this.path = episodePath(id);
    this.onChange = onChange;
    this.onProblem = onProblem;
    this.shown = new AbortController(); // ends all
    this.looked = new AbortController(); // ends what is read of the entry that was looked at
    this.rows = new Map();
    this.whole = new Map();
    this.requested = new Set();
  }

  row(number) {
    return this.rows.get(number) ?? null;
  }

  at(number) {
    if (SAVED !== null) return savedAnswer(`${this.path}/entries?start=${number}&stop=${number + 1}`)?.[0];
    return this.whole.has(number) ? this.whole.get(number) : null;
  }

  async wantRows(first, last) {
    for (let range = Math.floor(first / RANGE); range * RANGE < Math.max(last, first + 1); range += 1) {
      if (this.requested.has(range)) continue;
      this.requested.add(range);
      const start = range * RANGE;
      const found = await getPatiently(`${this.path}/entries?brief=true&start=${start}&stop=${start + RANGE}`, this.shown.signal, this.onProblem);
      found.forEach((entry, at) => this.rows.set(start + at, { ...entry, answer: { reward: entry.reward } }));
      this.onChange();
    }
  }

  /** Read entries with their pictures, in this order; undefined where the episode has no such entry. */
  async want(numbers) {
    if (SAVED !== null) return;
    this.looked.abort();
    this.looked = new AbortController();
    const { signal } = this.looked;
    for (const number of numbers) {
      if (this.whole.has(number)) continue;
      const [entry] = await getPatiently(`${this.path}/entries?start=${number}&stop=${number + 1}`, signal, this.onProblem);
      this.whole.set(number, entry);
      if (this.whole.size > WHOLE_KEPT) this.whole.delete(this.whole.keys().next().value);
      this.onChange();
    }
  }

  close() {
    this.shown.abort();
    this.looked.abort();
  }
}
