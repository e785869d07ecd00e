// An episode as a conversation, or two to four at the same step, with the first step at which they differ.
import { getPatiently } from "../api.js";
import { Entry, keyedStep, Messages, StepRow } from "../entry.js";
import { html, useEffect, useMemo, useReducer, useRef, useState } from "../html.js";
import { here, moveTo } from "../saved.js";
import { number, taskOf, tone } from "../turns.js";
import { Windowed } from "../windowed.js";
import { addressOf } from "./address.js";
import { Beside } from "./beside.js";
import { Curve } from "./curve.js";
import { Label } from "./label.js";
import { Neighbours } from "./neighbours.js";
import { differencePath, episodePath, labelOf, Source } from "./source.js";
import { Thread } from "./thread.js";

export function Episodes({ config, place, go, schema, onLoadError, onProblem }) {
  const { ids } = place;
  const labels = ids.map((id) => labelOf(id, config));
  const [, changed] = useReducer((count) => count + 1, 0);
  const [facts, setFacts] = useState(null);
  const [rewards, setRewards] = useState([]);
  const [differences, setDifferences] = useState(null);
  const [at, setAt] = useState(() => Number(here().hash.replace("#step-", "")) || 0);
  const latest = useRef(at); // keys come faster than the page is drawn
  const sources = useMemo(() => ids.map((id) => new Source(id, changed, onProblem)), []);
  useEffect(() => {
    const paths = ids.map(episodePath);
    const shown = new AbortController();
    const all = (wanted, set) => Promise.all(wanted.map((path) => getPatiently(path, shown.signal, onProblem))).then(set, onLoadError);
    all(paths, setFacts);
    all(paths.map((path) => `${path}/rewards`), setRewards);
    all(ids.slice(1).map((id) => differencePath(ids[0], id)), setDifferences);
    return () => {
      shown.abort();
      sources.forEach((source) => source.close());
    };
  }, []);
  const count = facts === null ? 0 : Math.max(...facts.map(({ episode }) => episode.steps + 1), ...rewards.map((found) => found.rewards.length));
  const isAlone = ids.length === 1;
  const jump = (to) => {
    const bounded = Math.max(0, Math.min(to, count - 1));
    moveTo(`${here().pathname}${here().search}#step-${bounded}`, true);
    latest.current = bounded;
    setAt(bounded);
  };
  useEffect(() => {
    if (!isAlone) sources.forEach((source) => source.want([at]).catch(onLoadError));
    const listener = (event) => walk(event, latest.current, jump);
    document.addEventListener("keydown", listener);
    return () => document.removeEventListener("keydown", listener);
  }, [at, count]);
  if (facts === null) return html`<main class="traces" aria-busy="true"></main>`;
  const differing = new Set((differences ?? []).map((difference) => difference?.number));
  return html`<main class="episodes" data-testid="episodes" data-count=${ids.length}>
    <h1 class="hidden">Episode ${labels.join(", ")}</h1>
    <section class="panel index" aria-label="Steps">
      <header class="stage-head"><${Back} config=${config} place=${place} go=${go} /><span>${labels.join(", ")}</span>
        ${isAlone && config.compare.length === 0 && html`<${Neighbours} place=${place} go=${go} onLoadError=${onLoadError} onProblem=${onProblem} />`}</header>
      ${ids.length > 1 && html`<${Differences} labels=${labels} differences=${differences} jump=${jump} />`}
      <${Curve} ids=${labels} rewards=${rewards.map((found) => found.rewards)} at=${at} jump=${jump} />
      <${Windowed} count=${count} selected=${at} label="Steps" onRange=${(first, last) => sources.forEach((source) => source.wantRows(first, last).catch(onLoadError))}
        row=${(step) => html`<${StepRow} key=${step} step=${step} entry=${rowOf(sources, step)} current=${step === at} differs=${differing.has(step)} jump=${jump} />`} />
    </section>
    ${facts.map((fact, column) => html`<${Panel} key=${ids[column]} id=${ids[column]} label=${labels[column]} fact=${fact} column=${column} isAlone=${isAlone} components=${rewards[column]?.components} source=${sources[column]} count=${count} at=${at} jump=${jump} schema=${schema} config=${config} onLoadError=${onLoadError} />`)}
  </main>`;
}

