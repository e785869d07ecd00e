// A training run as it goes: its curves, and the best and the worst episodes of a step, side by side and by task.
import { getPatiently } from "./api.js";
import { AVERAGED, averaged, Chart, METRICS } from "./chart.js";
import { html, useEffect, useMemo, useState } from "./html.js";
import { Json } from "./json.js";
import { words } from "./observation.js";
import { followRun } from "./progress.js";
import { boundsOf, Doubts, Linked, Pair, Strip, taskNamed } from "./rollout.js";
import { intervalOf, number, tone, when } from "./turns.js";

// An episode is on record a moment after its step is done.
const RECORDED_MS = 1000;
const CHOOSING_MS = 120;
const ACTIVITIES = ["generation", "environment", "training", "evaluation", "waiting"];

export function Run({ onLoadError }) {
  const { run, problem } = useProgress(onLoadError);
  const [chosen, setChosen] = useState(null);
  useEffect(() => {
    document.title = run === null ? "Run · OpenEnv" : `${run.name} · OpenEnv`;
  }, [run?.name]);
  if (run === null) return problem !== null && html`<main class="reading panel"><p class="problem" role="alert">${problem}</p></main>`;
  const first = run.rows[0]?.step ?? 0;
  const last = run.rows[run.rows.length - 1]?.step ?? 0;
  const at = chosen === null ? last : Math.max(first, Math.min(chosen, last));
  const onAt = (step) => setChosen(step >= last ? null : step);
  return html`<main class="run" data-testid="run">
    <${Summary} run=${run} last=${last} />
    <${Times} rows=${run.rows} beside=${run.times ?? {}} />
    ${run.rows.length === 0
      ? html`<p class="panel note" role="status">${run.state === "running" ? "No step is done yet." : "No step was done."}</p>`
      : html`<${Curves} rows=${run.rows} scores=${run.scores} first=${first} last=${last} at=${at} onAt=${onAt} />
        <${Rollouts} at=${at} last=${last} follows=${chosen === null} onAt=${onAt} first=${first} />`}
  </main>`;
}

/** The run so far. */
function useProgress(onLoadError) {
  const [run, setRun] = useState(null);
  const [problem, setProblem] = useState(null); // before the first answer
  useEffect(() => {
    const shown = new AbortController();
    followRun("", shown.signal, {
      onRun: setRun,
      onEnd: onLoadError,
      onProblem: (text) => {
        setProblem(text);
        setRun((known) => known && { ...known, state: "lost" });
      },
    });
    return () => shown.abort();
  }, []);
  return { run, problem };
}

// --- What it is ------------------------------------------------------------------------------------------------------

function Summary({ run, last }) {
  const { settings } = run;
  const steps = settings.grpo === false ? 0 : settings.steps;
  const began = run.starts[0];
  return html`<section class="panel summary" aria-label="Run">
    <header class="stage-head"><div><h1>${run.name}</h1><span class="of">${settings.model} on ${settings.environment}</span></div>
      <span class="status" role="status" data-testid="state" data-status=${{ running: "open", lost: "lost" }[run.state] ?? ""}>${run.state === "lost" ? "no connection" : run.state}</span></header>
    <dl class="facts">
      <div><dt>Step</dt><dd data-testid="step">${last}${steps ? ` of ${steps}` : ""}</dd></div>
      <div><dt>Episodes a step</dt><dd>${settings.rollouts}</dd></div>
      <div><dt>In groups of</dt><dd>${settings.group_size}</dd></div>
      ${began && html`<div><dt>Started</dt><dd>${when(began.time)}</dd></div>`}
      ${run.starts.length > 1 && html`<div><dt>Resumed</dt><dd>${run.starts.length - 1} time${run.starts.length > 2 ? "s" : ""}</dd></div>`}
      ${spentIn(run.rows, run.scores).map(([name, text, more]) => html`<div><dt>${name}</dt><dd>${text}</dd>${more && html`<dd class="of">${more}</dd>`}</div>`)}
      ${run.state === "running" && last > 0 && html`<div><dt>Left</dt><dd>${duration((steps - last) * secondsEach(run.rows))}</dd></div>`}
    </dl>
    ${steps > 0 && html`<progress max=${steps} value=${last} aria-label="Steps done"></progress>`}
    <${Doubts} rule=${run.illegal_rule} warnings=${run.warnings} />
    <details class="more"><summary>Settings</summary><${Json} value=${settings} label="Settings" /></details>
  </section>`;
}

