// Tasks by runs: the mean reward of each model, version or run of a server on each task, with links to the episodes.
import { getPatiently } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { number, taskOf } from "../turns.js";
import { addressOf, queryOf } from "./address.js";
import { Filters, Views } from "./filters.js";

const COLUMNS = { model: "Model or player", version: "Version", run: "Run of the server", ending: "Ending" };
const ROWS = 200;
const TYPING_MS = 150;

export function Grid({ place, go, onLoadError, onProblem }) {
  const by = place.by || "model";
  const [grid, setGrid] = useState(null);
  const [shown, setShown] = useState(ROWS);
  const query = queryOf({ ...place.filter, by });
  useEffect(() => {
    const given = new AbortController();
    const load = () => getPatiently(`web/traces/grid?${query}`, given.signal, onProblem).then(setGrid, onLoadError);
    const timer = setTimeout(load, grid === null ? 0 : TYPING_MS);
    return () => {
      clearTimeout(timer);
      given.abort();
    };
  }, [query]);
  const tasks = grid?.rows.length ?? 0;
  return html`<main class="traces" data-testid="traces">
    <h1 class="hidden">Traces: tasks by runs</h1>
    <${Filters} place=${place} go=${go} />
    <section class="panel results" aria-label="Tasks by runs">
      <header class="stage-head"><${Views} place=${place} go=${go} />
        <span role="status" data-testid="count">${grid === null ? "" : `${tasks} task${tasks === 1 ? "" : "s"}${grid.complete ? "" : ", the newest"}`}</span>
        <label class="by">Columns <select data-testid="by" onChange=${(event) => go({ by: event.target.value }, true)}>${Object.entries(COLUMNS).map(([name, label]) => html`<option value=${name} selected=${name === by}>${label}</option>`)}</select></label></header>
      ${grid !== null && html`<div class="grid" tabindex="0" role="group" aria-label="Grid"><${Table} grid=${grid} shown=${shown} place=${place} go=${go} />
        ${tasks > shown && html`<button type="button" class="quiet" onClick=${() => setShown(shown + ROWS)}>Show ${Math.min(ROWS, tasks - shown)} more of ${tasks}</button>`}</div>`}
    </section>
  </main>`;
}

function Table({ grid, shown, place, go }) {
  const { by, columns, rows } = grid;
  if (rows.length === 0) return html`<p class="note">No episode matches.</p>`;
  const cells = rows.flatMap((row) => row.cells).filter((cell) => typeof cell?.mean_reward === "number");
  const rewards = cells.map((cell) => cell.mean_reward);
  const span = rewards.reduce(([least, most], reward) => [Math.min(least, reward), Math.max(most, reward)], [Infinity, -Infinity]);
  const environments = new Set(rows.map((row) => row.task.environment)).size;
  return html`<table data-testid="grid"><thead><tr><th scope="col">Task</th>${columns.map((column) => html`<th scope="col">${nameOf(by, column)}</th>`)}</tr></thead>
    <tbody>${rows.slice(0, shown).map(({ task, cells: row }) => html`<tr>
      <th scope="row">${[environments > 1 && task.environment, taskOf(task) || "no task named"].filter(Boolean).join(" · ")}</th>
      ${row.map((cell, at) => html`<td>${cell !== null && html`<${Cell} cell=${cell} span=${span} task=${task} by=${by} column=${columns[at]} place=${place} go=${go} />`}</td>`)}</tr>`)}</tbody></table>`;
}

function nameOf(by, column) {
  if (column === null) return `no ${by}`;
  return by === "run" ? `run ${column}` : String(column);
}

function Cell({ cell, span: [least, most], task, by, column, place, go }) {
  const filter = { ...place.filter, ...task, [by]: column };
  const next = { ...place, view: "list", filter: Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== null)) };
  const open = (event) => {
    event.preventDefault();
    go(next);
  };
  const { mean_reward: mean, min_reward: low, max_reward: high, episodes, failed } = cell;
  const heat = typeof mean === "number" && most > least ? (mean - least) / (most - least) : 0;
  const title = `${episodes} episode${episodes === 1 ? "" : "s"}${failed ? `, ${failed} failed` : ""}${mean === null ? "" : `, reward ${number(low)} to ${number(high)}`}`;
  return html`<a href=${addressOf(next)} title=${title} style=${{ "--heat": `${Math.round(45 * heat)}%` }} onClick=${open}><strong>${mean === null ? "none" : number(mean)}</strong> <span class="of">× ${episodes}</span></a>`;
}
