"""A training is watched on the page while it runs, and after it was killed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import RunningServer, eventually
from tests.support.services.chromium import open_chromium
from tests.support.web_pages import PlayPage

from openenv.train.settings.run_folder import RunFolder, read_lines
from openenv.viewer import viewer_app

OPTIONS = "--steps 4000 --rollouts 8 --group-size 4 --eval-episodes 1 --traces-sample 1 --name live --device cpu"


@pytest.fixture
def browser() -> Iterator[Any]:
    with open_chromium("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1") as browser:
        yield browser


@pytest.fixture
def training(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], RunFolder]]:
    """A real training, which goes on for longer than the test."""
    command = [sys.executable, "-m", "openenv.cli", "train", "catch", *OPTIONS.split(), "--output-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            folder = RunFolder(tmp_path / "live")
            eventually(lambda: len(folder.read_metrics()) > 2, "three steps were done", timeout_s=240)
            yield process, folder
        finally:
            process.kill()


def step_of(visit: PlayPage) -> int:
    return int(visit.text("step").split(" of ")[0])


def test_a_training_is_followed_and_looked_back_at(
    browser: Any, training: tuple[subprocess.Popen[bytes], RunFolder]
) -> None:
    process, folder = training
    with RunningServer(viewer_app(folder.traces, folder.path)) as server:
        visit = PlayPage(browser, server, "/web/run")
        page = visit.page
        page.wait_for_selector("[data-testid=rollout-best] a")
        assert (visit.text("state"), page.locator("h1").inner_text()) == ("running", "live")
        before = step_of(visit)
        page.wait_for_function(
            "before => parseInt(document.querySelector('[data-testid=step]').innerText) > before", arg=before
        )
        visit.assert_accessible()

        reward = page.locator("[role=slider][aria-label='Reward: step']")
        reward.focus()
        page.keyboard.press("Home")
        page.wait_for_selector("[data-testid=rollouts-step]:text-is('1')")
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("[data-testid=rollouts-step]:text-is('2')")
        assert reward.get_attribute("aria-valuetext").startswith("Step 2: ")
        rewards = [note["reward"] for note in read_step(folder, 2)]
        page.wait_for_selector(f"[data-testid=rollout-best] header b:text-is('{max(rewards):g}')")
        page.wait_for_selector(f"[data-testid=rollout-worst] header b:text-is('{min(rewards):g}')")

        link = page.locator("[data-testid=rollout-worst] header a")
        name = link.inner_text()
        link.click()
        page.wait_for_selector("[data-testid=entry]")
        assert page.locator(f"[aria-label='Episode {name}']").count() == 1
        page.go_back()
        page.wait_for_selector("[data-testid=rollout-best] a")

        process.kill()
        page.wait_for_selector("[data-testid=state]:text-is('interrupted')")
        page.click("[aria-label='The step before']")
        visit.close()
        phone(browser, server)


def phone(browser: Any, server: RunningServer) -> None:
    visit = PlayPage(browser, server, "/web/run", color_scheme="dark", viewport={"width": 390, "height": 844})
    visit.page.wait_for_selector("[data-testid=rollout-best] a")
    visit.assert_accessible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.close()


def read_step(folder: RunFolder, step: int) -> list[dict[str, Any]]:
    (line,) = [line for line in read_lines(folder.rollouts) if line["step"] == step]
    episodes: list[dict[str, Any]] = line["episodes"]
    return episodes
