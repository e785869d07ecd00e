// A curve over the steps of a run, as SVG: read by pointer and by keyboard, with the cursor at the same step in all charts.
import { html } from "./html.js";
import { number } from "./turns.js";

const WIDTH = 300;
const HEIGHT = 100;

/** Draw a chart; `series` are `{name, points: [[step, value]], kind}`, of which a pair of kind "edge" bounds an area. */
export function Chart({ title, series, first, last, at, onAt, large }) {
  const drawn = series.filter(({ points }) => points.length > 0);
  const values = drawn.flatMap(({ points }) => points.map(([, value]) => value));
  const [low, high] = boundsOf(values);
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
  return html`<figure class="chart ${large ? "large" : ""}" data-testid="chart">
    <figcaption><h3>${title}</h3><span class="names">${lines.length > 1 || edges.length > 0
      ? here.map(({ name, point }, place) => html`<span class=${drawn[place].kind === "edge" ? "edge" : `series-${lines.indexOf(drawn[place])}`}>${name} <b>${number(point[1])}</b></span>`)
      : html`<b>${here.length === 0 ? "" : number(here[0].point[1])}</b>`}</span></figcaption>
    <div class="plot" role="slider" tabindex="0" aria-label=${`${title}: step`} aria-valuemin=${first} aria-valuemax=${last} aria-valuenow=${at} aria-valuetext=${`Step ${at}: ${said}`}
      onPointerMove=${move} onPointerDown=${move} onKeyDown=${(event) => walk(event, at, first, last, onAt)}>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        ${low < 0 && high > 0 && html`<line class="zero-line" x1="0" x2=${WIDTH} y1=${y(0)} y2=${y(0)} />`}
        ${edges.length === 2 && html`<path class="area" d=${`${path(edges[0].points, x, y)} L${path([...edges[1].points].reverse(), x, y).slice(1)} Z`} />`}
        ${lines.map(({ points, kind }, place) => html`<path class="line ${kind ?? ""} series-${place}" d=${path(points, x, y)} />`)}
        <line class="cursor" x1=${x(at)} x2=${x(at)} y1="0" y2=${HEIGHT} />
      </svg>
      <span class="axis high">${number(high)}</span><span class="axis low">${number(low)}</span>
      ${large && html`<span class="ends"><span>step ${first}</span><span>${at === first || at === last ? "" : `step ${at}`}</span><span>step ${last}</span></span>`}
    </div>
  </figure>`;
}

function walk(event, at, first, last, onAt) {
  const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 10, PageUp: at + 10, Home: first, End: last }[event.key];
  if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  onAt(Math.max(first, Math.min(to, last)));
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