/** Prices of all episodes and of the model's evaluations, and what users, opponents and judges have used; a number that one step lacks is not known. */
function spentIn(rows, scores) {
  const sum = (counted, metric, of = rows) => {
    const values = of.filter((row) => counted in row).map((row) => row[metric]);
    return values.some((value) => value === undefined) ? null : values.reduce((total, value) => total + value, 0);
  };
  const short = (count) => count?.toLocaleString("en", { notation: "compact" }) ?? "?";
  const dollars = (value) => (value === null ? "price not known" : `$${value.toPrecision(3)}`);
  const facts = rows.some((row) => "cost/episodes" in row) ? [["Price", dollars(sum("cost/episodes", "cost/price_usd"))]] : [];
  const ofModel = Object.entries(scores).filter(([player]) => !/(random|scripted) player$/.test(player)).map(([, score]) => score.costs);
  const ofSteps = rows.filter((row) => "evaluation/cost/episodes" in row);
  const evaluations = [...ofModel, ...ofSteps.map((row) => ({ "cost/episodes": 1, "cost/price_usd": row["evaluation/cost/price_usd"] }))];
  if (evaluations.some((costs) => "cost/episodes" in costs)) {
    facts.push(["Price of evaluations", dollars(sum("cost/episodes", "cost/price_usd", evaluations))]);
  }
  const names = rows.flatMap(Object.keys).map((metric) => /^participants\/(.*)\/replies$/.exec(metric)?.[1]);
  for (const name of new Set(names.filter(Boolean))) {
    const of = (field, counted = "replies") => sum(`participants/${name}/${counted}`, `participants/${name}/${field}`);
    const failed = of("failed", "failed");
    facts.push([name, `${short(of("replies"))} replies`, `${short(of("input_tokens"))} tokens read, ${short(of("output_tokens"))} written, ${dollars(of("cost_usd"))}${failed ? `, ${short(failed)} failed` : ""}`]);
  }
  return facts;
}

/** What the time went to, in all and in a step; a run of an earlier version has no times. */
function Times({ rows, beside }) {
  const measured = rows.filter((row) => ACTIVITIES.some((name) => `time/${name}` in row));
  const times = ACTIVITIES.map((name) => {
    const inSteps = measured.reduce((sum, row) => sum + (row[`time/${name}`] ?? 0), 0);
    return { name, inSteps, seconds: inSteps + (beside[name] ?? 0) };
  }).filter(({ seconds }) => seconds > 0);
  const total = times.reduce((sum, { seconds }) => sum + seconds, 0);
  return total > 0 && html`<section class="panel times" aria-label="Where the time went" data-testid="times"><h2>Where the time went</h2>
    <div class="scroll" tabindex="0" role="group" aria-label="Times"><table class="rows"><thead><tr><th scope="col">Activity</th><th scope="col">In all</th><th scope="col">In a step</th><th scope="col">Share</th></tr></thead>
    <tbody>${times.map(({ name, inSteps, seconds }) => html`<tr><th scope="row">${name}</th><td class="figure">${duration(seconds)}</td>
      <td class="figure">${inSteps > 0 ? `${(inSteps / measured.length).toFixed(2)} s` : ""}</td><td><meter min="0" max="1" value=${seconds / total}></meter> ${Math.round((100 * seconds) / total)}%</td></tr>`)}</tbody></table></div></section>`;
}

function secondsEach(rows) {
  const times = rows.slice(-AVERAGED).map((row) => row.step_time).filter((time) => typeof time === "number");
  return times.reduce((sum, time) => sum + time, 0) / Math.max(times.length, 1);
}

function duration(seconds) {
  const minutes = Math.floor(seconds / 60);
  if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return minutes > 0 ? `${minutes} min` : `${Math.ceil(seconds)} s`;
}

// --- Curves ----------------------------------------------------------------------------------------------------------

function Curves({ rows, scores, ...cursor }) {
  const charts = useMemo(() => chartsOf(rows), [rows]);
  const draw = ({ title, series, large }) => html`<${Chart} key=${title} title=${title} series=${series} large=${large} ...${cursor} />`;
  return html`<section class="charts" aria-label="Curves"><h2 class="hidden">Curves</h2>
    ${charts.slice(0, 1).map(draw)}
    <${Scores} scores=${scores} />
    ${charts.slice(1).map(draw)}
  </section>`;
}

/** What the model is compared with: other players, and itself before and after. */
function Scores({ scores }) {
  return html`<section class="chart scores-of" aria-label="Mean rewards"><h3>Mean reward on the same tasks</h3>
    <table><thead class="hidden"><tr><th scope="col">Player</th><th scope="col">Mean reward</th></tr></thead>
    <tbody>${Object.entries(scores).map(([name, score]) => html`<tr><th scope="row">${name}</th><td class="figure ${tone(score.mean_reward)}" title=${`${score.episodes} episodes`}>${number(score.mean_reward)} <span class="of">${intervalOf(score)}</span></td></tr>`)}</tbody></table>
    ${Object.keys(scores).length === 0 && html`<p class="note">None yet.</p>`}</section>`;
}

