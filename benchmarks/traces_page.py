"""``python -m benchmarks.traces_page FOLDER``: how long the page of traces takes with many episodes and a long one.

Two files are made in the folder, as far as they are not there: 100,000 episodes as of ``trace_growth``, and one episode
of 10,000 steps with a text of 1 KB each. The page is used in a Chromium without a window. Each figure is the median of
the times from the act of a person to the page that shows what came of it: the wait for more letters, the request and
Playwright's messages included. Of scrolling, it is the median and the longest time between two frames.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from tests.support.servers import RunningServer
from tests.support.services.chromium import open_chromium
from tests.support.trace_files import entries, episode, new_file

from benchmarks.trace_growth import fill
from openenv.viewer import viewer_app

_TURNS = 5
_TIMEOUT_MS = 60_000
_TEXT = "Step {step}. " + "The room has a door, a window and a table.\n" * 23
_SCROLL = """
async () => {
  const box = document.querySelector(".windowed");
  const gaps = [];
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 120; frame += 1) {
    box.scrollTop += 120;
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  return gaps;
}
"""


def main(
    folder: Annotated[Path, typer.Argument(help="Folder for the files.")],
    episodes: Annotated[int, typer.Option(help="Number of episodes.")] = 100_000,
    steps: Annotated[int, typer.Option(help="Steps of the long episode.")] = 10_000,
) -> None:
    """Make the files, and use the page on each."""
    os.nice(5)
    folder.mkdir(parents=True, exist_ok=True)
    many, long = folder / "many.db", folder / "long.db"
    fill(str(many), episodes)
    if not long.exists():
        with new_file(long) as traces:
            traces.add(episode(1, steps), entries(steps, _TEXT))
    with open_chromium() as browser:
        with RunningServer(viewer_app(many)) as server:
            _use_list(_Timed(browser, f"{server.url}/web/traces"))
        with RunningServer(viewer_app(long)) as server:
            _use_episode(_Timed(browser, f"{server.url}/web/traces?episode=1-1"), steps)


class _Timed:
    """Page whose acts are timed.

    Args:
        browser: Playwright's browser.
        address: Address of the page.
    """

    def __init__(self, browser: Any, address: str) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": 800})
        self.page.set_default_timeout(_TIMEOUT_MS)
        self.address = address

    def opened(self, name: str, seen: str) -> None:
        """Print how long the page takes to open."""
        self.page.goto(self.address)
        self.turns(name, lambda turn: self.page.reload(), lambda turn: seen)

    def turns(
        self, name: str, act: Callable[[int], object], seen: Callable[[int], str], back: str | None = None
    ) -> None:
        """Print how long an act takes until something is seen.

        Args:
            name: What is done.
            act: Does it.
            seen: Selector of what is seen then.
            back: Selector of a field to empty between two turns.
        """
        figures = []
        for turn in range(_TURNS):
            if back is not None:
                self.page.fill(back, "")
                self.page.wait_for_selector("[data-testid=episode]")
            begun = time.perf_counter()
            act(turn)
            self.page.wait_for_selector(seen(turn))
            figures.append((time.perf_counter() - begun) * 1000)
        typer.echo(f"{name:<48}{statistics.median(figures):>8.0f} ms")

    def scrolled(self, name: str) -> None:
        """Print the times between frames while the list is scrolled."""
        gaps = self.page.evaluate(_SCROLL)
        typer.echo(f"{name:<48}{statistics.median(gaps):>8.0f} ms, at most {max(gaps):.0f} ms")


def _use_list(timed: _Timed) -> None:
    page = timed.page
    timed.opened("open the list", "[data-testid=episode]")
    timed.scrolled("scroll the list")
    names = ("wordle", "catch")
    row = "[data-testid=episode]:first-child span:text-is('{}')"
    page.select_option("#environment", names[1])
    page.wait_for_selector(row.format(names[1]))
    timed.turns(
        "filter by the environment",
        lambda turn: page.select_option("#environment", names[turn % 2]),
        lambda turn: row.format(names[turn % 2]),
    )
    page.select_option("#environment", "")
    timed.turns(
        "search for a text that none has",
        lambda turn: page.fill("#text", f"zeppelin {turn}"),
        lambda turn: "[data-testid=count]:text-is('0 episodes')",
        back="#text",
    )
    page.fill("#text", "")
    page.wait_for_selector("[data-testid=episode]")
    timed.turns(
        "filter by the seed",
        lambda turn: page.fill("#seed", str(100 + turn)),
        lambda turn: f"[data-testid=episode]:first-child span:has-text('seed {100 + turn}')",
    )
    page.fill("#seed", "")
    page.click("text=Tasks by runs")
    page.wait_for_selector("[data-testid=grid]")
    columns = ("ending", "run")
    timed.turns(
        "grid of 2,000 tasks, other columns",
        lambda turn: page.select_option("[data-testid=by]", columns[turn % 2]),
        lambda turn: f"[data-testid=grid] th:text-is('{('done', 'run 1')[turn % 2]}')",
    )


def _use_episode(timed: _Timed, steps: int) -> None:
    page = timed.page
    timed.opened("open the long episode", "[data-testid=entry]")
    page.wait_for_selector("[data-testid=curve]")
    timed.scrolled("scroll its steps")
    timed.turns(
        "to its other end",
        lambda turn: page.keyboard.press("Home" if turn % 2 else "End"),
        lambda turn: f"h2:text-is('{'Reset' if turn % 2 else f'Step {steps}'}')",
    )


if __name__ == "__main__":
    typer.run(main)
