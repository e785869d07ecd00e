// An entry of an episode: as a row of a list of steps, and whole, with its request, observation and reward.
import { html, useMemo } from "./html.js";
import { Json } from "./json.js";
import { Observation } from "./observation.js";
import { briefly, number, RewardParts, tone, when } from "./turns.js";
import { useView } from "./view.js";

/** A row of the list of steps, drawn again if it is given something else; of the entry, `kind`, `request`, `failed` and `answer.reward` are shown. */
export function StepRow({ step, entry, current, differs, jump }) {
  return useMemo(() => html`<li><button type="button" class=${differs ? "differs" : ""} aria-current=${current ? "step" : undefined} onClick=${() => jump(step, entry)}>
    <span class="count">${step}</span><span class="what">${entry === null ? "" : briefly({ type: entry.kind, request: entry.request })}</span>
    <span class="figure ${tone(entry?.answer.reward)}">${entry === null ? "" : entry.failed ? html`<span class="bad">error</span>` : typeof entry.answer.reward === "number" ? number(entry.answer.reward) : ""}</span>
  </button></li>`, [step, entry, current, differs, jump]);
}

/** Whether a key is for the page: neither for what has the focus nor for the browser. */
export function isForPage(event) {
  return !event.target.closest?.("input, select, textarea, pre, .tokens") && !event.ctrlKey && !event.metaKey && !event.altKey;
}

/** The step that a key leads to from step `at`; undefined for a key of another meaning. */
export function keyedStep(event, at) {
  if (!isForPage(event)) return undefined;
  return { ArrowDown: at + 1, ArrowRight: at + 1, "]": at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, "[": at - 1, Home: 0, End: Infinity }[event.key];
}

/** An entry as the wire has it, of an environment by its name; `schema` is that of the observation, if it is known. */
export function Entry({ entry, at, environment, schema }) {
  const { answer } = entry;
  const view = useView(environment, answer);
  return html`<div class="entry" data-testid="entry">
    <div class="said"><h2>${at === 0 ? "Reset" : `Step ${at}`}</h2><span class="of">${entry.at > 0 && `${number(1000 * entry.took_s)} ms · ${when(entry.at)}`}</span></div>
    ${entry.left_out?.length > 0 && html`<p class="note" data-testid="left-out">Left out of the record: ${entry.left_out.join(", ")}</p>`}
    <${Json} value=${entry.request} label="Request" />
    ${entry.failed
      ? html`<p class="problem" role="status">${answer.code}: ${answer.message}</p>`
      : html`<${Observation} observation=${answer.observation} view=${view} schema=${schema} />
        <dl class="facts"><div><dt>Reward</dt><dd class=${tone(answer.reward)}>${answer.reward === null || answer.reward === undefined ? "none" : number(answer.reward)}</dd></div><div><dt>Done</dt><dd>${String(answer.done)}</dd></div></dl>
        <${RewardParts} metadata=${answer.metadata} />`}
  </div>`;
}
