// The view in which a person plays: forms, the observation with its reward, and history, state, code and README beside.
import { About } from "./about.js";
import { ActionForm, Choice, columnsFor, ResetForm } from "./form.js";
import { html, useEffect, useReducer, useRef, useState } from "./html.js";
import { Game } from "./game.js";
import { Json } from "./json.js";
import { Fields, Observation } from "./observation.js";
import { choices } from "./schema.js";
import { LANGUAGES, snippet } from "./snippets.js";
import { briefly, number, RewardParts, tone, totalOf } from "./turns.js";

const ARROWS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
const STATUS = {
  connecting: "Connecting",
  waiting: "Waiting for a free slot",
  open: "Connected",
  reconnecting: "Reconnecting",
  lost: "Session ended",
};
const HELP = [
  ["R", "reset"],
  ["1 – 9", "the button with that number"],
  ["← → ↑ ↓", "moves of these names; else back and forth in the history"],
  ["[  ]", "back and forth in the history"],
  ["Ctrl ↵", "send the form"],
  ["?", "this list"],
];

/**
 * @param fork What the server answered to a fork, to go on from; null to begin with a reset, or from the step of an
 *   episode on record that the address names.
 */
export function Play({ config, fork, onLoadError }) {
  const [, changed] = useReducer((count) => count + 1, 0);
  const held = useRef(null);
  held.current ??= new Game(config.name, config.tools, changed);
  const game = held.current;
  const [chosen, setChosen] = useState(0);
  const help = useRef(null);
  useEffect(() => {
    const { episode, step } = Object.fromEntries(new URLSearchParams(location.search));
    const begin = () => (fork ? game.goOn(fork) : config.traces && episode && game.replay(episode, Number.parseInt(step, 10) || 0));
    game.load().then(begin).catch(onLoadError);
    return () => game.session.close();
  }, []);
  useEffect(() => {
    const listener = (event) => onKey(event, game, chosen, help.current);
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, [chosen]);
  useEffect(() => {
    if (game.metadata) document.title = `${game.metadata.name} · OpenEnv`;
  }, [game.metadata]);
  if (game.schemas === null) return html`<main class="play loading" aria-busy="true"></main>`;
  return html`<main class="play" data-busy=${game.busy ?? "no"} data-steps=${game.steps} data-testid="play">
    <h1 class="hidden">${game.metadata.name}</h1>
    <${Controls} game=${game} chosen=${chosen} onChoose=${setChosen} />
    <${Stage} game=${game} />
    <${Side} game=${game} kind=${game.kinds[chosen] ?? game.kinds[0]} />
    <${Help} dialog=${help} />
    <p class="hidden" role="status" aria-live="polite">${announcement(game)}</p>
  </main>`;
}

function announcement({ busy, last, steps, total, error, earlier }) {
  if (busy !== null) return "";
  if (error !== null) return error.message;
  if (last === null) return "";
  const done = last.done ? " The episode is over." : "";
  if (last.type === "fork") return `You go on from step ${earlier}, with a fork of the session.${done}`;
  return steps === 0 ? `A new episode has begun.${done}` : `Step ${earlier + steps}: reward ${number(last.reward ?? 0)}, total ${number(total)}.${done}`;
}

function onKey(event, game, chosen, help) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input:not([type=checkbox]), textarea, select, dialog, [role=tablist], .segments")) return;
  if (press(event.key, game, chosen, help)) event.preventDefault();
}

/** Do what a key means; returns whether it means anything. */
function press(key, game, chosen, help) {
  if (key === "r" || key === "R") return click("[data-testid=reset]");
  if (key === "?") return help.showModal() ?? true;
  if (key === "[") return game.back() ?? true;
  if (key === "]") return game.forth() ?? true;
  if (/^[1-9]$/.test(key)) return click(`[data-number="${key}"]`);
  const named = moveNamed(ARROWS[key], game.kinds[chosen] ?? game.kinds[0]);
  if (named !== undefined) return game.step(named.action) && true;
  if (key === "ArrowLeft") return game.back() ?? true;
  if (key === "ArrowRight") return game.forth() ?? true;
  return false;
}

function moveNamed(name, kind) {
  return name === undefined || kind === undefined ? undefined : choices(kind).find(({ label }) => label.toLowerCase() === name);
}

function click(selector) {
  const button = document.querySelector(selector);
  button?.click();
  return button !== null;
}

