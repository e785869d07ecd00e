// The sessions of the server as they are played: a table that updates, of which only what is seen is fetched.
import { getJson, lasts, problemOf } from "./api.js";
import { Announced, Follow } from "./follow.js";
import { html, useEffect, useRef, useState } from "./html.js";
import { number, tone } from "./turns.js";
import { Windowed } from "./windowed.js";

const EVERY_MS = 1000;
const BESIDE_ROWS = 10;
const MOST_ROWS = 200;
const RATES = 60;
const ANNOUNCED_EVERY_MS = 15000;
const ORDERS = { newest: "newest first", active: "used last first", steps: "most steps first", reward: "highest reward first", idle: "longest idle first" };
const SHOWN = { all: "all", playing: "playing", new: "not started", done: "done", busy: "at work", away: "client away" };

export function Live({ config, onPlay, onLoadError }) {
  const [name, setName] = useState(nameIn(location));
  useEffect(() => {
    document.title = "Live · OpenEnv";
    const listener = () => setName(nameIn(location));
    addEventListener("popstate", listener);
    return () => removeEventListener("popstate", listener);
  }, []);
  const go = (next) => {
    history.pushState(null, "", next === null ? location.pathname : addressOf(next));
    setName(next);
  };
  return name === null ? html`<${Table} config=${config} go=${go} onLoadError=${onLoadError} />`
    : html`<${Follow} key=${name} name=${name} config=${config} onBack=${() => go(null)} onPlay=${onPlay} />`;
}

function nameIn({ search }) {
  return new URLSearchParams(search).get("session");
}

function addressOf(name) {
  return `?session=${encodeURIComponent(name)}`;
}

/** What is seen of the table, fetched every second and where it is scrolled to. */
class Rows {
  constructor(onPage, onError) {
    this.onPage = onPage;
    this.onError = onError;
    this.query = {};
    this.range = [0, 50];
    this.page = null;
    this.timer = null;
    this.current = 0; // number of the last request
  }

  set(query) {
    this.query = query;
    this.range = [0, 50];
    this.refresh();
  }

  look(first, last) {
    if (first >= last) return; // scrolled to where there are no rows any more
    this.range = [first, last];
    const { offset, sessions } = this.page ?? { offset: 0, sessions: [] };
    if (this.page !== null && (first < offset || last > Math.min(offset + sessions.length, this.page.matching))) this.soon(60);
  }

  soon(delay) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), delay);
  }

  async refresh() {
    const request = ++this.current;
    const [first, last] = this.range;
    const offset = Math.max(0, first - BESIDE_ROWS);
    const limit = Math.min(MOST_ROWS, last + BESIDE_ROWS - offset);
    try {
      const found = document.hidden ? null : await getJson(`web/live/sessions?${new URLSearchParams({ ...this.query, offset, limit })}`);
      if (request !== this.current) return;
      if (found !== null) this.onPage(this.page = found);
    } catch (error) {
      if (request !== this.current) return;
      this.onError(error);
    }
    this.soon(EVERY_MS);
  }

  close() {
    this.current = -1;
    clearTimeout(this.timer);
  }
}

function Table({ config, go, onLoadError }) {
  const [page, setPage] = useState(null);
  const [problem, setProblem] = useState(null);
  const [rates, setRates] = useState([]);
  const [query, setQuery] = useState({ order: "newest", shown: "all", text: "" });
  const before = useRef(null);
  const rows = useRef(null);
  const onPage = (found) => {
    const now = { at: performance.now(), steps: found.steps, workers: found.answered.join() };
    const last = before.current;
    before.current = now;
    // Without the figures of the same workers, the difference is none.
    if (last !== null && last.workers === now.workers) setRates((known) => [...known, Math.max(0, (1000 * (now.steps - last.steps)) / (now.at - last.at))].slice(-RATES));
    setProblem(null);
    setPage(found);
  };
  const onError = (error) => (lasts(error) ? onLoadError(error) : setProblem(problemOf(error)));
  rows.current ??= new Rows(onPage, onError);
  useEffect(() => () => rows.current.close(), []);
  useEffect(() => {
    const timer = setTimeout(() => rows.current.set(query), page === null ? 0 : 150);
    return () => clearTimeout(timer);
  }, [query]);
  const set = (name) => (event) => setQuery({ ...query, [name]: event.target.value });
  return html`<main class="traces live" data-testid="live" aria-busy=${page === null}>
    <h1 class="hidden">Sessions of ${config.name}</h1>
    <section class="panel overview" aria-label="Figures">
      <${Figures} page=${page} rates=${rates} />
      <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        <div class="input wide"><label for="text">Search</label><input id="text" type="search" placeholder="session, task or client" maxlength="200" onInput=${set("text")} /></div>
        <div class="input"><label for="shown">State</label><select id="shown" onChange=${set("shown")}>${options(SHOWN)}</select></div>
        <div class="input"><label for="order">Order</label><select id="order" onChange=${set("order")}>${options(ORDERS)}</select></div>
      </form>
    </section>
    <section class="panel results" aria-label="Sessions">
      ${problem && html`<p class="problem banner" role="alert">${problem}</p>`}
      ${page?.silent.length > 0 && html`<p class="banner" role="status">${silence(page)}</p>`}
      <div class="session-head" aria-hidden="true"><span>Session</span><span>Task</span><span>Client</span><span>State</span><span class="figure">Step</span><span class="figure">Reward</span><span class="figure">Episode</span><span class="figure">Idle</span><span class="figure">Age</span></div>
      ${page !== null && (page.matching === 0
        ? html`<p class="note empty">${page.total === 0 ? "No session is open. Those of trainers, agents and people appear here as soon as they are." : "No session is like that."}</p>`
        : html`<${Windowed} count=${page.matching} label="Sessions" onRange=${(first, last) => rows.current.look(first, last)} row=${(at) => html`<${SessionRow} key=${page.sessions[at - page.offset]?.session ?? at} row=${page.sessions[at - page.offset]} go=${go} />`} />`)}
    </section>
    <${Announced} text=${page === null ? "" : `${page.matching} of ${page.total} sessions`} every=${ANNOUNCED_EVERY_MS} />
  </main>`;
}

