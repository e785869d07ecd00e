// A curve over the steps of a run, as SVG: read by pointer and by keyboard, with the cursor at the same step in all charts.
import { html, useRef } from "./html.js";
import { number } from "./turns.js";

/** Steps that a curve of a run's rewards is the mean of. */
export const AVERAGED = 10;
/** Metrics of a run that have a chart of their own, where they are logged and are not 0 all along. */
export const METRICS = [
  ["Length", "episode/length"],
  ["Illegal actions", "episode/illegal_actions"],
  ["Groups without variance", "episode/flat_groups"],
  ["Failed episodes", "episode/failed"],
  ["Loss", "loss"],
  ["Entropy", "entropy"],
  ["KL divergence", "kl"],
  ["Clipped ratios", "clip_ratio/region_mean"],
  ["Gradient norm", "grad_norm"],
  ["Learning rate", "learning_rate"],
  ["Seconds a step", "step_time"],
  ["Tokens a second", "speed/tokens_per_second"],
  ["Actions a second", "speed/actions_per_second"],
  ["Price of a step, $", "cost/price_usd"],
];

const WIDTH = 300;
const HEIGHT = 100;

/**
 * Draw a chart; `series` are `{name, points: [[step, value]], kind, colour}`, of which a pair of kind "edge" bounds an area.
 * The colour is a number; by default each has its own. What is drawn may be smoother than the points: `smooth`.
 */
export function Chart({ title, series, first, last, at, onAt, large }) {
  const latest = useRef(at); // keys come faster than the page is drawn
  latest.current = at;
  const drawn = series.filter(({ points }) => points.length > 0);
  const values = drawn.flatMap(({ points }) => points.map(([, value]) => value));
  const [low, high] = boundsOf(values);
  const isFlat = values.every((value) => value === values[0]);
  const x = (step) => (last === first ? WIDTH / 2 : ((step - first) / (last - first)) * WIDTH);
  const y = (value) => HEIGHT - ((value - low) / (high - low)) * HEIGHT;
  const here = drawn.map(({ name, points }) => ({ name, point: nearest(points, at) }));
  const said = here.map(({ name, point }) => `${name} ${number(point[1])}`).join(", ");
  const move = (event) => {
    const box = event.currentTarget.querySelector("svg").getBoundingClientRect();
    const share = Math.max(0, Math.min((event.clientX - box.left) / box.width, 1));
    onAt(first + Math.round(share * (last - first)));
  };
  const edges = drawn.filter(({ kind }) => kind === "edge");
  const lines = drawn.filter(({ kind }) => kind !== "edge");
  const colour = (line) => (line.kind === "edge" ? "edge" : `series-${line.colour ?? lines.indexOf(line)}`);
  const isNamed = lines.length > 1 || edges.length > 0 || lines[0]?.colour !== undefined;
  return html`<figure class="chart ${large ? "large" : ""}" data-testid="chart">
    <figcaption><h3>${title}</h3><span class="names">${isNamed
      ? here.map(({ name, point }, place) => html`<span class="${colour(drawn[place])} ${drawn[place].kind ?? ""}" title=${name}>${large || lines[0]?.colour === undefined ? name : ""} <b>${number(point[1])}</b></span>`)
      : html`<b>${here.length === 0 ? "" : number(here[0].point[1])}</b>`}</span></figcaption>
    <div class="plot" role="slider" tabindex="0" aria-label=${`${title}: step`} aria-valuemin=${first} aria-valuemax=${last} aria-valuenow=${at} aria-valuetext=${`Step ${at}: ${said}`}
      onPointerMove=${move} onPointerDown=${move} onKeyDown=${(event) => walk(event, latest, first, last, onAt)}>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        ${low < 0 && high > 0 && html`<line class="zero-line" x1="0" x2=${WIDTH} y1=${y(0)} y2=${y(0)} />`}
        ${edges.length === 2 && html`<path class="area" d=${`${path(edges[0].smooth, x, y)} L${path([...edges[1].smooth].reverse(), x, y).slice(1)} Z`} />`}
        ${lines.map((line) => html`<path class="line ${line.kind ?? ""} ${colour(line)}" d=${path(line.points, x, y)} />`)}
        <line class="cursor" x1=${x(at)} x2=${x(at)} y1="0" y2=${HEIGHT} />
      </svg>
      ${isFlat ? html`<span class="axis middle">${number(values[0])}</span>` : html`<span class="axis high">${number(high)}</span><span class="axis low">${number(low)}</span>`}
      ${large && html`<span class="ends"><span>step ${first}</span><span>${at === first || at === last ? "" : `step ${at}`}</span><span>step ${last}</span></span>`}
    </div>
  </figure>`;
}

function walk(event, latest, first, last, onAt) {
  const at = latest.current;
  const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 10, PageUp: at + 10, Home: first, End: last }[event.key];
  if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  latest.current = Math.max(first, Math.min(to, last));
  onAt(latest.current);
}

/** The smallest and the largest value, with room where they are the same. */
function boundsOf(values) {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  if (low === Infinity) return [0, 1];
  const room = low === high ? Math.max(Math.abs(low) / 10, 0.1) : 0;
  return [low - room, high + room];
}

function path(points, x, y) {
  return points.map(([step, value], place) => `${place === 0 ? "M" : "L"}${x(step).toFixed(2)} ${y(value).toFixed(2)}`).join("");
}

/** The last point up to a step, else the first one; points are in the order of steps. */
function nearest(points, at) {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (points[middle][0] <= at) low = middle;
    else high = middle - 1;
  }
  return points[low];
}

/** The mean of each value and those before it, up to `count` of them. */
export function averaged(points, count) {
  let sum = 0;
  return points.map(([step, value], place) => {
    sum += value - (place >= count ? points[place - count][1] : 0);
    return [step, sum / Math.min(place + 1, count)];
  });
}