function Controls({ game, chosen, onChoose }) {
  const over = game.last?.done;
  // Until the environment has said what it offers now, its last buttons stay, and do nothing.
  const viewed = game.turns.findLast(({ view }) => view !== null);
  const offered = over ? [] : viewed?.view.actions ?? [];
  useEffect(() => {
    // The button that was pressed may have gone with the episode.
    if (over && document.activeElement === document.body) document.querySelector("[data-testid=reset]").focus();
  }, [over]);
  return html`<section class="panel controls" aria-label="Controls">
    <div class="block"><div class="heading"><h2>Episode</h2>${game.turns.length > 0 && html`<span class="status" data-status=${game.status}>${STATUS[game.status]}</span>`}</div><${Origin} game=${game} /><${ResetForm} game=${game} /></div>
    <${Task} game=${game} />
    <div class="block"><h2>Action</h2>
      <${Waiting} key=${game.since} game=${game} />
      ${game.status === "lost" && html`<p class="note" role="alert">The session has ended. Reset starts another one.</p>`}
      ${over && html`<p class="note">The episode is over: ${number(game.total)} in ${plural(game.earlier + game.steps, "step")}. Reset starts the next one.</p>`}
      ${offered.length > 0 && html`<div class="buttons" style=${columnsFor(offered)}>${offered.map((offer, at) => html`
        <${Choice} ...${offer} number=${at + 1} isOld=${viewed !== game.last} game=${game} />`)}</div>`}
      <${ActionForm} game=${game} chosen=${chosen} onChoose=${onChoose} isOffered=${offered.length > 0} />
    </div>
  </section>`;
}

/** The episode on record from which a person goes on, and whether it went the same way. */
function Origin({ game: { origin, busy, metadata } }) {
  if (origin === null) return null;
  const { episode, step, differing, recorded } = origin;
  const isOld = recorded !== null && recorded.version !== null && recorded.version !== metadata.version;
  return html`<p class="note" data-testid="origin">${busy === "replay" ? "Repeating" : "You go on from"} ${step === 0 ? "the reset" : `step ${step}`} of <a href=${`traces?episode=${encodeURIComponent(episode)}#step-${step}`}>${episode}</a>.
    ${isOld && ` It is of version ${recorded.version} of the environment, and this is ${metadata.version ?? "one without a version"}.`}
    ${differing !== null && ` ${differing === 0 ? "The reset" : `Step ${differing}`} was answered otherwise than on record, so what is here may have taken another way.`}</p>`;
}

/** What only the first observation said: the task, mostly. */
function Task({ game }) {
  const [first] = game.turns;
  if (first?.type !== "reset" || game.shown === first) return null;
  const { metadata, ...fields } = first.observation ?? {};
  const now = game.shown.observation ?? {};
  const said = Object.entries(fields).filter(([name, value]) => typeof value === "string" && value !== "" && value !== now[name]);
  if (said.length === 0) return null;
  return html`<details class="block task" open=${game.tools.length > 0} data-testid="task"><summary>Task</summary>
    <div class="fields"><${Fields} value=${Object.fromEntries(said)} schema=${game.schemas.observation} /></div></details>`;
}

/** How long a request is under way that takes its time, and the way out. */
function Waiting({ game }) {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds(Math.floor((performance.now() - game.since) / 1000)), 500);
    return () => clearInterval(timer);
  }, []);
  if (game.busy === null || seconds < 2) return null;
  const mayCancel = game.status === "open" || game.status === "waiting";
  return html`<div class="note waiting"><span data-testid="waiting">The ${game.busy} has taken ${plural(seconds, "second")}.</span>
    ${mayCancel && html`<button type="button" class="secondary" data-testid="cancel" onClick=${() => game.session.abandon()}>Cancel</button>`}</div>`;
}

function Stage({ game }) {
  const [raw, setRaw] = useState(false);
  const turn = game.shown;
  if (turn === null) {
    return html`<section class="panel stage empty" aria-label="Observation">
      <div class="welcome"><h2>${game.metadata.name}</h2><p>${game.metadata.description}</p>
      ${game.error && html`<p class="problem" role="alert">${game.error.message}</p>`}
      <p class="hint">Reset starts an episode. It is your own: other visitors and programs have theirs.</p></div></section>`;
  }
  return html`<section class="panel stage" aria-label="Observation">
    <${StageHead} game=${game} turn=${turn} raw=${raw} onRaw=${setRaw} />
    ${game.error && !(game.error.errors ?? []).length && html`<p class="problem banner" role="alert">${game.error.message}</p>`}
    <${Observation} key=${game.cursor ?? "last"} observation=${turn.observation} view=${turn.view ?? before(game, turn)} raw=${raw} first=${turn.type === "reset"} schema=${game.schemas.observation} />
    <${RewardParts} metadata=${turn.metadata} />
    <${Metadata} metadata=${turn.metadata} />
  </section>`;
}

function StageHead({ game, turn, raw, onRaw }) {
  const at = game.turns.indexOf(turn);
  const isLast = at === game.turns.length - 1;
  return html`<header class="stage-head">
    <div class="walk" role="group" aria-label="History">
      <button type="button" class="quiet" aria-label="Back" disabled=${at === 0} onClick=${() => game.back()}>←</button>
      <span class="at" data-testid="at">${at + game.earlier === 0 ? "Reset" : `Step ${game.earlier + at}`}${!isLast && html` <span class="of">of ${game.earlier + game.steps}</span>`}</span>
      <button type="button" class="quiet" aria-label="Forth" disabled=${isLast} onClick=${() => game.forth()}>→</button>
      <button type="button" class="quiet raw" aria-pressed=${raw} data-testid="raw" onClick=${() => onRaw(!raw)}>JSON</button>
    </div>
    <dl class="scores">
      <div><dt>Reward</dt><dd class=${tone(turn.reward)} data-testid="reward">${turn.reward === null || turn.reward === undefined ? "none" : number(turn.reward)}</dd></div>
      <div><dt>Total</dt><dd class=${tone(totalTo(game, at))} data-testid="total">${number(totalTo(game, at))}</dd></div>
      <div><dt>Done</dt><dd data-testid="done">${turn.done ? html`<span class="badge">done</span>` : "no"}</dd></div>
    </dl>
  </header>`;
}

/** The view of the turn before one that the environment has not shown yet, so that a board stays in its place. */
function before({ turns }, turn) {
  const view = turns[turns.indexOf(turn) - 1]?.view;
  return view?.html ? view : null;
}

function totalTo(game, at) {
  return totalOf(game.turns.slice(0, at + 1));
}

function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function Metadata({ metadata }) {
  const { reward_signals, reward_weights, ...others } = metadata ?? {};
  if (Object.keys(others).length === 0) return null;
  return html`<details class="more"><summary>Metadata</summary><${Json} value=${others} label="Metadata" /></details>`;
}

const TABS = ["History", "State", "Code", "About"];

function Side({ game, kind }) {
  const [tab, setTab] = useState("About");
  const began = game.turns.length > 0;
  useEffect(() => {
    if (began) setTab((current) => (current === "About" ? "History" : current));
  }, [began]);
  return html`<section class="panel side" aria-label="Details">
    <${Tabs} names=${TABS} chosen=${tab} onChoose=${setTab} label="Details" />
    <div class="tab-body" role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${tab}`} tabindex="0">
      ${tab === "History" && html`<${History} game=${game} />`}
      ${tab === "State" && html`<${State} game=${game} />`}
      ${tab === "Code" && html`<${Code} game=${game} kind=${kind} />`}
      ${tab === "About" && html`<${About} metadata=${game.metadata} />`}
    </div>
  </section>`;
}

