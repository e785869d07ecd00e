// What the environment is: its description, README and schemas.
import { getJson } from "./api.js";
import { html, useEffect, useMemo, useState } from "./html.js";
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

/** What a server in production mode shows: what it is, and nothing to do. */
export function Reading({ onLoadError }) {
  const [metadata, setMetadata] = useState(null);
  useEffect(() => {
    getJson("metadata").then(setMetadata).catch(onLoadError);
  }, []);
  if (metadata === null) return null;
  return html`<main class="reading panel"><h1>${metadata.name}</h1>
    <p class="note">This server is in production mode: agents call its tools over MCP, and no episode can be played here.</p>
    <${About} metadata=${metadata} /></main>`;
}
