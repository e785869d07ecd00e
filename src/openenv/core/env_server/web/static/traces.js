// Episodes on record: a list with filters, an episode step by step, and two of them side by side.
import { getJson } from "./api.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "./html.js";
import { Json } from "./json.js";
import { Observation, words } from "./observation.js";
import { briefly, number, RewardParts, tone } from "./turns.js";

const PAGE = 100;
const RANGE = 200;
const ROW_PX = 34;
const BESIDE_ROWS = 12;
const ENDINGS = ["done", "truncated", "running", "closed", "reset", "idle", "shutdown", "interrupted"];

export function Traces({ onLoadError }) {
  const [place, setPlace] = useState(placeOf(location));
  useEffect(() => {
    document.title = "Traces · OpenEnv";
    const listener = () => setPlace(placeOf(location));
    addEventListener("popstate", listener);
    return () => removeEventListener("popstate", listener);
  }, []);
  const go = (next) => {
    const query = new URLSearchParams(Object.entries(next).filter(([, value]) => value)).toString();
    history.pushState(null, "", query === "" ? location.pathname : `${location.pathname}?${query}`);
    setPlace(next);
  };
  return place.episode
    ? html`<${Episodes} key=${`${place.episode} ${place.with}`} ids=${[place.episode, place.with].filter(Boolean)} go=${go} onLoadError=${onLoadError} />`
    : html`<${List} go=${go} onLoadError=${onLoadError} />`;
}

function placeOf({ search }) {
  const query = new URLSearchParams(search);
  return { episode: query.get("episode"), with: query.get("with") };
}

// --- The list --------------------------------------------------------------------------------------------------------

function List({ go, onLoadError }) {
  const [filter, setFilter] = useState({});
  const [found, setFound] = useState(null);
  const [picked, setPicked] = useState([]);
  const loading = useRef(null);
  useEffect(() => {
    const timer = setTimeout(() => load(filter).then(setFound, onLoadError), found === null ? 0 : 200);
    return () => clearTimeout(timer);
  }, [filter]);
  const more = async () => {
    if (loading.current === found || found.episodes.length >= found.count) return;
    loading.current = found;
    const next = await load(filter, found.episodes[found.episodes.length - 1].id);
    setFound({ ...found, episodes: [...found.episodes, ...next.episodes] });
  };
  const set = (name) => (event) => setFilter({ ...filter, [name]: event.target.value });
  const toggle = (id) => setPicked(picked.includes(id) ? picked.filter((other) => other !== id) : [...picked, id].slice(-2));
  return html`<main class="traces" data-testid="traces">
    <h1 class="hidden">Traces</h1>
    <form class="panel filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <div class="input wide"><label for="text">Search</label><input id="text" type="search" placeholder="text of requests and answers" onInput=${set("text")} /></div>
      <div class="input"><label for="environment">Environment</label><select id="environment" onChange=${set("environment")}><option value="">all</option>
        ${(found?.environments ?? []).map((name) => html`<option>${name}</option>`)}</select></div>
      <div class="input"><label for="ending">Ending</label><select id="ending" onChange=${set("ending")}><option value="">all</option>${ENDINGS.map((name) => html`<option>${name}</option>`)}</select></div>
      <div class="input"><label for="min_reward">Reward from</label><input id="min_reward" inputmode="decimal" onInput=${set("min_reward")} /></div>
      <div class="input"><label for="seed">Seed</label><input id="seed" inputmode="numeric" onInput=${set("seed")} /></div>
    </form>
    <section class="panel results" aria-label="Episodes">
      <header class="stage-head"><span role="status" data-testid="count">${found === null ? "" : `${found.count} episode${found.count === 1 ? "" : "s"}`}</span>
        <button type="button" class="secondary" disabled=${picked.length !== 2} onClick=${() => go({ episode: picked[0], with: picked[1] })}>Compare${picked.length ? ` ${picked.join(" with ")}` : ""}</button></header>
      ${found !== null && html`
        <div class="row-head" aria-hidden="true"><span></span><span>Episode</span><span>Environment</span><span>Task</span><span>Began</span><span>Steps</span><span>Reward</span><span>Ending</span></div>
        <${Windowed} count=${found.episodes.length} onEnd=${more} label="Episodes" row=${(at) => html`<${EpisodeRow} key=${found.episodes[at].id} episode=${found.episodes[at]} picked=${picked} toggle=${toggle} go=${go} />`} />`}
    </section>
  </main>`;
}

function load(filter, after = undefined) {
  const given = Object.entries({ ...filter, after, limit: PAGE }).filter(([, value]) => value !== "" && value !== undefined);
  return getJson(`web/traces/episodes?${new URLSearchParams(given)}`);
}

