"""``python -m benchmarks.follow_page``: how many updates a second of a followed session reach the screen.

A session makes steps at a steady rate, or as fast as it can, and a page in a Chromium without a window follows it. For
each rate, the program prints

- the steps per second that the session made, and for how long;
- the updates per second: how often the page's step was another one when the browser drew a frame, so that no more than
  the frames per second can be seen;
- the longest time between two of these, and the time from a step's answer to the frame that shows it or a later one;
- the CPU time of the page's main thread for an update, which has to be below the 16 ms of a frame by some;
- the steps that did not come: the page has to get all of them, drawn or not.

The server has a process of its own, the browser several, and the client is this one.
"""

import os
import statistics
import time
from itertools import pairwise
from typing import Annotated, Any

import typer
from tests.support.servers import ServerProcess, V1Wire
from tests.support.services.chromium import open_chromium

_TIMEOUT_MS = 60_000
_RATES = (60, 120, 500, 0)
# Counts the entries that come, whatever the page keeps of them.
_COUNT = """
window.received = 0;
const Own = WebSocket;
window.WebSocket = class extends Own {
  constructor(...args) {
    super(...args);
    this.addEventListener("message", ({ data }) => { window.received += (JSON.parse(data).entries ?? []).length; });
  }
};
"""
# Notes each frame in which another step is shown than in the one before, by the wall clock, which the client has, too.
_WATCH = """
() => {
  window.seen = [];
  window.frames = 0;
  let last = null;
  const look = () => {
    window.frames += 1;
    const step = document.querySelector("[data-testid=step]").textContent;
    if (step !== last) window.seen.push([performance.timeOrigin + performance.now(), Number(step)]);
    last = step;
    window.watching = requestAnimationFrame(look);
  };
  look();
}
"""


def main(
    seconds: Annotated[float, typer.Option(help="Time for each rate.")] = 20.0,
    rate: Annotated[list[int] | None, typer.Option(help="Steps per second; 0 for as many as come. Repeatable.")] = None,
) -> None:
    """Step sessions at each rate while the page follows them."""
    os.nice(5)
    typer.echo("  wanted   steps/s  updates/s  frames/s  longest ms  delay ms  CPU ms  missing")
    with ServerProcess("counter_server.py", "8") as server, open_chromium() as browser:
        for each in rate or _RATES:
            _follow(server, browser, each, seconds)


def _follow(server: ServerProcess, browser: Any, rate: int, seconds: float) -> None:
    """Print the figures of one rate."""
    with V1Wire(f"ws://127.0.0.1:{server.port}/ws") as wire:
        session = wire.open()
        wire.do("reset", session)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(_TIMEOUT_MS)
        page.add_init_script(_COUNT)
        page.goto(f"{server.url}/web/live?session={session[:13]}")
        page.wait_for_selector("[data-testid=status][data-status=open]")
        page.wait_for_selector("[data-testid=entry]")
        page.evaluate(_WATCH)
        thread = _MainThread(page)
        answered = _step(wire, session, rate, seconds)
        took_s = answered[-1] - answered[0]
        page.wait_for_function("last => Number(document.querySelector('main').dataset.last) >= last", arg=len(answered))
        page.evaluate("new Promise(requestAnimationFrame)")
        cpu_s = thread.cpu_s()
        seen, frames, received = page.evaluate("[window.seen, window.frames, window.received]")
        page.close()
    shown = [(at / 1000, step) for at, step in seen if step > 0]
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(shown)]
    delays = _delays(answered, shown)
    rates = f"{len(answered) / took_s:>10.0f}{len(shown) / took_s:>11.1f}{frames / took_s:>10.1f}"
    times = f"{max(gaps) * 1000:>12.0f}{statistics.median(delays) * 1000:>10.0f}{cpu_s / len(shown) * 1000:>8.1f}"
    typer.echo(f"{rate or 'most':>8}{rates}{times}{len(answered) + 1 - received:>9}")


class _MainThread:
    """Main thread of a page.

    Args:
        page: Playwright's page.
    """

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._begun_s = self._task_s()

    def cpu_s(self) -> float:
        """Return its CPU time so far, in seconds."""
        return self._task_s() - self._begun_s

    def _task_s(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


def _step(wire: V1Wire, session: str, rate: int, seconds: float) -> list[float]:
    """Make steps; return when each was answered, by the wall clock."""
    answered: list[float] = []
    begun = time.monotonic()
    while time.monotonic() < begun + seconds:
        due = begun + len(answered) / rate if rate else 0.0
        time.sleep(max(0.0, due - time.monotonic()))
        wire.do("step", session, amount=1)
        answered.append(time.time())
    return answered


def _delays(answered: list[float], shown: list[tuple[float, int]]) -> list[float]:
    """Return the time from each step's answer to the frame that shows it or a later one."""
    frames = iter(shown)
    at, step = next(frames)
    delays = []
    for number, answered_at in enumerate(answered, start=1):
        while step < number:
            at, step = next(frames)
        delays.append(at - answered_at)
    return delays


if __name__ == "__main__":
    typer.run(main)
