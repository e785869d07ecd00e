"""A training is watched on the page while it runs, and after it was killed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.servers import RunningServer, eventually
from tests.support.trace_files import entries, episode, new_file
from tests.support.web_pages import Address, PlayPage, failing

from openenv.records.lines import read_objects
from openenv.records.run_folder import RunFolder
from openenv.records.run_start import RunStart
from openenv.train.settings.config import TrainConfig
from openenv.viewer import viewer_app

VECTOR = 64
COUNTS = """
() => {
  const { entries, last, missed } = document.querySelector("main").dataset;
  return [entries, last, missed].map(Number);
}
"""
OPTIONS = (
    f"--steps 4000 --rollouts {VECTOR} --group-size 4 --eval-episodes 1 --traces-sample 1 --name live --device cpu"
)


class Training(NamedTuple):
    """A training.

    Attributes:
        process: Its process.
        folder: Its folder.
        server: Address of its environment's server, as its output has it.
    """

    process: subprocess.Popen[bytes]
    folder: RunFolder
    server: Address


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Training]:
    """A real training, which goes on for longer than the test."""
    command = [sys.executable, "-m", "openenv.cli", "train", "catch", *OPTIONS.split(), "--output-dir", str(tmp_path)]
    with (tmp_path / "output").open("wb") as output, subprocess.Popen(command, stdout=output) as process:
        try:
            folder = RunFolder(tmp_path / "live")
            eventually(lambda: len(folder.read_metrics()) > 2, "three steps were done", timeout_s=240)
            (found,) = re.findall(r"watch +(http://\S+)/web/live", (tmp_path / "output").read_text())
            yield Training(process, folder, Address(found))
        finally:
            process.kill()


@pytest.fixture
def short(tmp_path: Path) -> RunFolder:
    """A run of one step, whose episode is not on record yet."""
    folder = TrainConfig(environment="catch", output_dir=tmp_path, name="short").make_folder("catch")
    folder.add_start(RunStart.now())
    new_file(folder.traces).close()
    user = {
        f"participants/user/{name}": count for name, count in {"replies": 3, "input_tokens": 1200, "failed": 2}.items()
    }
    times = {"time/generation": 3.0, "time/training": 1.0}
    costs = {
        "cost/episodes": 8,
        "cost/price_usd": 0.25,
        "evaluation/cost/episodes": 8,
        "evaluation/cost/price_usd": 0.125,
    }
    folder.add_metrics({"step": 1, "episode/reward": 0.5, **times, **user, **costs})
    folder.add_times({"evaluation": 60.0})
    note = {"episode_id": "e1", "group": 0, "task": {"seed": 1}, "reward": 0.5, "length": 3, "illegal_actions": 0}
    folder.add_rollouts({"step": 1, "environment": "", "episodes": [note]})
    return folder


def step_of(visit: PlayPage) -> int:
    return int(visit.text("step").split(" of ")[0])


def follow_one_of_its_sessions(browser: Any, server: Address) -> None:
    """Follow a session of the vector, in which an episode is a reset and nine steps, for some episodes."""
    visit = PlayPage(browser, server, "/web/live")
    page = visit.page
    page.wait_for_selector(f"[data-testid=total]:text-is('{VECTOR}')")
    visit.assert_accessible()
    page.click("[data-testid=session] a")
    page.wait_for_selector("main[data-entries] [data-testid=entry]")
    entries, last, missed = page.evaluate(COUNTS)
    page.wait_for_function("last => document.querySelector('main').dataset.last > last", arg=last + 50)
    now, now_last, now_missed = page.evaluate(COUNTS)
    assert (now - entries, missed, now_missed) == (now_last - last, 0, 0)
    visit.assert_accessible()
    visit.close()


@pytest.mark.level("training")
def test_a_training_is_followed_and_looked_back_at(browser: Any, training: Training) -> None:
    process, folder, address = training
    follow_one_of_its_sessions(browser, address)
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


def test_a_failure_before_the_first_answer_does_not_end_the_page(browser: Any, short: RunFolder) -> None:
    def record(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) == 2:
            with new_file(short.traces) as traces:
                traces.add(episode(1, 3), entries(3))
        route.continue_()

    asked: list[str] = []
    with RunningServer(viewer_app(short.traces, short.path)) as server:
        visit = PlayPage(browser, server, "/web/static/style.css")
        page = visit.page
        page.route("**/web/run/rollouts?*", record)
        with failing(page, "**/web/run/progress?*"):
            page.goto(f"{server.url}/web/run")
            page.wait_for_selector("[role=alert]:has-text('The server answered with 503: too busy')")
        page.wait_for_selector("[data-testid=rollout-best] header a:text-is('1-1')")
        facts = " ".join(page.locator(".facts").inner_text().split())
        assert "Price $0.250 Price of evaluations $0.125 user 3 replies" in facts
        assert "3 replies 1.2K tokens read, ? written, price not known, 2 failed" in facts
        times = page.locator("[data-testid=times] tbody tr").all_inner_texts()
        assert [" ".join(line.split()) for line in times] == [
            "generation 3 s 3.00 s 5%",
            "training 1 s 1.00 s 2%",
            "evaluation 1 min 94%",
        ]
        visit.assert_accessible()
        assert len(asked) == 2, "a rollout that is not on record yet is asked for once more"
        page.route("**/web/run/progress?*", lambda route: route.abort())
        page.wait_for_selector("[data-testid=state]:text-is('no connection')")
        visit.close()


def phone(browser: Any, server: RunningServer) -> None:
    visit = PlayPage(browser, server, "/web/run", color_scheme="dark", viewport={"width": 390, "height": 844})
    visit.page.wait_for_selector("[data-testid=rollout-best] a")
    visit.assert_accessible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.close()


def read_step(folder: RunFolder, step: int) -> list[dict[str, Any]]:
    (line,) = [line for line in read_objects(folder.rollouts) if line["step"] == step]
    episodes: list[dict[str, Any]] = line["episodes"]
    return episodes
