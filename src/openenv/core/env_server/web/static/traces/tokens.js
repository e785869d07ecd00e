// The tokens of a conversation by their texts, or by their ids where no texts are on record, coloured by how likely each was when the model wrote it.
import { html, useState } from "../html.js";

const SHOWN = 1000;
const LEGEND = [1, 0.5, 0.1, 0.01];

/** Of the conversation, `prompt_ids`, `completion_ids`, `logprobs`, `env_mask` and `token_texts` are shown. */
export function Tokens({ conversation }) {
  const [shown, setShown] = useState(SHOWN);
  const { prompt_ids: prompt, completion_ids: ids, logprobs, env_mask: written, token_texts: texts = {} } = conversation;
  const fed = (id) => html`<span class="token fed" title=${`token ${id}, read`}>${textOf(texts, id)}</span>`;
  return html`<div class="legend" aria-hidden="true">${LEGEND.map((chance) => html`<span class="token" style=${heatOf(Math.log(chance))}>${100 * chance}%</span>`)}<span class="token fed">not the model's</span></div>
    ${prompt.length > 0 && html`<details><summary>Prompt · ${prompt.length} tokens</summary><div class="tokens" tabindex="0" role="group" aria-label="Tokens of the prompt">${prompt.map(fed)}</div></details>`}
    <div class="tokens" tabindex="0" role="group" aria-label="Tokens" data-testid="tokens">${ids.slice(0, shown).map((id, at) => written[at] === 0
      ? fed(id)
      : html`<span class="token" style=${heatOf(logprobs[at])} title=${describe(id, logprobs[at])}>${textOf(texts, id)}</span>`)}</div>
    ${ids.length > shown && html`<button type="button" class="quiet" onClick=${() => setShown(shown + SHOWN)}>Show ${Math.min(SHOWN, ids.length - shown)} more of ${ids.length}</button>`}`;
}

/** The text of a token, with marks for what would not be seen. */
function textOf(texts, id) {
  const text = texts[id];
  return text === undefined ? id : text.replaceAll("\n", "↵\n").replaceAll("\t", "→") || "∅";
}

function describe(id, logprob) {
  return logprob === undefined ? `token ${id}` : `token ${id}, log-probability ${logprob.toFixed(3)}, ${(100 * Math.exp(logprob)).toFixed(1)}%`;
}

/** None for what was certain, all for one in a hundred or less. */
function heatOf(logprob) {
  const share = logprob === undefined ? 0 : Math.min(1, -logprob / -Math.log(0.01));
  return { "--heat": `${Math.round(40 * share)}%` };
}
