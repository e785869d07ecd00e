// The page: its header, its views, and the token that the server may require.
import { getJson, setToken, UNAUTHORIZED } from "./api.js";
import { offerViews } from "./view.js";
import { here, SAVED } from "./saved.js";
import { imported } from "./retry.js";
import { Save } from "./traces/save.js";
import { html, render, useEffect, useReducer, useState } from "./html.js";

// Each is loaded when it is shown.
const VIEWS = {
  about: () => import("./about.js").then(({ Reading }) => Reading),
  api: () => import("./http-api.js").then(({ HttpApi }) => HttpApi),
  compare: () => import("./compare.js").then(({ Compare }) => Compare),
  live: () => import("./live.js").then(({ Live }) => Live),
  play: () => import("./play.js").then(({ Play }) => Play),
  results: () => import("./results.js").then(({ Results }) => Results),
  run: () => import("./run.js").then(({ Run }) => Run),
  traces: () => import("./traces/view.js").then(({ Traces }) => Traces),
};
// Views that can be saved as one file.
const SAVABLE = ["compare", "results", "run", "traces"];
const THEMES = { auto: "light", light: "dark", dark: "auto" };
const THEME_KEY = "openenv.theme";

function App() {
  const [config, setConfig] = useState(null);
  const [error, setError] = useState(null);
  const [, moved] = useReducer((count) => count + 1, 0);
  const [fork, setFork] = useState(null); // of a session that was followed, to play on
  const load = () => getJson("web/config").then((found) => {
    setError(null);
    offerViews(found.views);
    setConfig(found);
  }).catch(setError);
  useEffect(() => {
    load();
    const listener = () => {
      setFork(null);
      moved();
    };
    addEventListener("popstate", listener);
    return () => removeEventListener("popstate", listener);
  }, []);
  const onPlay = (found) => {
    history.pushState(null, "", "./");
    setFork(found);
  };
  // What a view itself gave up is no failure.
  const onLoadError = (failure) => failure.name === "AbortError" || setError(failure);
  const retry = (token) => {
    setToken(token);
    load();
  };
  return html`
    <${Header} config=${config} />
    ${SAVED !== null && html`<${SavedNote} ...${SAVED} />`}
    ${error?.status === UNAUTHORIZED ? html`<${TokenForm} error=${error} onToken=${retry} />` : error ? html`<${Failure} error=${error} />` : null}
    ${config !== null && error === null && html`<${View} config=${config} fork=${fork} onPlay=${onPlay} onLoadError=${onLoadError} />`}`;
}

function View({ config, fork, onPlay, onLoadError }) {
  const name = viewOf(config);
  const [loaded, setLoaded] = useState(null);
  useEffect(() => {
    let isWanted = true; // a view that comes after another one is wanted would take its place
    imported(VIEWS[name]).then((view) => isWanted && setLoaded({ name, view }), onLoadError);
    return () => {
      isWanted = false;
    };
  }, [name]);
  return loaded?.name === name && html`<${loaded.view} key=${fork?.session} config=${config} fork=${fork} onPlay=${onPlay} onLoadError=${onLoadError} />`;
}

/** The view that the address names, as far as the server has it. */
function viewOf(config) {
  if (config.name !== null && isAt("api")) return "api";
  if (config.compare?.length) return isAt("traces") ? "traces" : "compare";
  if (config.live && isAt("live")) return "live";
  if (config.run && !isAt("traces")) return "run";
  if (config.results && !isAt("traces")) return "results";
  if (config.traces && (isAt("traces") || config.name === null)) return "traces";
  return config.play ? "play" : "about";
}

function isAt(view) {
  return here().pathname.endsWith(`/${view}`);
}

function Header({ config }) {
  const name = config?.name;
  const [theme, setTheme] = useState(() => stored() ?? "auto");
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
    keep(theme);
  }, [theme]);
  return html`<header class="top">
    <a class="brand" href="../">OpenEnv</a>
    ${name && html`<span class="environment">${name}</span>`}
    <nav aria-label="Pages">
      ${config?.play && html`<a href="./" aria-current=${current(!["live", "traces", "api"].some(isAt))}>Play</a>`}
      ${config?.beside && html`<a href="../../web/compare">Comparison</a>`}
      ${config?.compare?.length > 0 && html`<a href="compare" aria-current=${current(!isAt("traces"))}>Comparison</a>`}
      ${config?.live && html`<a href="live" aria-current=${current(isAt("live"))}>Live</a>`}
      ${config?.run && html`<a href="run" aria-current=${current(!isAt("traces"))}>Run</a>`}
      ${config?.results && html`<a href="results" aria-current=${current(!isAt("traces"))}>Results</a>`}
      ${config?.traces && html`<a href="traces" aria-current=${current(isAt("traces"))}>Traces</a>`}
      ${config?.custom && html`<a href="custom/">${config.custom}</a>`}
      ${name && html`<a href="api" aria-current=${current(isAt("api"))}>API</a>`}
    </nav>
    ${SAVED === null && config !== null && SAVABLE.includes(viewOf(config)) && html`<${Save} path=${savedPath} name=${`openenv-${viewOf(config)}.html`}>Save<span class="long"> as HTML</span></${Save}>`}
    <button type="button" class="quiet" onClick=${() => setTheme(THEMES[theme])} aria-label=${`Colours: ${theme}`} title=${`Colours: ${theme}`}>
      <span aria-hidden="true">${{ auto: "◐", light: "☀", dark: "☾" }[theme]}</span></button>
  </header>`;
}

/** The path that answers with one file of what is shown. */
function savedPath() {
  const { pathname, search } = here();
  return `web/html?${new URLSearchParams({ page: pathname.split("/").pop() + search })}`;
}

/** When a file was saved, and what it lacks. */
function SavedNote({ made_at: at, left_out: lacks }) {
  return html`<aside class="banner note" aria-label="About this file" data-testid="saved">Saved on ${new Date(1000 * at).toLocaleString()}.${lacks.length > 0 && ` Not in this file: ${lacks.join(", ")}.`}</aside>`;
}

function current(isShown) {
  return isShown ? "page" : undefined;
}

function stored() {
  try {
    return localStorage.getItem(THEME_KEY);
  } catch {
    return null;
  }
}

function keep(theme) {
  try {
    localStorage.setItem(THEME_KEY, theme);
  } catch {
    // the browser keeps nothing for this page
  }
}

function TokenForm({ error, onToken }) {
  const [value, setValue] = useState("");
  const submit = (event) => {
    event.preventDefault();
    onToken(value);
  };
  return html`<main class="reading panel"><h1>This server needs its token</h1>
    <p>It was printed when the server was started, or is what <code>OPENENV_TOKEN</code> held. It stays in this tab and is
      forgotten with it.</p>
    <form onSubmit=${submit}>
      <div class="input"><label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" required value=${value} onInput=${(event) => setValue(event.target.value)} aria-describedby="token-problem" /></div>
      <button type="submit" class="primary">Continue</button>
      <p class="hint" id="token-problem" role="alert">${error.message}</p>
    </form></main>`;
}

function Failure({ error }) {
  return html`<main class="reading panel"><h1>This can't be shown</h1><p class="problem" role="alert">${error.message}</p></main>`;
}

const target = document.getElementById("app");
target.replaceChildren();
render(html`<${App} />`, target);
