// What the address says of the view: the list or the grid, its filter, the order of the list, and the episodes that are shown.

import { here } from "../saved.js";

export const MOST_BESIDE = 4;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?$/i;
// What a filter has: conditions with a field, and those that come with a link, as from a cell of the grid, by their names.
export const TYPED = ["text", "environment", "ending", "model", "token_name", "label", "component", "min_reward", "max_reward", "seed", "evaluation", "flag", "since", "until"];
export const LINKED = { split: "split", index: "task", version: "version", run: "run" };
// Orders of the list, with what the page calls them.
export const ORDERS = { newest: "newest first", oldest: "oldest first", best: "highest reward first", worst: "lowest reward first", longest: "most steps first", shortest: "fewest steps first" };
// What stands out about episodes, with the chip's text and what it says; that of an error has the error's code.
export const FLAGS = {
  cut_off: { label: "cut off", title: "It was cut off before its end, as by a limit of steps." },
  length_limit: { label: "length limit", title: "A limit of turns or tokens cut it off, on the model's side." },
  no_reward: { label: "no reward", title: "None of its steps had a reward." },
  no_variance: { label: "no variance", title: "All episodes of its group in the training have the same reward: nothing is learned from them." },
  above_scripted: { label: "above scripted", title: "Its reward is above the mean of the scripted player." },
  error: { label: "error", title: "Its environment failed." },
};
// What the server reads as numbers and as a choice; it refuses a query with others.
const FORMS = { min_reward: NUMBER, max_reward: NUMBER, since: NUMBER, until: NUMBER, run: /^\d{1,15}$/, evaluation: /^(true|false)$/, flag: new RegExp(`^(${Object.keys(FLAGS).join("|")})$`) };

export function placeOf({ search }) {
  const { view = "list", by = "", order = "", episode, with: others = "", ...filter } = Object.fromEntries(new URLSearchParams(search));
  const ids = [episode, ...others.split(",")].filter(Boolean).slice(0, MOST_BESIDE);
  const names = [...TYPED, ...Object.keys(LINKED)]; // the server refuses a query with others
  return { view, by, order: ORDERS[order] && order, ids, filter: Object.fromEntries(Object.entries(filter).filter(([name, value]) => names.includes(name) && isReadable([name, value]))) };
}

/** The address of a place in the page. */
export function addressOf({ view, by, order, ids: [episode, ...others], filter }) {
  const query = { view: view === "list" ? "" : view, by, order, episode, with: others.join(), ...filter };
  return `${here().pathname}?${queryOf(query)}`;
}

/** A query of what is given; a number that is being typed, such as "-", is left out until it is one. */
export function queryOf(values) {
  return new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null).filter(isReadable)).toString();
}

/** Whether the server can read a value under its name. */
export function isReadable([name, value]) {
  return FORMS[name] === undefined || FORMS[name].test(value);
}
