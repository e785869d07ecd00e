// Two to four runs, evaluations or files of traces beside each other: curves, scores, and the tasks that differ most.
import { getPatiently } from "./api.js";
import { AVERAGED, averaged, Chart, METRICS } from "./chart.js";
import { html, useEffect, useMemo, useState } from "./html.js";
import { words } from "./observation.js";
import { followRun } from "./progress.js";
import { boundsOf, taskNamed } from "./rollout.js";
import { intervalOf, number, tone } from "./turns.js";

const POLL_MS = 5000;
const MORE = 50;
// Tasks that one request may ask for.
const MOST_TASKS = 500;
// A run that is under way changes; what has ended is read once.
const GROWING = ["running", "not complete"];

export function Compare({ config, onLoadError }) {
  const [sources, setSources] = useState(null);
  const [runs, setRuns] = useState({});
  const [problems, setProblems] = useState({}); // by what is read: a success of one ends no failure of another
  const noteOf = (name) => (problem) => setProblems((known) => ({ ...known, [name]: problem }));
  useEffect(() => {
    document.title = `${config.compare.join(", ")} · OpenEnv`;
    const shown = new AbortController();
    let timer = null;
    const poll = async () => {
      const found = await getPatiently("web/compare/overview", shown.signal, noteOf("overview"));
      setSources(found);
      if (found.some(({ state }) => GROWING.includes(state))) timer = setTimeout(again, POLL_MS);
    };
    const again = () => poll().catch((error) => shown.signal.aborted || onLoadError(error));
    again();
    return () => {
      clearTimeout(timer);
      shown.abort();
    };
  }, []);
  const isKnown = sources !== null;
  useEffect(() => {
    const shown = new AbortController();
    (sources ?? []).forEach(({ view }, place) => view === "run" && followRun(`${place + 1}/`, shown.signal, {
      onRun: (run) => {
        setRuns((known) => ({ ...known, [place]: run }));
        noteOf(place)(null);
      },
      onEnd: (error) => noteOf(place)(error.message),
      onProblem: noteOf(place),
    }));
    return () => shown.abort();
  }, [isKnown]);
  return html`<main class="run compare" data-testid="compare">
    ${[...new Set(Object.values(problems))].filter(Boolean).map((problem) => html`<p key=${problem} class="problem banner" role="alert">${problem}</p>`)}
    ${isKnown && html`<${Sources} sources=${sources} />
      <${Curves} sources=${sources} runs=${runs} />
      <${Scores} sources=${sources} />
      <${Tasks} sources=${sources} />`}
  </main>`;
}

/** The name of a source, after its colour. */
function Named({ name, place }) {
  return html`<span class="swatch" data-line=${place}></span>${name}`;
}

