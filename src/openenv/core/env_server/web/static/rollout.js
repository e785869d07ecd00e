// Episodes as the model saw and wrote them: the best and the worst side by side, and the rewards of a task as dots.
import { html } from "./html.js";
import { words } from "./observation.js";
import { number, tone } from "./turns.js";

/** The best and the worst episode side by side. */
export function Pair({ best, worst }) {
  return html`<div class="pair"><${Rollout} title="Best" note=${best} /><${Rollout} title="Worst" note=${worst} /></div>`;
}

function Rollout({ title, note }) {
  return html`<article class="rollout" data-testid=${`rollout-${title.toLowerCase()}`}>
    <header><h3>${title}</h3> <b class="figure ${tone(note.reward)}">${number(note.reward)}</b> <span class="of">${taskNamed(note)}</span>
      ${note.trace && html`<a href=${traceAddress(note)}>${note.trace}</a>`}</header>
    <p class="of">${note.length} action${note.length === 1 ? "" : "s"}${note.illegal_actions ? `, ${note.illegal_actions} illegal` : ""}${note.cut_by ? `, cut off by ${note.cut_by}` : ""}${note.error ? `, failed: ${note.error}` : ""}</p>
    ${Object.keys(note.reward_components ?? {}).length > 0 && html`<p class="of">${Object.entries(note.reward_components).map(([name, value]) => `${words(name)} ${number(value)}`).join(", ")}</p>`}
    ${note.messages?.length > 0
      ? html`<ol class="dialogue" tabindex="0" aria-label=${`${title} episode`}>${note.messages.map(({ role, text }) => html`<li class=${role}><span class="role">${{ assistant: "model", user: "environment", tool: "environment" }[role] ?? role}</span><pre class="said-text">${text || "(nothing)"}</pre></li>`)}
        ${note.more > 0 && html`<li class="of">and ${note.more} more</li>`}</ol>`
      : html`<p class="note">${note.trace ? "What was said is not on record." : "This episode is not on record."}</p>`}
  </article>`;
}

/** The reward of an episode, which leads to its trace where there is one. */
export function Linked({ note }) {
  const shown = html`<span class="figure ${tone(note.reward)}">${number(note.reward)}</span>`;
  return note.trace ? html`${shown} <a href=${traceAddress(note)}>${note.trace}</a>` : shown;
}

/** Rewards as dots between the lowest and the highest of a table. */
export function Strip({ rewards, low, high }) {
  const place = (reward) => `${high === low ? 50 : (100 * (reward - low)) / (high - low)}%`;
  return html`<span class="strip" role="img" aria-label=${rewards.map(number).join(", ")}>${rewards.map((reward) => html`<i style=${{ left: place(reward) }}></i>`)}</span>`;
}

/** The smallest and the largest of some numbers; of many, too. */
export function boundsOf(numbers) {
  return numbers.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

/** A task in few words, with its environment where there are several. */
export function taskNamed({ environment, task }) {
  const named = Object.entries(task ?? {}).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [environment, ...named].filter(Boolean).join(" · ");
}

function traceAddress({ trace }) {
  return `traces?episode=${encodeURIComponent(trace)}`;
}

/** What an illegal answer does, and what makes figures doubtful. */
export function Doubts({ rule, warnings }) {
  return html`${rule && html`<p class="note said-of" data-testid="illegal-rule">Illegal answers: ${rule}.</p>`}
    ${(warnings ?? []).map((warning) => html`<p class="problem said-of" role="note" data-testid="warning">${warning}</p>`)}`;
}