function EpisodeRow({ episode, picked, toggle, go }) {
  const open = (event) => {
    event.preventDefault();
    go({ episode: episode.id });
  };
  return html`<li class="episode" data-testid="episode">
    <input type="checkbox" aria-label=${`Compare ${episode.id}`} checked=${picked.includes(episode.id)} onChange=${() => toggle(episode.id)} />
    <a href=${`?episode=${encodeURIComponent(episode.id)}`} onClick=${open}>${episode.id}</a>
    <span>${episode.environment}</span><span class="clip">${taskOf(episode)}</span><span>${when(episode.started_at)}</span>
    <span class="figure">${episode.steps}</span><span class="figure ${tone(episode.reward)}">${episode.reward === null ? "" : number(episode.reward)}</span>
    <span>${episode.error ? html`<span class="bad">${episode.ending} · ${episode.error}</span>` : episode.ending}</span></li>`;
}

function taskOf({ split, index, seed }) {
  return [split && `${split} ${index ?? ""}`.trim(), seed !== null && `seed ${seed}`].filter(Boolean).join(" · ");
}

function when(seconds) {
  return new Date(1000 * seconds).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
}

/** A list of rows of one height, of which only those that are seen are in the page. */
function Windowed({ count, row, onEnd, onRange, label, selected }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const height = box.current?.clientHeight ?? 600;
  const first = Math.max(0, Math.floor(top / ROW_PX) - BESIDE_ROWS);
  const last = Math.min(count, Math.ceil((top + height) / ROW_PX) + BESIDE_ROWS);
  useEffect(() => {
    onRange?.(first, last);
    if (last >= count) onEnd?.();
  }, [first, last, count]);
  useEffect(() => {
    if (selected === undefined) return;
    const { scrollTop, clientHeight } = box.current;
    const at = selected * ROW_PX;
    if (at < scrollTop || at + ROW_PX > scrollTop + clientHeight) box.current.scrollTop = Math.max(0, at - clientHeight / 2);
  }, [selected]);
  const rows = [];
  for (let at = first; at < last; at += 1) rows.push(row(at));
  return html`<div class="windowed" ref=${box} tabindex="0" role="group" aria-label=${label} onScroll=${(event) => setTop(event.target.scrollTop)}>
    <ol style=${{ height: `${count * ROW_PX}px`, "padding-top": `${first * ROW_PX}px` }}>${rows}</ol></div>`;
}

// --- Episodes --------------------------------------------------------------------------------------------------------

/** The entries of an episode, read by ranges as they are looked at. */
class Entries {
  constructor(id, onChange) {
    this.id = id;
    this.onChange = onChange;
    this.read = new Map();
    this.requested = new Set();
  }

  at(number) {
    return this.read.get(number) ?? null;
  }

  async want(first, last) {
    for (let range = Math.floor(first / RANGE); range * RANGE < Math.max(last, first + 1); range += 1) {
      if (!this.requested.has(range)) await this.fetch(range);
    }
  }

  async fetch(range) {
    this.requested.add(range);
    const start = range * RANGE;
    const found = await getJson(`web/traces/episodes/${encodeURIComponent(this.id)}/entries?start=${start}&stop=${start + RANGE}`);
    found.forEach((entry, at) => this.read.set(start + at, entry));
    this.onChange();
  }
}

