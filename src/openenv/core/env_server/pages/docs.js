// Shows the API's description, which only those may read who may use the server: with the token that the page to play on
// keeps in this tab, or one that is typed here and kept for as long as the page is open, in this script alone.
"use strict";

const form = document.getElementById("ask");
const problem = document.getElementById("problem");

function headers(token) {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

function authorized(token) {
  return (request) => {
    if (token && new URL(request.url, location.href).origin === location.origin) {
      request.headers = { ...request.headers, ...headers(token) };
    }
    return request;
  };
}

function show(description, token) {
  form.hidden = true;
  document.title = description.info.title;
  const place = document.getElementById("description");
  if (document.body.dataset.shows === "redoc") {
    Redoc.init(description, { hideDownloadButton: true }, place);
    return;
  }
  const shown = SwaggerUIBundle({
    spec: description,
    domNode: place,
    deepLinking: true,
    requestInterceptor: authorized(token),
    onComplete: () => token && shown.preauthorizeApiKey("token", token),
  });
}

async function load(token) {
  problem.textContent = "";
  let answer;
  try {
    answer = await fetch("openapi.json", { headers: headers(token) });
  } catch (error) {
    problem.textContent = "The server does not answer.";
    form.hidden = false;
    return;
  }
  if (answer.ok) {
    show(await answer.json(), token);
    return;
  }
  form.hidden = false;
  if (token || answer.status !== 401) {
    const said = await answer.json().catch(() => ({}));
    problem.textContent = said.detail || `The server answered with status ${answer.status}.`;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  load(document.getElementById("token").value.trim());
});

function stored(storage, key) {
  try {
    return window[storage].getItem(key);
  } catch {
    return null; // the browser keeps nothing for this page
  }
}

// Swagger's own dark colours; Redoc has none.
const scheme = matchMedia("(prefers-color-scheme: dark)");
function showTheme() {
  const theme = stored("localStorage", "openenv.theme");
  const isDark = theme === "dark" || (theme !== "light" && scheme.matches);
  document.documentElement.classList.toggle("dark-mode", isDark && document.body.dataset.shows === "swagger");
}
showTheme();
scheme.addEventListener("change", showTheme);
addEventListener("storage", showTheme);

load(stored("sessionStorage", "openenv.token") ?? "");
