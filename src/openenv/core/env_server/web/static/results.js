// An evaluation, or collected episodes: estimates by component, the best and the worst episode, and all tasks.
import { getJson, getPatiently, lasts, problemOf, UNAUTHORIZED } from "./api.js";
import { html, useEffect, useState } from "./html.js";
import { Json } from "./json.js";
import { words } from "./observation.js";
import { boundsOf, Doubts, Linked, Pair, Strip, taskNamed } from "./rollout.js";
import { intervalOf, number, tone } from "./turns.js";

const POLL_MS = 2000;
const PAGE = 50;
// Components that the table of tasks has columns for.
const MOST_COMPONENTS = 5;
const ORDERS = { worst: "worst first", best: "best first", spread: "most different rewards first", played: "as played" };

export function Results({ onLoadError }) {
  const { summary, problem } = useSummary(onLoadError);
  const [task, setTask] = useState(null); // whose best and worst episode are shown; null for all
  useEffect(() => {
    document.title = summary === null ? "Results · OpenEnv" : `${summary.name} · OpenEnv`;
  }, [summary?.name]);
  if (summary === null) return problem !== null && html`<main class="reading panel"><p class="problem" role="alert">${problem}</p></main>`;
  return html`<main class="run" data-testid="results">
    ${problem !== null && html`<p class="problem banner" role="alert">${problem}</p>`}
    <${Summary} summary=${summary} />
    ${summary.tasks === 0
      ? html`<p class="panel note" role="status">No episode has come to its end yet.</p>`
      : html`<${Scores} rows=${summary.estimates} isComplete=${summary.is_complete} />
        <${Extremes} task=${task} onAll=${() => setTask(null)} episodes=${summary.episodes} />
        <${Tasks} summary=${summary} chosen=${task} onTask=${setTask} />`}
  </main>`;
}

/** The summary, read again until the episodes are complete; those that are collected may always become more. */
function useSummary(onLoadError) {
  const [summary, setSummary] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const shown = new AbortController();
    let timer = null;
    let isFirst = true;
    const poll = async () => {
      let found = null;
      try {
        found = await getJson("web/results/summary", undefined, {}, shown.signal);
        setSummary((known) => (isSame(known, found) ? known : found));
        setProblem(null);
        isFirst = false;
      } catch (error) {
        // A folder that was shown may come back, a token that is refused does not.
        if (shown.signal.aborted || (lasts(error) && (isFirst || error.status === UNAUTHORIZED))) return onLoadError(error);
        setProblem(problemOf(error));
      }
      if (!found?.is_complete) timer = setTimeout(poll, POLL_MS);
    };
    poll();
    return () => {
      clearTimeout(timer);
      shown.abort();
    };
  }, []);
  return { summary, problem };
}

function isSame(known, found) {
  return known !== null && JSON.stringify(known) === JSON.stringify(found);
}

// --- What it is ------------------------------------------------------------------------------------------------------