function options(named) {
  return Object.entries(named).map(([value, label]) => html`<option value=${value}>${label}</option>`);
}

function silence({ silent, replicas }) {
  return `${replicas ? "Replica" : "Worker"} ${silent.join(", ")} did not answer in time: ${silent.length === 1 ? "its" : "their"} sessions and figures are missing here.`;
}

function Figures({ page, rates }) {
  const rate = rates[rates.length - 1];
  const errors = Object.entries(page?.errors ?? {}).sort((one, other) => other[1] - one[1]);
  const count = errors.reduce((sum, [, times]) => sum + times, 0);
  return html`<dl class="figures">
    <div><dt>Sessions</dt><dd data-testid="total">${page?.total ?? ""}</dd><dd class="of">${page && `of ${page.capacity}`}</dd></div>
    <div><dt>Free slots</dt><dd data-testid="free">${page ? Math.max(0, page.capacity - page.total) : ""}</dd><dd class="of">${page?.waiting ? `${page.waiting} waiting` : ""}</dd></div>
    <div class="rate"><dt>Steps per second</dt><dd data-testid="rate">${rate === undefined ? "" : Math.round(rate).toLocaleString()}</dd><dd><${Curve} values=${rates} /></dd></div>
    <div><dt>Errors</dt><dd class=${count > 0 ? "bad" : ""} data-testid="errors">${page ? count : ""}</dd><dd class="of clip">${errors.map(([code, times]) => `${code} ${times}`).join(", ")}</dd></div>
    ${page?.replicas ? html`<${Replicas} page=${page} />`
      : page?.workers > 1 && html`<div><dt>Workers</dt><dd>${page.workers - page.silent.length}</dd><dd class="of">of ${page.workers}</dd></div>`}
  </dl>`;
}

/** The servers of a fleet: how full each is, and which of them take no sessions or do not answer. */
function Replicas({ page: { replicas, silent } }) {
  const away = ({ number, phase }) => (silent.includes(String(number)) ? "silent" : phase === "serving" ? null : phase);
  const serving = replicas.filter((replica) => away(replica) === null).length;
  return html`<div class="replicas"><dt>Replicas</dt><dd data-testid="serving">${serving}</dd><dd class="of">${serving < replicas.length && `of ${replicas.length}`}</dd>
    <dd><ul aria-label="Replicas" tabindex=${replicas.length > 12 ? 0 : undefined}>${replicas.map((replica) => html`<${Replica} key=${replica.number} replica=${replica} away=${away(replica)} />`)}</ul></dd></div>`;
}

function Replica({ replica: { number: name, sessions, capacity, address, node }, away }) {
  const full = capacity > 0 ? Math.min(1, sessions / capacity) : 0;
  return html`<li class=${away === null ? "" : "away"} data-testid="replica" title=${[address, node].filter(Boolean).join(" on ")}>
    <span>${name}</span><meter min="0" max="1" value=${full} aria-label=${`Sessions of replica ${name}`}>${sessions}</meter>
    <span class="of">${away ?? `${sessions} of ${capacity}`}</span></li>`;
}

/** A curve of the last minute, without scales. */
function Curve({ values }) {
  const largest = Math.max(...values, 1);
  const points = values.map((value, at) => `${(120 * (at + RATES - values.length)) / (RATES - 1)},${(23 - (22 * value) / largest).toFixed(1)}`);
  return html`<svg class="curve" viewBox="0 0 120 24" preserveAspectRatio="none" aria-hidden="true"><polyline points=${points.join(" ")} /></svg>`;
}

function SessionRow({ row, go }) {
  if (row === undefined) return html`<li class="session"></li>`;
  const { session, task, transport, client, episode_steps: steps, reward, episodes, idle_s: idle, age_s: age } = row;
  const state = stateOf(row);
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(session);
  };
  return html`<li class="session" data-testid="session" data-name=${session}>
    <a href=${addressOf(session)} onClick=${open} aria-label=${`${session}, ${SHOWN[state]}, step ${steps}, reward ${number(reward)}`}>${session}</a>
    <span class="clip">${task || html`<span class="none">none</span>`}</span><span class="clip">${[transport, client === "loopback" ? "this machine" : client].filter(Boolean).join(" · ")}</span>
    <span><span class="status" data-status=${state}>${SHOWN[state]}</span></span><span class="figure">${steps}</span><span class="figure ${tone(reward)}">${number(reward)}</span>
    <span class="figure">${episodes}</span><span class="figure">${span(idle)}</span><span class="figure">${span(age)}</span></li>`;
}

/** The state of a session in one word, a key of SHOWN. */
function stateOf({ away, busy, phase }) {
  return away ? "away" : busy ? "busy" : phase;
}

/** Seconds, in the largest unit that fits. */
function span(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}
