// Files to download: an episode, or all that a filter lets through.
import { request } from "../api.js";
import { html, useState } from "../html.js";

/** A button that saves what a path of the server answers with as a file of this name; `path` may be a function that returns it. */
export function Save({ path, name, disabled, children }) {
  const [problem, setProblem] = useState(null);
  const click = async () => {
    setProblem(null);
    try {
      const response = await request(typeof path === "function" ? path() : path);
      save(await response.blob(), name);
    } catch (error) {
      setProblem(error.status === undefined ? "the server can't be reached, or its answer broke off." : error.message);
    }
  };
  return html`<button type="button" class="quiet" disabled=${disabled} onClick=${click}>${children}</button>
    ${problem !== null && html`<span class="problem" role="alert">${name} was not saved: ${problem}</span>`}`;
}

function save(content, name) {
  const address = URL.createObjectURL(content);
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
