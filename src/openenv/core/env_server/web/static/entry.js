// An entry of an episode: as a row of a list of steps, and whole, as a turn of a conversation.
import { html, useMemo } from "./html.js";
import { Json } from "./json.js";
import { Fields, Frame, pictureOf, Text } from "./observation.js";
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

/**
 * An entry as a turn of a conversation: thought, action, reward, and what the environment shows then.
 *
 * @param part What the model's side has of it: `before`, `thought`, `action`, `is_verbatim` and `read`, as `ConversationPart` of
 *   `openenv.traces.conversation` has them, with the messages; undefined for nothing.
 * @param schema That of the observation, if it is known.
 * @param children What can be done with it.
 */
export function Entry({ entry, at, environment, schema, part, children }) {
  const { answer } = entry;
  const view = useView(environment, answer);
  return html`<article class="entry" data-testid="entry" data-step=${at} aria-label=${at === 0 ? "Reset" : `Step ${at}`}>
    <div class="said"><h2>${at === 0 ? "Reset" : `Step ${at}`}</h2><span class="of">${entry.at > 0 && `${number(1000 * entry.took_s)} ms · ${when(entry.at)}`}</span>${children}</div>
    ${entry.left_out?.length > 0 && html`<p class="note" data-testid="left-out">Left out of the record: ${entry.left_out.join(", ")}</p>`}
    <${Messages} messages=${part?.before ?? []} />
    ${part?.thought && html`<${Spoken} name="thought"><${Text} text=${part.thought} name="Thought" /></${Spoken}>`}
    <${Action} entry=${entry} part=${part} />
    ${entry.failed
      ? html`<${Spoken} name="error"><p class="problem" role="status">${answer.code}: ${answer.message}</p></${Spoken}>`
      : html`<${Reward} answer=${answer} />`}
    <${Seen} entry=${entry} part=${part} view=${view} schema=${schema} />
  </article>`;
}

/** Messages of a conversation that belong to no entry. */
export function Messages({ messages }) {
  return messages.map((message, at) => html`<${Spoken} key=${at} name=${{ assistant: "model", user: "answer", tool: "answer" }[message.role] ?? message.role}><${Content} message=${message} /></${Spoken}>`);
}

function Spoken({ name, children }) {
  return html`<div class="spoken of-${name}"><h3>${name}</h3><div>${children}</div></div>`;
}

/** The action in the model's own words, and as it was read from them, where that says something else. */
function Action({ entry, part }) {
  const isReset = entry.kind === "reset";
  const hasText = typeof part?.action === "string";
  return html`<${Spoken} name=${isReset ? "reset" : "action"}>
    ${hasText && html`<${Text} text=${part.action || "(nothing)"} name="Action" />`}
    ${!(hasText && part.is_verbatim) && html`${hasText && html`<p class="of">read as</p>`}<${Json} value=${entry.request} label=${isReset ? "Request" : hasText ? "Parsed action" : "Action"} inLine=${true} />`}
  </${Spoken}>`;
}

function Reward({ answer }) {
  const { reward, done, metadata } = answer;
  if ((reward === null || reward === undefined) && !done) return null;
  return html`<${Spoken} name="reward"><div class="rewarded"><b class="figure ${tone(reward)}">${reward === null || reward === undefined ? "none" : number(reward)}</b>${done && html` <span class="badge">done</span>`}</div>
    <${RewardParts} metadata=${metadata} /></${Spoken}>`;
}

/** What the model read, or else all fields of the observation, with the environment's own view beside it. */
function Seen({ entry, part, view, schema }) {
  const { metadata, ...fields } = entry.answer.observation ?? {};
  const read = part?.read ?? [];
  if (entry.failed && read.length === 0) return null;
  const hasPicture = Object.values(fields).some((field) => pictureOf(field) !== null);
  const all = html`<${Fields} value=${fields} schema=${schema} />`;
  return html`<${Spoken} name="observation"><div class="seen ${view?.html ? "viewed" : ""}" data-testid="observation">
    <div class="fields">
      ${view?.problem && html`<p class="note">The environment could not render this: ${view.problem}</p>`}
      ${read.map((message, at) => html`<${Content} key=${at} message=${message} />`)}
      ${read.length === 0 ? all : !entry.failed && html`<details class="more" open=${hasPicture}><summary>All fields</summary><div class="fields">${all}</div></details>`}
    </div>
    ${view?.html && html`<${Frame} content=${view.html} title="The environment's own view" />`}</div></${Spoken}>`;
}

/** What a message has: its text, and other parts as JSON; a prompt of the system is said to be one. */
function Content({ message }) {
  const { role, content, tool_call_id, name, ...others } = message;
  const rest = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== null && value !== undefined && value.length !== 0));
  return html`${role === "system" && html`<p class="of">system</p>`}
    ${typeof content === "string" ? (content !== "" || Object.keys(rest).length === 0) && html`<${Text} text=${content || "(nothing)"} name=${`Message of ${role}`} />` : content && html`<${Json} value=${content} label=${`Message of ${role}`} />`}
    ${Object.keys(rest).length > 0 && html`<${Json} value=${rest} label="What the message has beside its text" />`}`;
}
