// The server's HTTP routes, with the token that it may require.

/** Address of the server, whatever path a proxy has put before it. */
export const ROOT = new URL("../../", import.meta.url);

const KEY = "openenv.token";
const TOKEN_PROTOCOL = "openenv.token.";

let token = stored();

function stored() {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null; // the browser keeps nothing for this page
  }
}

export function setToken(value) {
  token = value;
  try {
    sessionStorage.setItem(KEY, value);
  } catch {
    // it lasts as long as the page is open
  }
}

export function hasToken() {
  return token !== null;
}

/** The subprotocols of a socket: a browser lets a page send the token in no other header. */
export function subprotocols(protocol) {
  if (token === null) return [protocol];
  const bytes = String.fromCharCode(...new TextEncoder().encode(token));
  const encoded = btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return [protocol, TOKEN_PROTOCOL + encoded];
}

/** An answer that is no success. */
export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Fetch JSON from a path of the server. */
export async function getJson(path, body = undefined, headers = {}) {
  const response = await request(path, body, headers);
  return response.json();
}

export async function request(path, body = undefined, others = {}) {
  const headers = { ...others };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  const options = { headers, credentials: "omit" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  const response = await fetch(new URL(path, ROOT), options);
  if (!response.ok) throw new HttpError(response.status, await reason(response));
  return response;
}

async function reason(response) {
  const text = await response.text();
  try {
    const { detail } = JSON.parse(text);
    return typeof detail === "string" ? detail : JSON.stringify(detail);
  } catch {
    return text || response.statusText;
  }
}