/** Tabs, which the arrow keys walk through. */
export function Tabs({ names, chosen, onChoose, label }) {
  const onKeyDown = (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const next = names[(names.indexOf(chosen) + move + names.length) % names.length];
    onChoose(next);
    event.currentTarget.querySelector(`#tab-${next}`).focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${onKeyDown}>${names.map((name) => html`
    <button type="button" role="tab" id=${`tab-${name}`} aria-selected=${name === chosen} aria-controls=${name === chosen ? "tab-panel" : undefined}
      tabindex=${name === chosen ? 0 : -1} onClick=${() => onChoose(name)}>${name}</button>`)}</div>`;
}

function History({ game }) {
  const list = useRef(null);
  const at = game.cursor ?? game.turns.length - 1;
  useEffect(() => {
    list.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  }, [at, game.turns.length]);
  if (game.turns.length === 0) return html`<p class="note">What you do is listed here.</p>`;
  return html`<ol class="history" ref=${list} data-testid="history">${game.turns.map((turn, index) => html`
    <li key=${index}><button type="button" aria-current=${index === at ? "step" : undefined} onClick=${() => game.go(index)}>
      <span class="count">${game.earlier + index}</span><span class="what">${briefly(turn)}</span>
      <span class="figure ${tone(turn.reward)}">${turn.reward === null || turn.reward === undefined ? "" : number(turn.reward)}</span>
    </button></li>`)}</ol>`;
}

function State({ game }) {
  const state = game.shown?.state;
  if (state === undefined) return html`<p class="note">The state of the episode is shown here, after a reset.</p>`;
  return html`<p class="hint">What trainers may read, and agents may not.</p>
    ${state.problem ? html`<p class="problem">${state.problem}</p>` : html`<${Json} value=${state} label="State" />`}`;
}

function Code({ game, kind }) {
  const [language, setLanguage] = useState(LANGUAGES[0]);
  const [copied, setCopied] = useState(false);
  const turns = game.turns.slice(0, (game.cursor ?? game.turns.length - 1) + 1);
  const text = snippet(language, turns, kind);
  useEffect(() => setCopied(false), [text]);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
  };
  return html`<div class="code-head">
      <div class="segments" role="group" aria-label="Language">${LANGUAGES.map((name) => html`
        <label class="segment"><input type="radio" name="language" checked=${name === language} onChange=${() => setLanguage(name)} /><span>${name}</span></label>`)}</div>
      <button type="button" class="quiet" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>
    </div>
    <pre class="code" tabindex="0" role="group" aria-label="The same call" data-testid="code"><code>${text}</code></pre>`;
}

function Help({ dialog }) {
  return html`<dialog ref=${dialog} class="help" aria-labelledby="help-title">
    <h2 id="help-title">Keys</h2>
    <dl>${HELP.map(([key, meaning]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${meaning}</dd></div>`)}</dl>
    <form method="dialog"><button class="secondary">Close</button></form>
  </dialog>`;
}
