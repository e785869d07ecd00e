const PAUSES_MS = [250, 1000, 3000];

/** Make a request or an import, again where the network lost it. */
export async function retried(attempt, signal = undefined) {
  for (const pause of PAUSES_MS) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof TypeError) || signal?.aborted) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  return attempt();
}
