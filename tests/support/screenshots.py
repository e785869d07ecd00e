"""``python -m tests.support.screenshots FOLDER``: the pictures of the page in ``docs/_static``, light and dark.

Servers, sessions, evaluations and trainings are real. Evaluations and trainings, which take minutes, are kept in the
folder, and made where they are missing. Wordle needs a font with emoji, such as Debian's ``fonts-noto-color-emoji``.
"""

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

import typer
from PIL import Image
from tests.support.servers import RunningServer
from tests.support.services.chromium import open_chromium
from tests.support.web_pages import Address, PlayPage

from openenv import GenericEnvClient
from openenv.auto.discovery import find_environment
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.core.providers.resources import Resources
from openenv.fleet import Fleet
from openenv.viewer import Source, comparison_app, source_app, viewer_app

_STATIC = Path(__file__).parents[2] / "docs" / "_static"
_COLOURS = 256
_SHORT = "train catch --steps 160 --rollouts 64 --eval-episodes 64 --device cpu --output-dir {folder} --name {name}"
_COMMANDS = {
    "evals/scripted": "eval wordle --player scripted --tasks 24 --samples 4 --output {path}",
    "evals/dealt-scripted": "eval blackjack --player scripted --tasks 24 --samples 4 --output {path}",
    "evals/dealt-random": "eval blackjack --player random --tasks 24 --samples 4 --output {path}",
    "runs/catch": "train catch --device cpu --output-dir {folder} --name {name}",
    "runs/steady": _SHORT,
    "runs/hasty": _SHORT + " --learning-rate 6e-3 --seed 2",
}

Take: TypeAlias = Callable[[Any, Path, "Camera"], None]


