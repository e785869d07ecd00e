// What the environment is: its description, README and schemas.
import { html, useMemo } from "./html.js";
import { markdown } from "./markdown.js";

export function About({ metadata }) {
  const readme = useMemo(() => (metadata.readme_content ? markdown(metadata.readme_content) : null), [metadata.readme_content]);
  const facts = [metadata.version && `Version ${metadata.version}`, metadata.author].filter(Boolean).join(" · ");
  return html`<article class="about">
    <p>${metadata.description}</p>
    ${facts && html`<p class="hint">${facts}</p>`}
    ${readme}
  </article>`;
}
