// The filter of the list and the grid, and the choice between these two.
import { getJson } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { addressOf, FLAGS, isReadable, LINKED, TYPED } from "./address.js";

const ENDINGS = ["done", "truncated", "running", "closed", "reset", "idle", "shutdown", "interrupted"];
// Seconds, so that a list to a second has all of it.
const WITHIN_SECOND = 0.999;
// Whether episodes are listed that a training evaluated by, by the value in the query.
const EVALUATIONS = { true: "only", false: "none" };

const FLAG_LABELS = Object.fromEntries(Object.entries(FLAGS).map(([name, { label }]) => [name, label]));

export function Filters({ place, go }) {
  const [environments, setEnvironments] = useState([]);
  const [models, setModels] = useState([]);
  const [tokens, setTokens] = useState([]);
  const [labels, setLabels] = useState([]);
  const [components, setComponents] = useState([]);
  useEffect(() => {
    getJson("web/traces/environments").then(setEnvironments, () => {}); // the list says what is wrong
    getJson("web/traces/models").then(setModels, () => {});
    getJson("web/traces/token-names").then(setTokens, () => {});
    getJson("web/traces/labels").then(setLabels, () => {});
    getJson("web/traces/components").then(setComponents, () => {});
  }, []);
  const { filter } = place;
  const put = (name, value) => go({ filter: { ...filter, [name]: value } }, true);
  const set = (name) => (event) => put(name, event.target.value);
  const linked = Object.keys(LINKED).filter((name) => filter[name]);
  return html`<form class="panel filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <div class="input wide"><label for="text">Search</label><input id="text" type="search" placeholder="text of requests, answers and messages" value=${filter.text ?? ""} onInput=${set("text")} /></div>
    <div class="input"><label for="environment">Environment</label><${Options} id="environment" names=${withChosen(environments, filter.environment)} value=${filter.environment} onChange=${set("environment")} /></div>
    <div class="input"><label for="model">Model or player</label><${Options} id="model" names=${withChosen(models, filter.model)} value=${filter.model} onChange=${set("model")} /></div>
    ${(labels.length > 0 || filter.label) && html`<div class="input"><label for="label">Label</label><${Options} id="label" names=${withChosen(labels, filter.label)} value=${filter.label} onChange=${set("label")} /></div>`}
    ${(tokens.length > 0 || filter.token_name) && html`<div class="input"><label for="token_name">Token</label><${Options} id="token_name" names=${withChosen(tokens, filter.token_name)} value=${filter.token_name} onChange=${set("token_name")} /></div>`}
    <div class="input"><label for="ending">Ending</label><${Options} id="ending" names=${ENDINGS} value=${filter.ending} onChange=${set("ending")} /></div>
    <div class="input"><label for="flag">Flag</label><${Options} id="flag" names=${Object.keys(FLAGS)} texts=${FLAG_LABELS} value=${filter.flag} onChange=${set("flag")} /></div>
    ${(components.length > 0 || filter.component) && html`<div class="input"><label for="component">Component</label><${Options} id="component" names=${withChosen(components, filter.component)} value=${filter.component} onChange=${set("component")} /></div>`}
    <${Bound} name="min_reward" label="Reward from" filter=${filter} set=${set} />
    <${Bound} name="max_reward" label="Reward to" filter=${filter} set=${set} />
    <div class="input"><label for="seed">Seed</label><input id="seed" inputmode="numeric" value=${filter.seed ?? ""} onInput=${set("seed")} /></div>
    <div class="input"><label for="evaluation">Evaluations</label><${Options} id="evaluation" names=${Object.keys(EVALUATIONS)} texts=${EVALUATIONS} value=${filter.evaluation} onChange=${set("evaluation")} /></div>
    <${Times} filter=${filter} put=${put} />
    ${(linked.length > 0 || TYPED.some((name) => filter[name])) && html`<div class="linked">
      ${linked.map((name) => html`<button type="button" class="secondary" aria-label=${`Remove ${LINKED[name]} ${filter[name]}`} onClick=${() => go({ filter: { ...filter, [name]: "" } })}>${LINKED[name]} ${filter[name]} <span aria-hidden="true">×</span></button>`)}
      <button type="button" class="quiet" onClick=${() => go({ filter: {} })}>Clear all</button></div>`}
  </form>`;
}

/** Names to choose from, with the one that is chosen. */
function withChosen(names, chosen) {
  return names.includes(chosen ?? "") || !chosen ? names : [...names, chosen];
}

function Bound({ name, label, filter, set }) {
  return html`<div class="input"><label for=${name}>${label}</label><input id=${name} inputmode="text" aria-invalid=${Boolean(filter[name]) && !isReadable([name, filter[name]])} value=${filter[name] ?? ""} onInput=${set(name)} /></div>`;
}

/** When episodes began, open from the start where the filter has it. */
function Times({ filter, put }) {
  const [isOpen] = useState(Boolean(filter.since || filter.until));
  const given = ["since", "until"].filter((name) => filter[name]).length;
  return html`<details class="more times" open=${isOpen}><summary>Time${given > 0 && ` · ${given}`}</summary><div>
    <${Time} name="since" label="Began from" filter=${filter} put=${put} />
    <${Time} name="until" label="Began to" filter=${filter} put=${put} lasts=${WITHIN_SECOND} /></div></details>`;
}

/** A time of the clock of this machine, which the filter has in seconds since 1970; `lasts` is added to what is chosen. */
function Time({ name, label, filter, put, lasts = 0 }) {
  const input = (event) => put(name, event.target.value && String(Math.floor(Date.parse(event.target.value) / 1000) + lasts));
  return html`<div class="input time"><label for=${name}>${label}</label><input id=${name} type="datetime-local" step="1" value=${clockOf(filter[name])} onInput=${input} /></div>`;
}

/** A time as its field has it, at its shortest: another text for the same time ends what is being typed. */
function clockOf(seconds) {
  const at = new Date(1000 * Math.floor(seconds));
  const shown = new Date(at - 60_000 * at.getTimezoneOffset());
  if (!seconds || Number.isNaN(shown.getTime())) return "";
  return shown.toISOString().slice(0, at.getSeconds() === 0 ? 16 : 19);
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
