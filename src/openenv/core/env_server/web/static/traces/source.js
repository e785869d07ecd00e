// The entries of an episode, read as they are looked at: in brief by ranges for the list, and whole one by one.
import { getJson } from "../api.js";

const RANGE = 200;
const WHOLE_KEPT = 60;

export class Source {
  /**
   * @param {string} id Id of the episode.
   * @param {() => void} onChange Called when something was read.
   */
  constructor(id, onChange) {
    this.path = `web/traces/episodes/${encodeURIComponent(id)}`;
    this.onChange = onChange;
    this.rows = new Map();
    this.whole = new Map();
    this.requested = new Set();
  }

  row(number) {
    return this.rows.get(number) ?? null;
  }

  at(number) {
    return this.whole.has(number) ? this.whole.get(number) : null;
  }

  async wantRows(first, last) {
    for (let range = Math.floor(first / RANGE); range * RANGE < Math.max(last, first + 1); range += 1) {
      if (this.requested.has(range)) continue;
      this.requested.add(range);
      const start = range * RANGE;
      const found = await getJson(`${this.path}/entries?brief=true&start=${start}&stop=${start + RANGE}`);
      found.forEach((entry, at) => this.rows.set(start + at, { ...entry, answer: { reward: entry.reward } }));
      this.onChange();
    }
  }

  /** Read an entry with its pictures; undefined where the episode has no such entry. */
  async want(number) {
    if (this.whole.has(number)) return;
    const [entry] = await getJson(`${this.path}/entries?start=${number}&stop=${number + 1}`);
    this.whole.set(number, entry);
    if (this.whole.size > WHOLE_KEPT) this.whole.delete(this.whole.keys().next().value);
    this.onChange();
  }
}
