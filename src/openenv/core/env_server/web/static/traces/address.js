// What the address says of the view: the list or the grid, its filter, and the episodes that are shown.

export const MOST_BESIDE = 4;
const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d{1,3})?$/i;
// What a filter has: conditions with a field, and those that come with a link, as from a cell of the grid, by their names.
export const TYPED = ["text", "environment", "ending", "min_reward", "seed", "evaluation"];
export const LINKED = { split: "split", index: "task", model: "model", version: "version", run: "run", max_reward: "reward to", since: "since" };
// What the server reads as numbers and as a choice; it refuses a query with others.
const FORMS = { min_reward: NUMBER, max_reward: NUMBER, since: NUMBER, run: /^\d{1,15}$/, evaluation: /^(true|false)$/ };

export function placeOf({ search }) {
  const { view = "list", by = "", episode, with: others = "", ...filter } = Object.fromEntries(new URLSearchParams(search));
  const ids = [episode, ...others.split(",")].filter(Boolean).slice(0, MOST_BESIDE);
  const names = [...TYPED, ...Object.keys(LINKED)]; // the server refuses a query with others
  return { view, by, ids, filter: Object.fromEntries(Object.entries(filter).filter(([name, value]) => names.includes(name) && isReadable([name, value]))) };
}

/** The address of a place in the page. */
export function addressOf({ view, by, ids: [episode, ...others], filter }) {
  const query = { view: view === "list" ? "" : view, by, episode, with: others.join(), ...filter };
  return `${location.pathname}?${queryOf(query)}`;
}

/** A query of what is given; a number that is being typed, such as "-", is left out until it is one. */
export function queryOf(values) {
  return new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null).filter(isReadable)).toString();
}

/** Whether the server can read a value under its name. */
export function isReadable([name, value]) {
  return FORMS[name] === undefined || FORMS[name].test(value);
}
