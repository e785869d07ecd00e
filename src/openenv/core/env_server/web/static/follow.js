// A session that is followed step by step as it is played, and its fork, which a person plays on.
import { getJson, ROOT, subprotocols } from "./api.js";
import { Entry, keyedStep, StepRow } from "./entry.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "./html.js";
import { Json } from "./json.js";
import { number, tone } from "./turns.js";
import { Windowed } from "./windowed.js";

const PROTOCOL = "openenv.live";
const FIRST_RETRY_MS = 250;
const LONGEST_RETRY_MS = 5000;
// The page keeps no more of a session; the oldest entries leave first.
const MOST_ENTRIES = 5000;
const MOST_CHARACTERS = 64e6;
const ANNOUNCED_EVERY_MS = 5000;
// Time for which a session that was followed may be missing from the server that answers for it: another one has it once
// its client has come back.
const AWAY_MS = 30000;
// Why a session that a journal has ends at one server and goes on at another one.
const MOVING = ["shutdown", "replaced"];
const STATUS = { connecting: "Connecting", open: "Live", reconnecting: "Reconnecting", lost: "Ended" };

/** The entries of a session as they come. A connection that breaks is made again, and goes on where it was. */
class Feed {
  constructor(name, onChange) {
    this.name = name;
    this.onChange = onChange;
    this.status = "connecting";
    this.entries = [];
    this.missed = 0;
    this.row = null;
    this.ending = null;
    this.id = "";
    this.last = 0;
    this.size = 0;
    this.pause = FIRST_RETRY_MS;
    this.missingSince = null;
    this.drawing = null;
    this.connect();
  }

  connect() {
    const query = new URLSearchParams({ session_id: this.name, feed: this.id, after: this.last });
    const address = new URL(`web/live/feed?${query}`, ROOT);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address, subprotocols(PROTOCOL));
    this.socket.onmessage = (event) => this.receive(JSON.parse(event.data), event.data.length);
    this.socket.onclose = () => this.closed();
  }

  closed() {
    if (this.status === "lost") return;
    this.status = "reconnecting";
    this.changed();
    this.retry = setTimeout(() => this.connect(), this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_RETRY_MS);
  }

  close() {
    this.status = "lost";
    clearTimeout(this.retry);
    cancelAnimationFrame(this.drawing);
    this.socket.close(1000);
  }

  receive({ session, feed, resumed, entries, missed, ended }, size) {
    if (session !== undefined) this.row = session;
    if (feed !== undefined) this.begin(feed, resumed);
    if (entries !== undefined) this.add(entries, missed, size);
    if (ended !== undefined && !this.mayReturn(ended)) {
      this.ending = ended;
      this.status = "lost";
    }
    this.changed();
  }

  /** Whether another server may have the session, or have it soon. */
  mayReturn(ending) {
    if (!this.row?.recoverable) return false; // no journal has it
    if (this.status === "open") return MOVING.includes(ending);
    this.missingSince ??= Date.now(); // not the time before, in which no server answered
    return Date.now() - this.missingSince < AWAY_MS;
  }

  begin(feed, resumed) {
    this.status = "open";
    this.pause = FIRST_RETRY_MS;
    this.missingSince = null;
    if (resumed) return;
    Object.assign(this, { id: feed, last: 0, entries: [], size: 0, missed: 0 });
  }

  add(found, missed, size) {
    this.missed += missed;
    for (const entry of found) this.entries.push(read(entry, size / found.length));
    this.size += size;
    this.last = Math.max(this.last, found[found.length - 1].number);
    this.socket.send(JSON.stringify({ seen: this.last }));
    let dropped = 0;
    while (this.entries.length - dropped > MOST_ENTRIES || (this.size > MOST_CHARACTERS && dropped < this.entries.length - 1)) {
      this.size -= this.entries[dropped].size;
      dropped += 1;
    }
    this.entries.splice(0, dropped);
    this.missed += dropped;
  }

  /** Draw the page anew, once for all that comes between two frames of the screen. */
  changed() {
    if (document.hidden) return this.onChange();
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.onChange();
    });
  }
}

/** An entry, as the views of traces have it. */
function read({ line: [kind, at, took, failed, request, answer], ...entry }, size) {
  return { ...entry, size, kind, at: at / 1e6, took_s: took / 1e6, failed: Boolean(failed), request, answer: answer ?? {}, known: answer !== null };
}

