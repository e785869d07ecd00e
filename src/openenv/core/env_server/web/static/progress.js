// The metrics of a training run, read as they are written.
import { getJson, lasts, problemOf, UNAUTHORIZED } from "./api.js";

const POLL_MS = { running: 1500, ended: 15000, interrupted: 5000 };

/**
 * Follow a run; metrics are read from where the last answer ended, and anew where the file was rewritten.
 * @param {string} prefix Path below which the run is shown, such as "1/"; empty for that of the page.
 * @param {AbortSignal} signal Ends it.
 * @param {{onRun: Function, onProblem: Function, onEnd: Function}} listeners Called with the run so far and all its rows, with
 *   what is wrong for now, and with a failure that lasts.
 */
export async function followRun(prefix, signal, { onRun, onProblem, onEnd }) {
  let answered = false;
  let offset = 0;
  let mark = "";
  let rows = [];
  while (!signal.aborted) {
    let next = POLL_MS.running;
    try {
      const news = await getJson(`${prefix}web/run/progress?${new URLSearchParams({ offset, mark })}`, undefined, {}, signal);
      answered = true;
      rows = joined(news.start < offset ? [] : rows, news.rows);
      ({ offset, mark } = news);
      onRun({ ...news, rows });
      next = news.rows.length > 0 && news.state !== "running" ? 0 : POLL_MS[news.state];
    } catch (error) {
      if (signal.aborted) return;
      // The folder of a run that was shown may come back, a token that is refused does not.
      if (lasts(error) && (!answered || error.status === UNAUTHORIZED)) return onEnd(error);
      onProblem(problemOf(error));
    }
    await new Promise((resolve) => setTimeout(resolve, next));
  }
}

/** Rows with one for each step, in the order of steps: a run that was resumed does some steps again. */
function joined(rows, news) {
  if (news.length === 0) return rows;
  const from = news[0].step;
  return [...rows.filter(({ step }) => step < from), ...news];
}
