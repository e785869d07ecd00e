// What both views show of a turn: its number, its action in few words, and its reward with the parts.
import { html } from "./html.js";
import { words } from "./observation.js";

// Made once, since each costs much of the time that a followed step has.
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "short", timeStyle: "medium" });
// Below it, a number is written with an exponent.
const SMALL = 1e-4;

/** The class of a reward's colour. */
export function tone(reward) {
  return reward > 0 ? "good" : reward < 0 ? "bad" : "";
}

export function number(value) {
  const shown = Number(Number(value).toPrecision(4));
  return shown !== 0 && Math.abs(shown) < SMALL ? shown.toExponential() : String(shown);
}

/** The ends of an estimate's interval, as text; nothing where there are none. */
export function intervalOf({ low, high }) {
  return typeof low === "number" ? [low, high].map((end) => Number(end.toPrecision(3))).join(" to ") : "";
}

/** The named parts of a reward, with their weights. */
export function RewardParts({ metadata }) {
  const signals = Object.entries(metadata?.reward_signals ?? {}).filter(([, value]) => typeof value === "number");
  if (signals.length === 0) return null;
  const weights = metadata.reward_weights ?? {};
  const largest = Math.max(...signals.map(([, value]) => Math.abs(value)), 1e-9);
  return html`<section class="parts"><h3>Reward by component</h3><table><thead class="hidden"><tr><th scope="col">Component</th><th scope="col">Value</th><th scope="col">Bar</th><th scope="col">Weight</th></tr></thead>
    <tbody>${signals.map(([name, value]) => html`<tr>
    <th scope="row">${words(name)}</th><td class="figure ${tone(value)}">${number(value)}</td>
    <td class="bar"><span class=${value < 0 ? "minus" : ""} style=${{ width: `${(100 * Math.abs(value)) / largest}%` }}></span></td>
    <td class="weight">${weights[name] === undefined ? "" : `× ${number(weights[name])}`}</td></tr>`)}</tbody></table></section>`;
}

/** The rewards of an episode's turns, added up; a fork begins with those of the session that it continues, as far as they are known. */
export function totalOf(turns) {
  return turns.reduce((sum, turn) => (turn.type === "fork" ? (turn.total ?? 0) : sum + Number(turn.reward ?? 0)), 0);
}

/** What was done in a turn, in few words. */
export function briefly({ type, request }) {
  if (type === "fork") return `fork of ${request.session}`;
  const fields = Object.entries(request ?? {});
  if (type === "reset") return fields.length === 0 ? "reset" : `reset ${fields.map(([name, value]) => `${name}=${short(value)}`).join(" ")}`;
  if (request.type === "call_tool") return `${request.tool_name}(${Object.values(request.arguments ?? {}).map(short).join(", ")})`;
  const values = fields.filter(([name]) => name !== "metadata");
  return values.map(([, value]) => short(value)).join(" · ") || "step";
}

function short(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** A task in few words. */
export function taskOf({ split, index, seed }) {
  const of = split ? `${split} ${index ?? ""}`.trim() : index && `task ${index}`;
  return [of, seed !== null && seed !== undefined && `seed ${seed}`].filter(Boolean).join(" · ");
}

/** A time, from seconds since 1970 or a text; nothing of what is no time. */
export function when(time) {
  const at = new Date(typeof time === "number" ? 1000 * time : time);
  return Number.isNaN(at.getTime()) ? "" : TIME.format(at);
}