function Summary({ summary }) {
  const { kind, settings, environment, player } = summary;
  const state = kind === "collection" ? "collected" : summary.is_complete ? "complete" : "not complete";
  const facts = {
    Episodes: summary.episodes,
    Tasks: summary.tasks,
    "Attempts at each": settings.samples,
    "Success from reward": summary.success_reward,
    "Actions an episode": summary.mean_length,
    "Illegal actions": summary.illegal_actions,
    "Answers cut off": summary.answers?.cut || null,
    "Episodes without a call": summary.answers?.no_calls || null,
    "Tokens read": summary.spending?.input_tokens,
    "Tokens written": summary.spending?.output_tokens,
    "Price in $": summary.spending?.price_usd,
    ...Object.fromEntries(Object.entries(summary.limits).map(([limit, count]) => [`Ended by ${limit}`, count])),
    "Left out": summary.left_out || null,
  };
  return html`<section class="panel summary" aria-label="Summary">
    <header class="stage-head"><div><h1>${summary.name}</h1><span class="of">${[player, environment].filter(Boolean).join(" on ")}</span></div>
      <span class="status" role="status" data-testid="state" data-status=${state === "not complete" ? "away" : "open"}>${state}</span></header>
    <dl class="facts">${Object.entries(facts).filter(([, value]) => typeof value === "number").map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${number(value)}</dd></div>`)}</dl>
    <${Doubts} rule=${summary.illegal_rule} warnings=${summary.warnings} />
    ${summary.problem !== null && html`<p class="problem said-of" role="alert">${summary.problem}</p>`}
    ${summary.first_left_out && html`<p class="note said-of">${summary.left_out === 1 ? "1 episode is" : `${summary.left_out} episodes are`} left out. The first: ${summary.first_left_out}</p>`}
    ${summary.failures_text && html`<p class="note said-of" data-testid="failures">Failures, which are no rewards of 0: ${summary.failures_text}</p>`}
    ${summary.unreadable > 0 && html`<p class="note said-of">${summary.unreadable === 1 ? "1 line of episodes.jsonl is" : `${summary.unreadable} lines of episodes.jsonl are`} no episode and not shown.</p>`}
    ${Object.keys(settings).length > 0 && html`<details class="more"><summary>Settings</summary><${Json} value=${settings} label="Settings" /></details>`}
  </section>`;
}

// --- Estimates -------------------------------------------------------------------------------------------------------

/** Means with their 95% intervals: rewards and components on one scale, chances from 0 to 1. */
function Scores({ rows, isComplete }) {
  const rewards = rows.filter(({ kind }) => kind !== "chance");
  const [low, high] = boundsOf([0, ...rewards.flatMap((row) => [row.value, row.low, row.high]).filter((end) => typeof end === "number")]);
  const bounds = (row) => (row.kind === "chance" ? [0, 1] : [low, high]);
  return html`<section class="panel estimates" aria-label="Scores"><header class="stage-head"><h2>Scores</h2><span class="of">${isComplete ? "means over tasks, with 95% intervals" : "means of the episodes so far"}</span></header>
    <div class="scroll" tabindex="0" role="group" aria-label="Scores"><table class="rows"><thead><tr><th scope="col">Score</th><th scope="col">Mean</th><th scope="col">95% interval</th><th scope="col" class="wide">From ${number(low)} to ${number(high)}; pass@k from 0 to 1</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr data-testid="estimate"><th scope="row" class=${row.kind}>${row.kind === "component" ? words(row.name) : row.name}</th><td class="figure ${row.kind === "chance" ? "" : tone(row.value)}">${number(row.value)}</td>
      <td class="figure">${intervalOf(row)}</td><td><${Interval} row=${row} bounds=${bounds(row)} /></td></tr>`)}</tbody></table></div></section>`;
}

/** A mean as a dot, its interval as a bar, and zero as a mark, between two bounds. */
function Interval({ row, bounds: [least, most] }) {
  const at = (value) => Math.max(0, Math.min(100, most === least ? 50 : (100 * (value - least)) / (most - least)));
  const hasEnds = typeof row.low === "number";
  return html`<span class="interval" aria-hidden="true">
    <i class="zero-mark" style=${{ left: `${at(0)}%` }}></i>
    ${hasEnds && html`<i class="range" style=${{ left: `${at(row.low)}%`, width: `${at(row.high) - at(row.low)}%` }}></i>`}
    <i class="dot" style=${{ left: `${at(row.value)}%` }}></i></span>`;
}

// --- Episodes --------------------------------------------------------------------------------------------------------

function Extremes({ task, onAll, episodes }) {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const chosen = new AbortController();
    const query = task === null ? "" : `?task=${task.number}`;
    getPatiently(`web/results/extremes${query}`, chosen.signal, setProblem).then(setFound, (error) => chosen.signal.aborted || setProblem(error.message));
    return () => chosen.abort();
  }, [task, episodes]);
  return html`<section class="panel rollouts" aria-label="Best and worst episode">
    <header class="stage-head"><h2>Best and worst episode</h2>
      ${task !== null && html`<span class="of" data-testid="chosen">of ${taskNamed(task) || "the task without a name"}</span>`}
      <div class="steps"><button type="button" class="secondary" disabled=${task === null} onClick=${onAll}>Of all tasks</button></div></header>
    ${problem !== null && html`<p class="problem said-of" role="alert">${problem}</p>`}
    ${found !== null && (found.best ? html`<${Pair} best=${found.best} worst=${found.worst} />` : html`<p class="note said-of">No episode of it counts.</p>`)}
  </section>`;
}

