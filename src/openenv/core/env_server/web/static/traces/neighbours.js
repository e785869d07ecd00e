// The episodes before and after one in the list that the address describes: as links, and by keys.
import { getPatiently } from "../api.js";
import { isForPage } from "../entry.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { addressOf, queryOf } from "./address.js";

const LINKS = [
  { name: "Previous", key: "p", bound: "before" },
  { name: "Next", key: "n", bound: "after" },
];

let followed = null; // name of the link that led to the episode, which has the focus there, too

export function Neighbours({ place, go, onLoadError, onProblem }) {
  const [found, setFound] = useState({}); // ids by the links' names; null at an end of the list
  const links = useRef({});
  const latest = useRef(found);
  latest.current = found;
  const [id] = place.ids;
  const open = (name, event) => {
    event.preventDefault();
    if (!latest.current[name]) return;
    followed = event.type === "click" ? name : null;
    go({ ids: [latest.current[name]] });
  };
  useEffect(() => {
    const shown = new AbortController();
    const load = async ({ name, bound }) => {
      const [episode] = await getPatiently(`web/traces/episodes?${queryOf({ ...place.filter, order: place.order, [bound]: id, limit: 1 })}`, shown.signal, onProblem);
      setFound((others) => ({ ...others, [name]: episode?.id ?? null }));
    };
    LINKS.forEach((link) => load(link).catch(onLoadError));
    const listener = (event) => {
      const link = isForPage(event) && LINKS.find(({ key }) => key === event.key);
      if (link) open(link.name, event);
    };
    document.addEventListener("keydown", listener);
    if (followed !== null) links.current[followed].focus();
    followed = null;
    return () => {
      shown.abort();
      document.removeEventListener("keydown", listener);
    };
  }, []);
  return html`<nav class="neighbours" aria-label="Episodes of the list">${LINKS.map(({ name, key }) => html`<a key=${name} ref=${(link) => (links.current[name] = link)} role="link" tabindex="0"
    href=${found[name] ? addressOf({ ...place, ids: [found[name]] }) : undefined} aria-disabled=${found[name] ? undefined : "true"} aria-keyshortcuts=${key} title=${`${name} episode of the list (key ${key})`} onClick=${(event) => open(name, event)}>${name}</a>`)}</nav>`;
}
