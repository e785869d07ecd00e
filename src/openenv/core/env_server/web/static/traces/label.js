// What a person calls an episode and says of it: shown, and changed where there is a server.
import { getJson } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { SAVED } from "../saved.js";
import { episodePath } from "./source.js";

const USUAL = ["good", "bad"];
const LONGEST_LABEL = 60;
const LONGEST_NOTE = 10_000;

/** A label as a chip; nothing without one. */
export function LabelChip({ label, note }) {
  return label && html`<span class="chip label-${USUAL.includes(label) ? label : "other"}" title=${note ?? "A label that a person gave."} data-testid="label">${label}</span>`;
}

/** The form; among several panels, its fields are shown when they are wanted. */
export function Label({ id, episode, isAlone }) {
  const [isOpen, setOpen] = useState(isAlone);
  const first = useRef(null);
  useEffect(() => {
    if (!isAlone) first.current?.focus();
  }, [isOpen]);
  const [kept, setKept] = useState({ label: episode.label ?? "", note: episode.note ?? "" });
  const [given, setGiven] = useState(kept);
  const [problem, setProblem] = useState(null);
  if (SAVED !== null) return (kept.label || kept.note) && html`<div class="labelled"><${LabelChip} label=${kept.label} /><span>${kept.note}</span></div>`;
  const save = async (next) => {
    setGiven(next);
    setProblem(null);
    try {
      const { label, note } = await getJson(`${episodePath(id)}/label`, { ...next, replaces: [kept.label, kept.note] });
      const saved = { label: label ?? "", note: note ?? "" };
      setKept(saved);
      if (saved.label !== next.label.trim() || saved.note !== next.note.trim()) return setProblem(`another person gave it ${saved.label || "no label"}, ${saved.note || "no note"}. Save again to replace that.`);
      setGiven((now) => (now === next ? saved : now));
    } catch (error) {
      setProblem(error.status === undefined ? "the server can't be reached." : error.message);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    save(given);
  };
  const isKept = given.label === kept.label && given.note === kept.note;
  return html`<form class="labelled" aria-label=${`Label and note of ${id}`} onSubmit=${submit}>
    ${USUAL.map((label) => html`<button type="button" class="quiet label-${label}" aria-pressed=${kept.label === label} onClick=${() => save({ ...given, label: kept.label === label ? "" : label })}>${label}</button>`)}
    ${isOpen ? html`<input ref=${first} aria-label="Label" placeholder="or another label" maxlength=${LONGEST_LABEL} value=${given.label} onInput=${(event) => setGiven({ ...given, label: event.target.value })} />
    <input class="wide" aria-label="Note" placeholder="Note" maxlength=${LONGEST_NOTE} value=${given.note} onInput=${(event) => setGiven({ ...given, note: event.target.value })} />
    <button type="submit" class="secondary" disabled=${isKept}>Save</button>`
      : html`${!USUAL.includes(kept.label) && html`<${LabelChip} label=${kept.label} />`}<button type="button" class="quiet clip" title=${kept.note} onClick=${() => setOpen(true)}>${kept.note || "Label, note"}</button>`}
    <span class="hint" role="status" data-testid="label-state">${problem !== null ? html`<span class="problem">Not saved: ${problem}</span>` : isKept && kept.label + kept.note !== "" ? "saved" : ""}</span></form>`;
}
