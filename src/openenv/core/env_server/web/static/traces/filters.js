// The filter of the list and the grid, and the choice between these two.
import { getJson } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { addressOf, isReadable, LINKED, TYPED } from "./address.js";

const ENDINGS = ["done", "truncated", "running", "closed", "reset", "idle", "shutdown", "interrupted"];
// Whether episodes are listed that a training evaluated by, by the value in the query.
const EVALUATIONS = { true: "only", false: "none" };

export function Filters({ place, go }) {
  const [environments, setEnvironments] = useState([]);
  useEffect(() => {
    getJson("web/traces/environments").then(setEnvironments, () => {}); // the list says what is wrong
  }, []);
  const { filter } = place;
  const set = (name) => (event) => go({ filter: { ...filter, [name]: event.target.value } }, true);
  const linked = Object.keys(LINKED).filter((name) => filter[name]);
  const names = environments.includes(filter.environment ?? "") || !filter.environment ? environments : [...environments, filter.environment];
  return html`<form class="panel filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <div class="input wide"><label for="text">Search</label><input id="text" type="search" placeholder="text of requests, answers and messages" value=${filter.text ?? ""} onInput=${set("text")} /></div>
    <div class="input"><label for="environment">Environment</label><${Options} id="environment" names=${names} value=${filter.environment} onChange=${set("environment")} /></div>
    <div class="input"><label for="ending">Ending</label><${Options} id="ending" names=${ENDINGS} value=${filter.ending} onChange=${set("ending")} /></div>
    <div class="input"><label for="min_reward">Reward from</label><input id="min_reward" inputmode="text" aria-invalid=${Boolean(filter.min_reward) && !isReadable(["min_reward", filter.min_reward])} value=${filter.min_reward ?? ""} onInput=${set("min_reward")} /></div>
    <div class="input"><label for="seed">Seed</label><input id="seed" inputmode="numeric" value=${filter.seed ?? ""} onInput=${set("seed")} /></div>
    <div class="input"><label for="evaluation">Evaluations</label><${Options} id="evaluation" names=${Object.keys(EVALUATIONS)} texts=${EVALUATIONS} value=${filter.evaluation} onChange=${set("evaluation")} /></div>
    ${(linked.length > 0 || TYPED.some((name) => filter[name])) && html`<div class="linked">
      ${linked.map((name) => html`<button type="button" class="secondary" aria-label=${`Remove ${LINKED[name]} ${filter[name]}`} onClick=${() => go({ filter: { ...filter, [name]: "" } })}>${LINKED[name]} ${filter[name]} <span aria-hidden="true">×</span></button>`)}
      <button type="button" class="quiet" onClick=${() => go({ filter: {} })}>Clear all</button></div>`}
  </form>`;
}

function Options({ id, names, texts = {}, value, onChange }) {
  return html`<select id=${id} onChange=${onChange}><option value="">all</option>${names.map((name) => html`<option value=${name} selected=${name === value}>${texts[name] ?? name}</option>`)}</select>`;
}

/** Links between the list and the grid. */
export function Views({ place, go }) {
  return html`<nav class="views" aria-label="Views">${["list", "grid"].map((view) => {
    const next = { ...place, view };
    const open = (event) => {
      event.preventDefault();
      go(next);
    };
    return html`<a href=${addressOf(next)} aria-current=${place.view === view ? "page" : undefined} onClick=${open}>${view === "list" ? "Episodes" : "Tasks by runs"}</a>`;
  })}</nav>`;
}
