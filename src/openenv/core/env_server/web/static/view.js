// What an environment shows of an observation that is on record, or of a session that is followed: it needs no session.
import { request } from "./api.js";
import { useEffect, useState } from "./html.js";
import { isShort } from "./json.js";
import { SAVED } from "./saved.js";

const LARGEST = 1_000_000;
const views = new WeakMap(); // by the answer that has the observation
let offered = false;

/** Note whether the server shows observations without a session. */
export function offerViews(isOffered) {
  offered = isOffered;
}

/**
 * The view of an answer; null while there is none.
 *
 * One is fetched at a time: of a session that is followed, those of steps that are past are left out.
 */
export function useView(environment, answer) {
  if (SAVED !== null) return answer.view ?? null;
  const [latest] = useState(() => ({ wanted: null, isBusy: false, shown: null }));
  const [, setCount] = useState(0);
  useEffect(() => {
    if (!offered || !environment || !answer.observation) return;
    latest.wanted = { environment, answer };
    if (!latest.isBusy && !views.has(answer)) fetchViews(latest, () => setCount((count) => count + 1));
  }, [environment, answer]);
  const view = views.get(answer) ?? null;
  if (view !== null) latest.shown = view;
  return offered && answer.observation ? view ?? latest.shown : null;
}

async function fetchViews(latest, onView) {
  latest.isBusy = true;
  while (latest.wanted !== null && !views.has(latest.wanted.answer)) {
    const { environment, answer } = latest.wanted;
    views.set(answer, await viewOf(environment, answer));
    onView();
  }
  latest.isBusy = false;
}

async function viewOf(environment, { observation, reward, done }) {
  const sent = { ...observation, reward: reward ?? null, done: Boolean(done) };
  if (!isShort(sent, LARGEST)) return {};
  try {
    return await (await request("web/view", { environment, observation: sent })).json();
  } catch (error) {
    return { problem: error.message };
  }
}