export function Follow({ name, config, onBack, onPlay }) {
  const [, changed] = useReducer((count) => count + 1, 0);
  const [schema, setSchema] = useState(null); // of the observations
  const [pinned, setPinned] = useState(null); // the entry that is looked at; null for the last one
  const held = useRef(null);
  held.current ??= new Feed(name, changed);
  const feed = held.current;
  const { entries } = feed;
  const found = pinned === null ? -1 : entries.indexOf(pinned);
  const at = found === -1 ? entries.length - 1 : found;
  const latest = useRef({});
  latest.current = { at, entries };
  const jump = useMemo(() => (_, chosen) => setPinned(chosen === latest.current.entries.at(-1) ? null : chosen), []);
  useEffect(() => {
    document.title = `${name} · OpenEnv`;
    getJson("schema").then(({ observation }) => setSchema(observation), () => {}); // steps are shown without it, too
    const listener = (event) => walk(event, latest.current, setPinned);
    document.addEventListener("keydown", listener);
    return () => {
      document.removeEventListener("keydown", listener);
      feed.close();
    };
  }, []);
  const back = (event) => {
    event.preventDefault();
    onBack();
  };
  const entry = entries[at] ?? null;
  return html`<main class="episodes follow" data-testid="follow" data-entries=${entries.length} data-missed=${feed.missed} data-last=${feed.last}>
    <h1 class="hidden">Session ${name}</h1>
    <section class="panel index" aria-label="Steps">
      <header class="stage-head"><a href="?" onClick=${back}>All sessions</a><span class="status" data-status=${feed.status} data-testid="status">${STATUS[feed.status]}</span></header>
      ${feed.missed > 0 && html`<p class="note">${feed.missed} earlier ${feed.missed === 1 ? "entry is" : "entries are"} not kept here.</p>`}
      <${Windowed} count=${entries.length} selected=${found === -1 ? undefined : at} follows=${found === -1} label="Steps"
        row=${(index) => html`<${StepRow} key=${index} step=${entries[index].step} entry=${entries[index]} current=${index === at} differs=${false} jump=${jump} />`} />
    </section>
    <section class="panel stage" aria-label="Session ${name}">
      <${Head} feed=${feed} entry=${entry} isLive=${found === -1} onLive=${() => setPinned(null)} config=${config} onPlay=${onPlay} />
      ${feed.ending !== null && html`<p class="banner" role="status">${ended(feed, config)}</p>`}
      ${entry === null ? html`<p class="note empty">${feed.ending === null && "The next step is shown here as soon as the session makes it."}</p>` : html`<${Shown} entry=${entry} environment=${config.name} schema=${schema} />`}
    </section>
    <${Announced} text=${announcement(entries[entries.length - 1])} every=${ANNOUNCED_EVERY_MS} />
  </main>`;
}

function walk(event, { at, entries }, onPinned) {
  const to = keyedStep(event, at);
  if (to === undefined) return;
  event.preventDefault();
  onPinned(to >= entries.length - 1 ? null : entries[Math.max(0, to)]);
}

function ended({ ending, entries }, config) {
  if (ending.includes(" ")) return ending; // a sentence
  return `The session has ended (${ending}).${entries.length > 0 && config.traces ? " Traces has its episodes." : ""}`;
}

function announcement(entry) {
  if (entry === undefined) return "";
  const { kind, step, answer, total } = entry;
  if (kind === "reset") return `Episode ${entry.episode} has begun.`;
  return `Step ${step}: reward ${number(answer.reward ?? 0)}${total === null ? "" : `, total ${number(total)}`}.${answer.done ? " The episode is over." : ""}`;
}

function Head({ feed, entry, isLive, onLive, config, onPlay }) {
  const { row, name } = feed;
  const answer = entry?.answer;
  const details = row === null ? [] : [config.name, row.task, row.transport, row.client === "loopback" ? "this machine" : row.client];
  return html`<header class="stage-head">
    <div><strong>${name}</strong> <span class="of">${details.filter(Boolean).join(" · ")}</span></div>
    <dl class="scores">
      <div><dt>Episode</dt><dd>${entry?.episode ?? "–"}</dd></div>
      <div><dt>Step</dt><dd data-testid="step">${entry?.step ?? "–"}</dd></div>
      <div><dt>Total</dt><dd class=${tone(entry?.total)} data-testid="total">${entry === null || entry.total === null ? "–" : number(entry.total)}</dd></div>
      <div><dt>Done</dt><dd>${answer?.done ? html`<span class="badge">done</span>` : "no"}</dd></div>
    </dl>
    <div class="walk">
      <button type="button" class="secondary" aria-pressed=${isLive} disabled=${feed.status === "lost"} onClick=${onLive} data-testid="latest">Latest step</button>
      <${Fork} feed=${feed} onPlay=${onPlay} />
    </div>
  </header>`;
}

function Fork({ feed, onPlay }) {
  const [state, setState] = useState({ busy: false, problem: null });
  const fork = async () => {
    setState({ busy: true, problem: null });
    try {
      onPlay({ name: feed.name, ...await getJson("web/live/fork", {}, { "X-OpenEnv-Session": feed.name }) });
    } catch (error) {
      setState({ busy: false, problem: error.message });
    }
  };
  if (feed.row !== null && feed.row.transport !== "v1") {
    return html`<span class="of">Its client speaks ${feed.row.transport}; only sessions on v1 can be forked and played on.</span>`;
  }
  return html`<button type="button" class="primary" disabled=${state.busy || feed.status !== "open"} onClick=${fork} data-testid="fork"
      title="Play on from where the session stands now; the session itself goes on without you">Fork and play</button>
    ${state.problem && html`<p class="problem" role="alert">${state.problem}</p>`}`;
}

function Shown({ entry, environment, schema }) {
  if (entry.known) return html`<${Entry} entry=${entry} at=${entry.kind === "reset" ? 0 : entry.step} environment=${environment} schema=${schema} />`;
  return html`<div class="entry" data-testid="entry">
    <div class="said"><h2>${entry.kind === "reset" ? "Reset" : `Step ${entry.step}`}</h2></div>
    <${Json} value=${entry.request} label="Request" />
    <p class="note">This was before the session was followed: the server has the request, and has kept no copy of the observation. With <code>--journal</code> or <code>--traces</code> it keeps both.</p></div>`;
}

/** A text that screen readers read out, at most every so many milliseconds. */
export function Announced({ text, every }) {
  const [said, setSaid] = useState("");
  const latest = useRef(text);
  latest.current = text;
  useEffect(() => {
    const timer = setInterval(() => setSaid(latest.current), every);
    return () => clearInterval(timer);
  }, []);
  return html`<p class="hidden" role="status" aria-live="polite" data-testid="announced">${said}</p>`;
}
