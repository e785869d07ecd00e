// What the address says of the view: the list or the grid, its filter, and the episodes that are shown.

export const MOST_BESIDE = 4;

export function placeOf({ search }) {
  const { view = "list", by = "", episode, with: others = "", ...filter } = Object.fromEntries(new URLSearchParams(search));
  const ids = [episode, ...others.split(",")].filter(Boolean).slice(0, MOST_BESIDE);
  return { view, by, ids, filter };
}

/** The address of a place in the page. */
export function addressOf({ view, by, ids: [episode, ...others], filter }) {
  const query = { view: view === "list" ? "" : view, by, episode, with: others.join(), ...filter };
  return `${location.pathname}?${queryOf(query)}`;
}

/** A query of what is given. */
export function queryOf(values) {
  return new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== undefined && value !== null)).toString();
}
