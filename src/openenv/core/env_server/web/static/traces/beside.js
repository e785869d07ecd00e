// What is on record beside an episode's entries: its scores, what the model saw and wrote, and files to download.
import { html, useState } from "../html.js";
import { Json } from "../json.js";
import { words } from "../observation.js";
import { number, RewardParts } from "../turns.js";
import { Save } from "./save.js";
import { episodePath } from "./source.js";
import { Tokens } from "./tokens.js";

const FORMATS = { messages: "messages", atif: "ATIF", json: "JSON" };

export function Beside({ id, fact, components }) {
  const { episode, scores, conversations } = fact;
  return html`<footer class="beside">
    ${Object.keys(components ?? {}).length > 0 && html`<${More} title="Components over the episode"><${RewardParts} metadata=${{ reward_signals: components }} /></${More}>`}
    ${scores.length > 0 && html`<${More} title="Scores of other rubrics">${scores.map((score) => html`<section class="score" key=${score.name}>
      <p><strong>${score.name}</strong> ${number(score.reward)}</p><${RewardParts} metadata=${{ reward_signals: score.components }} /></section>`)}</${More}>`}
    ${conversations.map((conversation) => html`<${Conversation} conversation=${conversation} />`)}
    <div class="downloads">${Object.entries(FORMATS).map(([to, name]) => html`<${Save} path=${`${episodePath(id)}/export/${to}`} name=${`${episode.id}.${to}.json`}>Save as ${name}</${Save}>`)}</div>
  </footer>`;
}

/** Something that is drawn when it is opened. */
function More({ title, children }) {
  const [isOpen, setOpen] = useState(false);
  return html`<details class="more" onToggle=${(event) => setOpen(event.target.open)}><summary>${title}</summary>${isOpen && children}</details>`;
}

function Conversation({ conversation }) {
  const { model, model_version: version, sampling, input_tokens: read, output_tokens: written, cost_usd: cost, took_s: took, messages } = conversation;
  const known = { Model: model, Version: version, ...sampling, "Tokens read": read, "Tokens written": written, "US dollars": cost, Seconds: took };
  const facts = Object.entries(known).filter(([, value]) => value !== null && value !== undefined);
  return html`<${More} title="What the model saw and wrote">
      ${facts.length > 0 && html`<dl class="facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${words(name)}</dt><dd>${typeof value === "number" ? number(value) : String(value)}</dd></div>`)}</dl>`}
      <ol class="messages" data-testid="messages">${messages.map((message, at) => html`<${Message} key=${at} message=${message} />`)}</ol></${More}>
    ${conversation.completion_ids.length > 0 && html`<${More} title=${`Tokens and log-probabilities · ${conversation.completion_ids.length}`}><${Tokens} conversation=${conversation} /></${More}>`}`;
}

function Message({ message }) {
  const { role, content, ...others } = message;
  const beside = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== null && value !== undefined && value.length !== 0));
  return html`<li data-role=${role}><h3>${role}</h3>
    ${typeof content === "string" ? content !== "" && html`<pre class="text" tabindex="0" role="group" aria-label=${`Message of ${role}`}>${content}</pre>` : content && html`<${Json} value=${content} label=${`Message of ${role}`} />`}
    ${Object.keys(beside).length > 0 && html`<${Json} value=${beside} label="What the message has beside its text" />`}</li>`;
}