/** The row of the first episode that has such a step. */
function rowOf(sources, step) {
  return sources.map((source) => source.row(step)).find((row) => row !== null) ?? null;
}

function walk(event, at, jump) {
  const to = keyedStep(event, at);
  if (to === undefined) return;
  event.preventDefault();
  jump(to);
}

function Back({ config, place, go }) {
  if (config.compare.length > 0) return html`<a href="compare">Comparison</a>`;
  const list = { ...place, ids: [] };
  const back = (event) => {
    event.preventDefault();
    go(list);
  };
  return html`<a href=${addressOf(list)} onClick=${back}>All episodes</a>`;
}

function Differences({ labels, differences, jump }) {
  if (differences === null) return html`<p class="note" data-testid="difference" role="status">Comparing</p>`;
  return html`<div class="note" data-testid="difference" role="status">${differences.map((difference, at) => html`<p key=${labels[at + 1]}>
    ${labels.length > 2 && html`<strong>${labels[at + 1]}</strong> to ${labels[0]}: `}
    ${difference === null ? "Nothing differs." : html`First difference: <button type="button" class="quiet" onClick=${() => jump(difference.number)}>${difference.number === 0 ? "reset" : `step ${difference.number}`}</button> (${difference.parts.join(", ")})`}</p>`)}</div>`;
}

function Panel({ id, label, fact, column, isAlone, components, source, count, at, jump, schema, config, onLoadError }) {
  const { episode, conversations } = fact;
  const [which, setWhich] = useState(conversations.length - 1);
  const parts = useMemo(() => partsOf(conversations[which]), [which]);
  const turn = (number) => html`<${Turn} entry=${source.at(number)} at=${number} part=${parts[number]} fact=${fact} schema=${schema} config=${config} isAlone=${isAlone} />`;
  return html`<section class="panel stage" aria-label=${`Episode ${label}`}>
    <header class="stage-head"><div>${!isAlone && html`<span class="swatch" data-line=${column}></span>`}<strong>${label}</strong> <span class="of">${[episode.environment, taskOf(episode), conversations[which]?.model, episode.transport, episode.ending].filter(Boolean).join(" · ")}</span></div>
      <dl class="scores"><div><dt>Steps</dt><dd>${episode.steps}</dd></div><div><dt>Reward</dt><dd class=${tone(episode.reward)} data-testid="sum">${episode.reward === null ? "none" : number(episode.reward)}</dd></div></dl></header>
    <${Label} id=${id} episode=${episode} isAlone=${isAlone} />
    ${isAlone
      ? html`<${Thread} count=${Math.max(count, parts.length)} at=${at} label="Conversation" onRange=${(numbers) => source.want(numbers).catch(onLoadError)} onScrolled=${jump} turn=${turn} />`
      : html`<div class="thread">${turn(at)}</div>`}
    <${Beside} id=${id} fact=${fact} components=${components} which=${which} onWhich=${setWhich} command=${isAlone ? fact.command : null} at=${at} />
  </section>`;
}

/** The parts of a conversation by entries, with their messages. */
function partsOf(conversation) {
  const { parts = [], messages } = conversation ?? {};
  return parts.map((part) => ({ ...part, before: messages.slice(...part.before), read: messages.slice(...part.read) }));
}

/** A turn, as far as it is read; `entry` is null before, and undefined where the episode has none. */
function Turn({ entry, at, part, fact, schema, config, isAlone }) {
  const { episode } = fact;
  if (entry === null) return null;
  if (entry === undefined) return part ? html`<article class="entry"><${Messages} messages=${part.before} /></article>` : html`<p class="note">${at > episode.steps ? "This episode has no such step." : ""}</p>`;
  return html`<${Entry} entry=${entry} at=${at} environment=${episode.environment} schema=${schema} part=${part}>
    ${isAlone && config.play && fact.plays && html`<a class="play-on" href=${playAddress(episode, at)} data-testid="play-on">Play from here</a>`}</${Entry}>`;
}

/** The page on which a person plays on from a step of an episode. */
function playAddress({ id }, step) {
  return `./?${new URLSearchParams({ episode: id, step })}`;
}
