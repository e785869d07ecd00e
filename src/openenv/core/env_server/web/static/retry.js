const PAUSES_MS = [250, 1000, 3000];

/** Make a request, again where the network lost it. */
export async function retried(attempt, signal = undefined, tries = 0, again = retried) {
  try {
    return await attempt();
  } catch (error) {
    if (!(error instanceof TypeError) || signal?.aborted || tries === PAUSES_MS.length) throw error;
  }
  await new Promise((resolve) => setTimeout(resolve, PAUSES_MS[tries]));
  return again(attempt, signal, tries + 1);
}

/** Import modules; where the network lost one, reload, since a page imports no module twice. */
export function imported(attempt) {
  return retried(attempt, undefined, history.state?.reloads, reload);
}

function reload(_attempt, _signal, reloads) {
  history.replaceState({ reloads }, "");
  location.reload();
  return new Promise(() => {}); // the page ends
}