function Sources({ sources }) {
  const environments = [...new Set(sources.map(({ environment }) => environment).filter(Boolean))];
  return html`<section class="panel summary" aria-label="What is compared">
    <header class="stage-head"><h1>Comparison</h1></header>
    <ul class="sources">${sources.map(({ name, view, environment, player, state, problem }, place) => html`<li key=${place} data-testid="source">
      <span class="swatch" data-line=${place}></span><a href=${`../${place + 1}/web/${view}`}>${name}</a>
      <div class="of">${[[player, environment].filter(Boolean).join(" on "), state].filter(Boolean).join(" · ")}</div>
      ${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}</li>`)}</ul>
    ${environments.length > 1 && html`<p class="note said-of">The environments are called differently (${environments.join("; ")}). Where they are not the same, tasks with the same seed aren't either.</p>`}
  </section>`;
}

// --- Curves ----------------------------------------------------------------------------------------------------------

function Curves({ sources, runs }) {
  const [chosen, setChosen] = useState(null);
  const charts = useMemo(() => chartsOf(sources, runs), [sources, runs]);
  const steps = Object.values(runs).flatMap(({ rows }) => [rows[0]?.step, rows[rows.length - 1]?.step]).filter((step) => step !== undefined);
  if (charts.length === 0) return null;
  const [first, last] = boundsOf(steps);
  const at = chosen === null ? last : Math.max(first, Math.min(chosen, last));
  return html`<section class="charts" aria-label="Curves"><h2 class="hidden">Curves</h2>
    ${charts.map(({ title, series, large }) => html`<${Chart} key=${title} title=${title} series=${series} large=${large} first=${first} last=${last} at=${at} onAt=${(step) => setChosen(step >= last ? null : step)} />`)}
  </section>`;
}

function chartsOf(sources, runs) {
  const curves = (metric, shape = (points) => points) => Object.entries(runs).map(([place, { rows }]) => ({
    name: sources[place].name,
    colour: Number(place),
    points: shape(rows.filter((row) => typeof row[metric] === "number").map((row) => [row.step, row[metric]])),
  }));
  const mean = (points) => averaged(points, AVERAGED);
  const parts = [...new Set(Object.values(runs).flatMap(({ rows }) => Object.keys(rows[rows.length - 1] ?? {})))].filter((name) => name.startsWith("episode/reward_components/"));
  const charts = [
    { title: `Reward, mean of ${AVERAGED} steps`, large: true, series: curves("episode/reward", mean) },
    ...parts.map((metric) => ({ title: words(metric.split("/").pop()), series: curves(metric, mean) })),
    ...METRICS.map(([title, metric]) => ({ title, series: curves(metric) })),
  ];
  return charts.filter(({ series, large }) => series.some(({ points }) => points.some(([, value]) => large || value !== 0)));
}

// --- Scores ----------------------------------------------------------------------------------------------------------

function Scores({ sources }) {
  // A component may have the name of another kind of score.
  const rows = new Map(sources.flatMap(({ scores }) => scores.map(({ name, kind }) => [`${kind} ${name}`, { name, kind }])));
  const hasRuns = sources.some(({ view }) => view === "run");
  if (rows.size === 0) return null;
  const ranked = ["reward", "component", "chance", "player"];
  const ordered = [...rows].sort(([, one], [, other]) => ranked.indexOf(one.kind) - ranked.indexOf(other.kind));
  return html`<section class="panel compared" aria-label="Scores"><header class="stage-head"><h2>Scores</h2>
      <span class="of">means${sources.some(({ scores }) => scores.some(({ low }) => typeof low === "number")) ? ", with 95% intervals" : ""}${hasRuns ? `; of a run, reward and components over its last ${AVERAGED} steps` : ""}</span></header>
    <div class="scroll" tabindex="0" role="group" aria-label="Table of scores"><table class="rows"><thead><tr><th scope="col">Score</th>${sources.map(({ name }, place) => html`<th scope="col"><${Named} name=${name} place=${place} /></th>`)}</tr></thead>
    <tbody>${ordered.map(([key, { name, kind }]) => html`<tr data-testid="score" key=${key}><th scope="row" class=${kind}>${kind === "component" ? words(name) : name}</th>${sources.map(({ scores }) => html`<td class="figure"><${Score} score=${scores.find((score) => score.name === name && score.kind === kind)} /></td>`)}</tr>`)}</tbody></table></div></section>`;
}

function Score({ score }) {
  if (score === undefined) return html`<span class="none">none</span>`;
  return html`<b class=${score.kind === "chance" ? "" : tone(score.value)}>${number(score.value)}</b> <span class="of">${intervalOf(score)}</span>`;
}

// --- Tasks -----------------------------------------------------------------------------------------------------------

function Tasks({ sources }) {
  const [found, setFound] = useState(null);
  const [limit, setLimit] = useState(MORE);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const shown = new AbortController();
    const starts = Array.from({ length: Math.ceil(limit / MOST_TASKS) }, (_, page) => page * MOST_TASKS);
    const pages = starts.map((start) => getPatiently(`web/compare/tasks?start=${start}&limit=${Math.min(MOST_TASKS, limit - start)}`, shown.signal, setProblem));
    const join = (all) => setFound({ ...all[all.length - 1], rows: all.flatMap(({ rows }) => rows) });
    Promise.all(pages).then(join, (error) => shown.signal.aborted || setProblem(error.message));
    return () => shown.abort();
  }, [sources, limit]);
  return html`<section class="panel compared" aria-label="Tasks"><header class="stage-head"><h2>Tasks where they differ most</h2>
      <span role="status" data-testid="common">${found === null ? "" : `${found.common} task${found.common === 1 ? "" : "s"} in common`}</span></header>
    ${problem !== null && html`<p class="problem said-of" role="alert">${problem}</p>`}
    ${found !== null && (found.rows.length === 0
      ? html`<p class="note said-of">${found.tasks.some((count) => count > 0) ? "No task was played in two of them: a task is known by its seed, or by its split and index." : "No task was played yet."}</p>`
      : html`<${TaskTable} rows=${found.rows} sources=${sources} />`)}
    ${found !== null && found.common > found.rows.length && html`<button type="button" class="quiet more-rows" onClick=${() => setLimit(limit + MORE)}>Show ${Math.min(MORE, found.common - found.rows.length)} more of ${found.common}</button>`}
  </section>`;
}

function TaskTable({ rows, sources }) {
  const [least, most] = boundsOf(rows.flatMap(({ cells }) => cells.filter(Boolean).map((cell) => cell.mean_reward)));
  const heat = (mean) => `${most > least ? Math.round((45 * (mean - least)) / (most - least)) : 0}%`;
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Table of tasks"><table class="rows by-task"><thead><tr><th scope="col">Task</th>${sources.map(({ name }, place) => html`<th scope="col"><${Named} name=${name} place=${place} /></th>`)}<th scope="col">Difference</th><th scope="col">Episodes</th></tr></thead>
    <tbody>${rows.map(({ task, cells, difference, ids }) => html`<tr data-testid="task"><th scope="row" class="clip" title=${taskNamed({ task })}>${taskNamed({ task }) || "no task named"}</th>
      ${cells.map((cell) => html`<td class="figure mean" style=${{ "--heat": cell ? heat(cell.mean_reward) : "0%" }}>${cell === null ? html`<span class="none">none</span>` : html`<b>${number(cell.mean_reward)}</b> <span class="of">× ${cell.episodes}</span>`}</td>`)}
      <td class="figure">${number(difference)}</td><td><${Beside} ids=${ids} /></td></tr>`)}</tbody></table></div>`;
}

/** A link to the episodes that show a difference. */
function Beside({ ids }) {
  const [episode, ...others] = ids;
  if (episode === undefined) return html`<span class="none">not on record</span>`;
  const query = new URLSearchParams(others.length > 0 ? { episode, with: others.join() } : { episode });
  const title = "The best episode where the mean is highest, and the worst of the others";
  return html`<a href=${`traces?${query}`} title=${title}>${others.length > 0 ? "Side by side" : "The one on record"}</a>`;
}
