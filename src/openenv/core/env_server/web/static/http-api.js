// The pages of the HTTP API, to read and to try, within this one: they use the token of this tab, and its colours.
import { ROOT } from "./api.js";
import { html, useEffect } from "./html.js";

export function HttpApi() {
  useEffect(() => {
    document.title = "API · OpenEnv";
  }, []);
  return html`<main class="http-api"><h1 class="hidden">The HTTP API</h1><iframe src=${new URL("docs", ROOT).href} title="The HTTP API"></iframe></main>`;
}