function Episodes({ ids, go, onLoadError }) {
  const [, changed] = useReducer((count) => count + 1, 0);
  const [facts, setFacts] = useState(null);
  const [difference, setDifference] = useState(undefined);
  const [at, setAt] = useState(() => Number(location.hash.replace("#step-", "")) || 0);
  const latest = useRef(at); // keys come faster than the page is drawn
  const sources = useMemo(() => ids.map((id) => new Entries(id, changed)), []);
  useEffect(() => {
    Promise.all(ids.map((id) => getJson(`web/traces/episodes/${encodeURIComponent(id)}`))).then(setFacts, onLoadError);
    if (ids.length === 2) getJson(`web/traces/episodes/${ids.map(encodeURIComponent).join("/difference/")}`).then(setDifference, onLoadError);
  }, []);
  const count = facts === null ? 0 : Math.max(...facts.map(({ episode }) => episode.steps + 1));
  const jump = (to) => {
    const bounded = Math.max(0, Math.min(to, count - 1));
    history.replaceState(null, "", `${location.search}#step-${bounded}`);
    latest.current = bounded;
    setAt(bounded);
  };
  useEffect(() => {
    sources.forEach((source) => source.want(at, at + 1).catch(onLoadError));
    const listener = (event) => walk(event, latest.current, jump);
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, [at, count]);
  if (facts === null) return html`<main class="traces" aria-busy="true"></main>`;
  const back = (event) => {
    event.preventDefault();
    go({});
  };
  return html`<main class="episodes" data-testid="episodes" data-count=${ids.length}>
    <h1 class="hidden">Episode ${ids.join(" with ")}</h1>
    <section class="panel index" aria-label="Steps">
      <header class="stage-head"><a href="?" onClick=${back}>All episodes</a><span>${ids.join(" with ")}</span></header>
      ${ids.length === 2 && html`<p class="note" data-testid="difference" role="status">${said(difference, jump)}</p>`}
      <${Windowed} count=${count} selected=${at} label="Steps" onRange=${(first, last) => sources[0].want(first, last).catch(onLoadError)}
        row=${(step) => html`<${StepRow} key=${step} step=${step} entry=${sources[0].at(step)} current=${step === at} differs=${difference?.number === step} jump=${jump} />`} />
    </section>
    ${facts.map((fact, column) => html`<${EntryPanel} key=${ids[column]} fact=${fact} entry=${sources[column].at(at)} at=${at} />`)}
  </main>`;
}

function walk(event, at, jump) {
  if (event.target.closest?.("input, select, textarea, pre") || event.ctrlKey || event.metaKey || event.altKey) return;
  const to = { ArrowDown: at + 1, ArrowRight: at + 1, "]": at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, "[": at - 1, Home: 0, End: Infinity }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  jump(to);
}

function said(difference, jump) {
  if (difference === undefined) return "Comparing";
  if (difference === null) return "Nothing differs.";
  return html`First difference: <button type="button" class="quiet" onClick=${() => jump(difference.number)}>${difference.number === 0 ? "reset" : `step ${difference.number}`}</button> (${difference.parts.join(", ")})`;
}

function StepRow({ step, entry, current, differs, jump }) {
  return html`<li><button type="button" class=${differs ? "differs" : ""} aria-current=${current ? "step" : undefined} onClick=${() => jump(step)}>
    <span class="count">${step}</span><span class="what">${entry === null ? "" : briefly({ type: entry.kind, request: entry.request })}</span>
    <span class="figure ${tone(entry?.answer.reward)}">${entry === null ? "" : entry.failed ? html`<span class="bad">error</span>` : typeof entry.answer.reward === "number" ? number(entry.answer.reward) : ""}</span>
  </button></li>`;
}

function EntryPanel({ fact, entry, at }) {
  const { episode } = fact;
  return html`<section class="panel stage" aria-label=${`Episode ${episode.id}`}>
    <header class="stage-head"><div><strong>${episode.id}</strong> <span class="of">${episode.environment} · ${taskOf(episode)} · ${episode.transport} · ${episode.ending}</span></div>
      <dl class="scores"><div><dt>Steps</dt><dd>${episode.steps}</dd></div><div><dt>Reward</dt><dd class=${tone(episode.reward)} data-testid="sum">${episode.reward === null ? "none" : number(episode.reward)}</dd></div></dl></header>
    ${entry === null ? html`<p class="note">${at > episode.steps ? "This episode has no such step." : ""}</p>` : html`<${Entry} entry=${entry} at=${at} />`}
    <${Beside} fact=${fact} />
  </section>`;
}

function Entry({ entry, at }) {
  const { answer } = entry;
  return html`<div class="entry" data-testid="entry">
    <div class="said"><h2>${at === 0 ? "Reset" : `Step ${at}`}</h2><span class="of">${number(1000 * entry.took_s)} ms · ${when(entry.at)}</span></div>
    ${entry.left_out.length > 0 && html`<p class="note" data-testid="left-out">Left out of the record: ${entry.left_out.join(", ")}</p>`}
    <${Json} value=${entry.request} label="Request" />
    ${entry.failed
      ? html`<p class="problem" role="status">${answer.code}: ${answer.message}</p>`
      : html`<${Observation} observation=${answer.observation} view=${null} />
        <dl class="facts"><div><dt>Reward</dt><dd class=${tone(answer.reward)}>${answer.reward === null || answer.reward === undefined ? "none" : number(answer.reward)}</dd></div><div><dt>Done</dt><dd>${String(answer.done)}</dd></div></dl>
        <${RewardParts} metadata=${answer.metadata} />`}
  </div>`;
}

/** What is on record beside the entries: scores of other rubrics, the model's conversation, and files to download. */
function Beside({ fact }) {
  const { episode, scores, conversations } = fact;
  return html`<footer class="beside">
    ${scores.length > 0 && html`<details class="more"><summary>Scores of other rubrics</summary><table class="rows"><thead><tr><th scope="col">Rubric</th><th scope="col">Reward</th><th scope="col">Components</th></tr></thead>
      <tbody>${scores.map((score) => html`<tr><td>${score.name}</td><td>${number(score.reward)}</td><td>${Object.entries(score.components).map(([name, value]) => `${words(name)} ${number(value)}`).join(", ")}</td></tr>`)}</tbody></table></details>`}
    ${conversations.map((conversation) => html`<details class="more"><summary>What the model saw and wrote</summary><${Json} value=${conversation.messages} label="Messages" /></details>`)}
    <div class="downloads">${["messages", "atif"].map((to) => html`<button type="button" class="quiet" onClick=${() => download(episode.id, to)}>Save as ${to === "atif" ? "ATIF" : "messages"}</button>`)}</div>
  </footer>`;
}

async function download(id, to) {
  const content = await getJson(`web/traces/episodes/${encodeURIComponent(id)}/export/${to}`);
  const address = URL.createObjectURL(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }));
  Object.assign(document.createElement("a"), { href: address, download: `${id}.${to}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