function chartsOf(rows) {
  const named = (metric) => rows.filter((row) => typeof row[metric] === "number").map((row) => [row.step, row[metric]]);
  const metrics = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const last = (metric) => words(metric.split("/").pop());
  const reward = named("episode/reward");
  const parts = metrics.filter((metric) => metric.startsWith("episode/reward_components/"));
  const failures = metrics.filter((metric) => metric.startsWith("episode/failures/"));
  const every = (metric) => rows.map((row) => [row.step, row[metric] ?? 0]); // a step without such a failure has no number
  const environments = metrics.filter((metric) => /^episode\/[^/]+\/reward$/.test(metric));
  const charts = [
    { title: "Reward", large: true, series: [
      { name: "best", kind: "edge", ...smoothed(named("episode/best_reward")) },
      { name: "worst", kind: "edge", ...smoothed(named("episode/worst_reward")) },
      { name: `mean of ${AVERAGED}`, points: averaged(reward, AVERAGED) },
      { name: "mean", kind: "faint", colour: 0, points: reward },
      { name: "evaluation, greedy", colour: 1, points: named("evaluation/reward") },
    ] },
    { title: "Reward by environment", series: environments.map((metric) => ({ name: metric.split("/")[1], points: named(metric) })) },
    { title: "Reward by component", series: parts.map((metric) => ({ name: last(metric), points: named(metric) })) },
    { title: "Failed episodes by kind", series: failures.map((metric) => ({ name: last(metric), points: every(metric) })) },
    { title: "Where a step's time goes, in seconds", series: ACTIVITIES.map((name) => ({ name, points: named(`time/${name}`) })) },
    ...METRICS.map(([title, metric]) => ({ title, series: [{ name: last(metric), points: named(metric) }] })),
  ];
  // What is 0 all along, such as a weight that is not used, is left out.
  return charts.filter(({ series, large }) => series.some(({ points }) => points.some(([, value]) => large || value !== 0)));
}

/** The best and the worst of each step, which jump, with the means of some steps, which are drawn. */
function smoothed(points) {
  return { points, smooth: averaged(points, AVERAGED) };
}

// --- Rollouts --------------------------------------------------------------------------------------------------------

function Rollouts({ at, first, last, follows, onAt }) {
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const chosen = new AbortController();
    const { signal } = chosen;
    const load = async (again) => {
      try {
        const news = await getPatiently(`web/run/rollouts?step=${at}`, signal, setProblem);
        setFound(news);
        if (again && isAwaited(news)) timer = setTimeout(load, RECORDED_MS, false);
      } catch (error) {
        if (!signal.aborted) setProblem(error.message);
      }
    };
    let timer = setTimeout(load, follows ? 0 : CHOOSING_MS, true);
    return () => {
      clearTimeout(timer);
      chosen.abort();
    };
  }, [at]);
  return html`<section class="panel rollouts" aria-label="Rollouts" aria-busy=${found !== null && (found.step ?? at) !== at}>
    <header class="stage-head"><h2>Rollouts of step <span data-testid="rollouts-step">${found?.step ?? at}</span></h2>
      <div class="steps"><button type="button" class="secondary" disabled=${at <= first} onClick=${() => onAt(at - 1)} aria-label="The step before">‹</button>
        <button type="button" class="secondary" disabled=${at >= last} onClick=${() => onAt(at + 1)} aria-label="The next step">›</button>
        <button type="button" class="secondary" disabled=${follows} onClick=${() => onAt(last)}>Latest</button></div></header>
    ${problem !== null && html`<p class="problem" role="alert">${problem}</p>`}
    ${found?.step === null && html`<p class="note">The episodes of this step are not on record.</p>`}
    ${found?.best && html`<${Pair} best=${found.best} worst=${found.worst} />
      <${ByTask} groups=${found.groups} />`}
  </section>`;
}

/** Whether an episode has an id in the traces, and is not in them yet. */
function isAwaited({ groups }) {
  return groups.some(({ best, worst }) => [best, worst].some((note) => note.episode_id !== undefined && note.trace === null));
}

function ByTask({ groups }) {
  const [low, high] = boundsOf(groups.flatMap((group) => group.rewards));
  return html`<div class="scroll" tabindex="0" role="group" aria-label="By task"><table class="rows by-task"><caption class="hidden">Rewards by task</caption>
    <thead><tr><th scope="col">Task</th><th scope="col">Mean</th><th scope="col">Rewards, ${number(low)} to ${number(high)}</th><th scope="col">Best</th><th scope="col">Worst</th></tr></thead>
    <tbody>${groups.map((group) => html`<tr><td class="clip">${taskNamed(group)}</td><td class="figure ${tone(group.mean_reward)}">${number(group.mean_reward)}${group.failed > 0 && html` <span class="of">${group.failed} failed</span>`}</td>
      <td><${Strip} rewards=${group.rewards} low=${low} high=${high} /></td>
      <td><${Linked} note=${group.best} /></td><td><${Linked} note=${group.worst} /></td></tr>`)}</tbody></table></div>`;
}