function Tasks({ summary, chosen, onTask }) {
  const [order, setOrder] = useState("worst");
  const [limit, setLimit] = useState(PAGE);
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const shown = new AbortController();
    const starts = Array.from({ length: Math.ceil(limit / PAGE) }, (_, page) => page * PAGE);
    const pages = starts.map((start) => getPatiently(`web/results/tasks?order=${order}&start=${start}&limit=${PAGE}`, shown.signal, setProblem));
    const join = (all) => setFound({ tasks: all[all.length - 1].tasks, rows: all.flatMap(({ rows }) => rows) });
    Promise.all(pages).then(join, (error) => shown.signal.aborted || setProblem(error.message));
    return () => shown.abort();
  }, [order, limit, summary.episodes, summary.left_out, summary.is_complete]);
  const choose = (row) => {
    onTask(row);
    document.querySelector("[aria-label='Best and worst episode']").scrollIntoView({ block: "nearest" });
  };
  return html`<section class="panel rollouts" aria-label="Tasks">
    <header class="stage-head"><h2>Tasks</h2>
      <span role="status" data-testid="tasks">${found === null ? "" : `${found.tasks} task${found.tasks === 1 ? "" : "s"}`}</span>
      <label class="by">Order <select data-testid="order" onChange=${(event) => setOrder(event.target.value)}>${Object.entries(ORDERS).map(([name, label]) => html`<option value=${name} selected=${name === order}>${label}</option>`)}</select></label></header>
    ${problem !== null && html`<p class="problem said-of" role="alert">${problem}</p>`}
    ${found !== null && html`<${TaskTable} rows=${found.rows} components=${componentsOf(summary)} chosen=${chosen} onTask=${choose} success=${summary.success_reward} />`}
    ${found !== null && found.tasks > found.rows.length && html`<button type="button" class="quiet more-rows" onClick=${() => setLimit(limit + PAGE)}>Show ${Math.min(PAGE, found.tasks - found.rows.length)} more of ${found.tasks}</button>`}
  </section>`;
}

function componentsOf({ estimates }) {
  return estimates.filter(({ kind }) => kind === "component").map(({ name }) => name).slice(0, MOST_COMPONENTS);
}

function TaskTable({ rows, components, chosen, onTask, success }) {
  const [low, high] = boundsOf(rows.flatMap((row) => row.rewards));
  const hasIntervals = rows.some((row) => row.low !== null);
  const head = ["Task", "Mean", hasIntervals && "95% interval", ...components.map(words), success !== null && "Successes", low <= high && `Rewards, ${number(low)} to ${number(high)}`, "Best", "Worst"].filter(Boolean);
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Table of tasks"><table class="rows by-task"><caption class="hidden">Rewards by task</caption>
    <thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.number} data-testid="task" aria-current=${chosen?.number === row.number ? "true" : undefined}>
      <td class="clip"><button type="button" class="link" title=${taskNamed(row)} onClick=${() => onTask(row)}>${taskNamed(row) || "no task named"}</button></td>
      <td class="figure ${tone(row.mean_reward)}">${row.mean_reward === null ? "" : number(row.mean_reward)}</td>
      ${hasIntervals && html`<td class="figure">${intervalOf(row)}</td>`}
      ${components.map((name) => html`<td class="figure">${row.components[name] === undefined ? "" : number(row.components[name])}</td>`)}
      ${success !== null && html`<td class="figure">${row.successes === null ? "" : `${row.successes} of `}${row.episodes}${row.left_out ? `, ${row.left_out} left out` : ""}</td>`}
      ${low <= high && html`<td><${Strip} rewards=${row.rewards} low=${low} high=${high} /></td>`}
      <td>${row.best && html`<${Linked} note=${row.best} />`}</td><td>${row.worst && html`<${Linked} note=${row.worst} />`}</td></tr>`)}</tbody></table></div>`;
}
