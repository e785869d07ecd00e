// The server's HTTP routes, with the token that it may require.
import { retried } from "./retry.js";
import { SAVED, savedAnswer } from "./saved.js";

/** Address of the server, whatever path a proxy has put before it. */
export const ROOT = new URL("../../", import.meta.url);

/** Status of an answer to a request without the token that it needs. */
export const UNAUTHORIZED = 401;

const KEY = "openenv.token";
const TOKEN_PROTOCOL = "openenv.token.";
const LASTING = [UNAUTHORIZED, 403, 404];
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5000;

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

/** Whether a failure lasts; others pass, as those of a server that is too busy or starts anew. */
export function lasts({ status }) {
  return LASTING.includes(status);
}

/** What a page says of a failure that passes. */
export function problemOf({ status, message }) {
  return status === undefined ? "The server can't be reached; the page tries again." : `The server answered with ${status}: ${message} The page tries again.`;
}

/**
 * Fetch JSON from a path of the server, again and again until a request succeeds or its failure lasts.
 * @param {AbortSignal} signal Ends it, with an AbortError.
 * @param {(problem: string | null) => void} onProblem Called with each failure that passes, and with null at the end.
 */
export async function getPatiently(path, signal, onProblem) {
  for (let pause = FIRST_RETRY_MS; ; pause = Math.min(2 * pause, LONGEST_RETRY_MS)) {
    try {
      const found = await (await request(path, undefined, {}, signal)).json();
      onProblem(null);
      return found;
    } catch (error) {
      if (signal.aborted || lasts(error)) throw error;
      onProblem(problemOf(error));
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** Fetch JSON from a path of the server. A request that does nothing there is made again where the network lost it. */
export async function getJson(path, body = undefined, headers = {}, signal = undefined) {
  const attempt = () => request(path, body, headers, signal);
  const response = await (body === undefined ? retried(attempt, signal) : attempt());
  return response.json();
}

export async function request(path, body = undefined, others = {}, signal = undefined) {
  if (SAVED !== null) return answerInFile(path);
  const headers = { ...others };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  const options = { headers, signal, credentials: "omit" };
  if (body !== undefined) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  const response = await fetch(new URL(path, ROOT), options);
  if (!response.ok) throw new HttpError(response.status, await reason(response));
  return response;
}

function answerInFile(path) {
  const found = savedAnswer(path);
  if (found === undefined) throw new HttpError(404, "This was left out of the file when it was saved.");
  return new Response(JSON.stringify(found));
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