class Camera:
    """Writes pictures of pages.

    Args:
        folder: Where to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, visit: PlayPage, name: str) -> None:
        """Write what a page shows in both schemes of colours, and close it."""
        visit.page.mouse.move(0, 0)
        for scheme, ending in (("light", ""), ("dark", "-dark")):
            visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            visit.page.evaluate("new Promise(requestAnimationFrame)")
            picture = Image.open(io.BytesIO(visit.page.screenshot())).convert("RGB")
            _with_palette(picture).save(self._folder / f"{name}{ending}.png", optimize=True)
        visit.close()


def _with_palette(picture: Image.Image) -> Image.Image:
    """Return a picture with the most frequent of its colours, which stay as they are."""
    colours = cast("list[tuple[int, tuple[int, int, int]]]", picture.getcolors(picture.width * picture.height))
    found = sorted(colours, reverse=True)[:_COLOURS]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in found for part in colour])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


def main(
    data: Annotated[Path, typer.Argument(help="Folder of evaluations and runs; made where there is none.")],
    only: Annotated[list[str] | None, typer.Option(help="Name of a picture; repeatable.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of the pictures.")] = _STATIC,
) -> None:
    """Take the pictures."""
    with open_chromium("--force-color-profile=srgb") as browser:
        for name in only or _PICTURES:
            _PICTURES[name](browser, data, Camera(output))
            typer.echo(name)


def _made(data: Path, name: str) -> Path:
    """Return an evaluation or a run, which is made if it is missing."""
    path = data / name
    if not path.exists():
        words = _COMMANDS[name].format(path=path, folder=path.parent, name=path.name).split()
        _run_openenv(data, *words)
    return path


def _run_openenv(folder: Path, *arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "openenv.cli", *map(str, arguments)], check=True, cwd=folder)


def _visit(browser: Any, url: str, path: str, height: int = 760) -> PlayPage:
    return PlayPage(browser, Address(url), path, viewport={"width": 1280, "height": height})


# --- Sessions --------------------------------------------------------------------------------------------------------


def _play(browser: Any, data: Path, camera: Camera) -> None:
    with RunningServer(find_environment("sudoku").app()) as server:
        visit = _visit(browser, server.url, "/web/")
        visit.reset(seed=3)
        for row, column, digit in ((1, 8, 1), (2, 1, 8), (3, 1, 9)):
            visit.step({"row": row, "col": column, "number": digit})
        camera.take(visit, "web-play")


def _play_on(address: str, environment: str, number: int, ended: threading.Event) -> None:
    """Play episodes one after another, at a pace of its own, until the event is set."""
    package = find_environment(environment)
    observation_class = package.observation_class()
    ended.wait(0.1 * number)
    with GenericEnvClient(base_url=address, message_timeout_s=300.0).sync() as env:
        for seed in range(1000 * number, 1000 * (number + 1)):
            result = env.reset(seed=seed)
            player = package.make_player(seed)
            assert player is not None
            while not result.done and not ended.wait(0.3 + 0.02 * number):
                action = player(observation_class.model_validate(result.observation))
                result = env.step(action.model_dump(mode="json", exclude_unset=True))
            if ended.wait(1.0):
                return


@contextmanager
def _being_played(address: str, environment: str, sessions: int) -> Iterator[None]:
    """Have sessions played by scripted players for the block."""
    ended = threading.Event()
    threads = [
        threading.Thread(target=_play_on, args=(address, environment, number, ended)) for number in range(sessions)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _live(browser: Any, data: Path, camera: Camera) -> None:
    with LocalProcessProvider("wordle", env_vars={"MAX_CONCURRENT_ENVS": "32"}) as server:
        server.wait_for_ready(timeout_s=300)
        with _being_played(server.base_url, "wordle", 24):
            visit = _visit(browser, server.base_url, "/web/live")
            visit.page.wait_for_selector("[data-testid=session] .good")
            visit.page.wait_for_timeout(20_000)  # for a curve of the rate
            camera.take(visit, "web-live")
            visit = _visit(browser, server.base_url, "/web/live")
            visit.page.click("[data-testid=session] a >> nth=7")
            visit.page.wait_for_selector("[data-testid=status][data-status=open]")
            visit.page.wait_for_function("() => document.querySelector('main').dataset.entries > 24")
            visit.page.wait_for_selector("[data-testid=step]:text-is('3')")
            visit.page.keyboard.press("ArrowUp")  # stay there while both pictures are taken
            camera.take(visit, "web-follow")


def _fleet(browser: Any, data: Path, camera: Camera) -> None:
    settings: Any = {"max_sessions": 32, "resources": Resources(cpus=0.1), "start_timeout_s": 300.0, "hang_s": 600.0}
    with Fleet("catch", replicas=3, **settings) as fleet, _being_played(fleet.address, "catch", 26):
        visit = _visit(browser, fleet.address, "/web/live")
        visit.page.wait_for_selector("[data-testid=serving]:text-is('3')")
        visit.page.wait_for_selector("[data-testid=session] .good")
        visit.page.wait_for_timeout(20_000)
        silent = fleet.status().replicas[1]
        os.kill(silent.pid, signal.SIGSTOP)
        try:
            visit.page.wait_for_selector(".away:has-text('silent')")
            camera.take(visit, "web-fleet")
        finally:
            os.kill(silent.pid, signal.SIGCONT)


# --- Folders and files -----------------------------------------------------------------------------------------------


def _run(browser: Any, data: Path, camera: Camera) -> None:
    path = _made(data, "runs/catch")
    with RunningServer(viewer_app(path / "traces.db", path)) as server:
        visit = _visit(browser, server.url, "/web/run", height=1240)
        visit.page.wait_for_selector("[data-testid=rollout-best] a")
        slider = visit.page.locator("[role=slider][aria-label='Reward: step']")
        box = slider.bounding_box()
        visit.page.mouse.click(box["x"] + 0.45 * box["width"], box["y"] + 80)
        visit.page.wait_for_timeout(1000)
        camera.take(visit, "web-run")


def _results(browser: Any, data: Path, camera: Camera) -> None:
    with RunningServer(source_app(Source.at(str(_made(data, "evals/scripted"))))) as server:
        visit = _visit(browser, server.url, "/web/results", height=1000)
        visit.page.wait_for_selector("[data-testid=rollout-best] a")
        camera.take(visit, "web-results")


def _compare(browser: Any, data: Path, camera: Camera) -> None:
    sources = [Source.at(str(_made(data, name))) for name in ("runs/steady", "runs/hasty")]
    with RunningServer(comparison_app(sources)) as server:
        visit = _visit(browser, server.url, "/web/compare", height=1000)
        visit.page.wait_for_selector("[data-testid=chart] >> nth=0 >> path >> nth=1")
        visit.page.wait_for_timeout(1000)
        camera.take(visit, "web-compare")


def _traces(browser: Any, data: Path, camera: Camera) -> None:
    with RunningServer(viewer_app(_made(data, "evals/scripted") / "traces.db")) as server:
        visit = _visit(browser, server.url, "/web/traces")
        page = visit.page
        page.wait_for_selector("[data-testid=episode]")
        for box in page.locator("[data-testid=episode] input").all()[:3]:
            box.check()
        page.click("button:has-text('Compare')")
        page.wait_for_selector("[data-testid=difference]")
        for _ in range(2):
            page.keyboard.press("ArrowDown")
        page.locator("h2:text-is('Step 2')").nth(2).wait_for()
        camera.take(visit, "web-traces")


def _episode(browser: Any, data: Path, camera: Camera) -> None:
    file = _made(data, "evals/scripted") / "traces.db"
    with chdir(data), RunningServer(viewer_app(file.relative_to(data))) as server:  # the page shows the path
        visit = _visit(browser, server.url, "/web/traces?min_reward=1&order=longest", height=900)
        visit.page.click("[data-testid=episode] a >> nth=0")
        visit.page.wait_for_selector("[data-turn='0'] [data-testid=entry]")
        for _ in range(2):
            visit.page.keyboard.press("ArrowDown")
        visit.page.frame_locator("[data-turn='2'] iframe").locator("td").first.wait_for()
        visit.page.wait_for_timeout(1000)
        camera.take(visit, "web-episode")


def _grid(browser: Any, data: Path, camera: Camera) -> None:
    """The tasks of two players, whose episodes are put into one file."""
    path = data / "players.db"
    if not path.exists():
        for name in ("evals/dealt-random", "evals/dealt-scripted"):
            lines = (data / name).with_suffix(".jsonl")
            _run_openenv(data, "traces", "export", _made(data, name) / "traces.db", lines, "--to", "jsonl")
            _run_openenv(data, "traces", "import", path, lines)
    with RunningServer(viewer_app(path)) as server:
        visit = _visit(browser, server.url, "/web/traces")
        visit.page.click("text=Tasks by runs")
        visit.page.wait_for_selector("[data-testid=grid]")
        camera.take(visit, "web-traces-grid")


_PICTURES: dict[str, Take] = {
    "web-play": _play,
    "web-live": _live,
    "web-fleet": _fleet,
    "web-run": _run,
    "web-results": _results,
    "web-compare": _compare,
    "web-traces": _traces,
    "web-episode": _episode,
    "web-traces-grid": _grid,
}

if __name__ == "__main__":
    typer.run(main)
