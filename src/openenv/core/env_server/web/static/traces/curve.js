// The reward so far, over the steps of up to four episodes, with the step that is shown.
import { html } from "../html.js";
import { number } from "../turns.js";

const WIDTH = 300;
const HEIGHT = 70;
const PAD = 4;

/** @param {(number | null)[][]} rewards The reward of each entry, of each episode. */
export function Curve({ ids, rewards, at, jump }) {
  const lines = rewards.map(sums);
  const count = Math.max(0, ...lines.map((line) => line.length));
  if (count < 3 || lines.every((line) => line[line.length - 1] === 0 && line.every((sum) => sum === 0))) return null;
  const [least, most] = lines.flat().reduce(([low, high], sum) => [Math.min(low, sum), Math.max(high, sum)], [0, 0]);
  const x = (step) => (WIDTH * step) / (count - 1);
  const y = (sum) => HEIGHT - PAD - ((HEIGHT - 2 * PAD) * (sum - least)) / (most - least || 1);
  const click = (event) => {
    const { left, width } = event.currentTarget.getBoundingClientRect();
    jump(Math.round(((event.clientX - left) / width) * (count - 1)));
  };
  const ends = lines.map((line, place) => `${ids[place]}: ${number(line[line.length - 1])}`).join(", ");
  return html`<figure class="curve" data-testid="curve"><figcaption><span>Reward so far</span><span>${number(least)} to ${number(most)}</span></figcaption>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${`Reward so far over ${count - 1} steps, at the end ${ends}`} onClick=${click}>
      <line class="zero-line" x1="0" x2=${WIDTH} y1=${y(0)} y2=${y(0)} />
      ${lines.map((line, place) => html`<path key=${place} data-line=${place} d=${pathOf(line, x, y)} />`)}
      <line class="now" x1=${x(at)} x2=${x(at)} y1="0" y2=${HEIGHT} />
    </svg></figure>`;
}

function sums(rewards) {
  let sum = 0;
  return rewards.map((reward) => (sum += reward ?? 0));
}

/** The path of a line: of many points, the lowest and the highest in each column of the picture. */
function pathOf(line, x, y) {
  const size = Math.max(1, Math.ceil(line.length / (2 * WIDTH)));
  const points = [];
  for (let start = 0; start < line.length; start += size) {
    const column = line.slice(start, start + size);
    const lowest = column.indexOf(Math.min(...column));
    const highest = column.indexOf(Math.max(...column));
    for (const place of new Set([Math.min(lowest, highest), Math.max(lowest, highest)])) points.push([start + place, column[place]]);
  }
  return points.map(([step, sum], place) => `${place === 0 ? "M" : "L"}${x(step).toFixed(1)} ${y(sum).toFixed(1)}`).join("");
}
