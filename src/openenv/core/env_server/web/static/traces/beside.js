// What is on record beside an episode's turns: its scores, its model, its tokens, and files to download.
import { html, useState } from "../html.js";
import { Json } from "../json.js";
import { words } from "../observation.js";
import { number, RewardParts } from "../turns.js";
import { Save } from "./save.js";
import { episodePath } from "./source.js";
import { Tokens } from "./tokens.js";

const FORMATS = { messages: "messages", atif: "ATIF", json: "JSON" };

/** Of several conversations, `which` is the one whose turns are shown; `command` plays on from step `at`, where there is one. */
export function Beside({ id, fact, components, which, onWhich, command, at }) {
  const { episode, scores, conversations } = fact;
  return html`<footer class="beside">
    ${command && html`<p class="of" data-testid="command">From ${at === 0 ? "the reset" : `step ${at}`} on, it is played with <code>${command} ${at}</code></p>`}
    ${conversations.length > 1 && html`<label class="by">Conversation <select onChange=${(event) => onWhich(Number(event.target.value))}>${conversations.map((_, number) => html`<option value=${number} selected=${number === which}>${number + 1} of ${conversations.length}</option>`)}</select></label>`}
    ${Object.keys(components ?? {}).length > 0 && html`<${More} title="Components over the episode"><${RewardParts} metadata=${{ reward_signals: components }} /></${More}>`}
    ${scores.length > 0 && html`<${More} title="Scores of other rubrics">${scores.map((score) => html`<section class="score" key=${score.name}>
      <p><strong>${score.name}</strong> ${number(score.reward)}</p><${RewardParts} metadata=${{ reward_signals: score.components }} /></section>`)}</${More}>`}
    ${conversations.length > 0 && html`<${Model} key=${which} conversation=${conversations[which]} />`}
    <div class="downloads">${Object.entries(FORMATS).map(([to, name]) => html`<${Save} path=${`${episodePath(id)}/export/${to}`} name=${`${episode.id}.${to}.json`}>Save as ${name}</${Save}>`)}</div>
  </footer>`;
}

/** Something that is drawn when it is opened. */
function More({ title, children }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="more" onToggle=${(event) => setOpen(event.target.open)}><summary>${title}</summary>${isOpen && children}</details>`;
}

function Model({ conversation }) {
  const { model, model_version: version, sampling, input_tokens: read, output_tokens: written, cost_usd: cost, took_s: took, tools, completion_ids: ids } = conversation;
  const known = { Model: model, Version: version, ...sampling, "Tokens read": read, "Tokens written": written, "US dollars": cost, Seconds: took };
  const facts = Object.entries(known).filter(([, value]) => value !== null && value !== undefined);
  return html`${facts.length > 0 && html`<${More} title="Model"><dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${words(name)}</dt><dd>${typeof value === "number" ? number(value) : String(value)}</dd></div>`)}</dl></${More}>`}
    ${tools.length > 0 && html`<${More} title=${`Tools · ${tools.length}`}><${Json} value=${tools} label="Tools" /></${More}>`}
    ${ids.length > 0 && html`<${More} title=${`Tokens and log-probabilities · ${ids.length}`}><${Tokens} conversation=${conversation} /></${More}>`}`;
}
