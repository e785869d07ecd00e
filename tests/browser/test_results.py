"""An evaluation is looked at in a browser, and compared with others."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.episode_folders import line, write_evaluation, write_lines
from tests.support.servers import RunningServer
from tests.support.trace_files import entries, episode, new_file
from tests.support.web_pages import PlayPage, failing

from openenv.records.evaluation import Estimate, Evaluation, TaskResult
from openenv.records.run_folder import RunFolder
from openenv.records.run_start import RunStart
from openenv.train.settings.config import TrainConfig
from openenv.viewer import Source, comparison_app, source_app

HOSTILE = "<img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>"
REWARDS = {seed: [seed % 3 / 2, seed % 2] for seed in range(60)}
PHONE = {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}}


def write_run(folder: Path, name: str, slope: float) -> RunFolder:
    """Write the folder of a run of twelve steps, with an episode on record for the task of seed 1."""
    run = TrainConfig(environment="walk", output_dir=folder, name=name).make_folder("walk")
    run.add_start(RunStart.now())
    for step in range(1, 13):
        run.add_metrics({"step": step, "episode/reward": slope * step, "loss": 1 / step})
        note = {"episode_id": "e1", "group": 0, "task": {"seed": 1, "word": HOSTILE}, "reward": slope, "length": 3}
        run.add_rollouts({"step": step, "environment": "", "episodes": [{**note, "illegal_actions": 0}]})
    with new_file(run.traces) as traces:
        traces.add(replace(episode(1, 3), episode_id="e1"), entries(3, HOSTILE, turn_at=2 if slope > 0 else 3))
    return run


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("evals") / HOSTILE.replace("/", "")
    with RunningServer(source_app(Source.at(str(write_evaluation(folder, REWARDS, HOSTILE))))) as server:
        yield server


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("runs")
    runs = [write_run(folder, name, slope).path for name, slope in (("better", 0.1), ("worse", -0.1))]
    paths = [*runs, write_evaluation(folder / HOSTILE.replace("/", ""), {1: [1.0], 2: [0.0]}, HOSTILE)]
    with RunningServer(comparison_app([Source.at(str(path)) for path in paths])) as server:
        yield server


def test_an_evaluation_leads_to_its_episodes(browser: Any, evaluation: RunningServer) -> None:
    visit = PlayPage(browser, evaluation, "/")
    page = visit.page
    page.wait_for_selector("[data-testid=task]")
    assert visit.text("state") == "complete"
    assert page.locator("h1").inner_text() == HOSTILE.replace("/", "")
    assert page.locator("[data-testid=estimate]").count() == 3
    assert page.locator("[data-testid=task]").count() == 50
    assert HOSTILE in page.inner_text("[data-testid=rollout-best] pre")
    visit.assert_accessible()
    page.click("text=Show 10 more of 60")
    page.wait_for_selector("[data-testid=task] >> nth=59")
    page.select_option("[data-testid=order]", "best")
    page.wait_for_selector("[data-testid=task]:first-child:has-text('seed 5')")
    page.click("[data-testid=task] >> nth=0 >> button")
    page.wait_for_selector("[data-testid=chosen]:has-text('of seed 5')")
    page.wait_for_selector("[data-testid=rollout-worst] header:has-text('seed 5')")
    visit.assert_accessible()
    page.click("[data-testid=rollout-worst] header a")
    page.wait_for_selector("[data-testid=entry]")
    page.go_back()
    page.wait_for_selector("[data-testid=task]")
    assert page.evaluate("window.hacked") is None
    visit.close()


def test_an_evaluation_is_followed_and_survives_failures(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"environment": "walk", "player": "random", "samples": 1}')
    with RunningServer(source_app(Source.at(str(tmp_path)))) as server:
        visit = PlayPage(browser, server, "/web/results")
        page = visit.page
        page.wait_for_selector("[role=status]:has-text('No episode has come to its end yet.')")
        assert visit.text("state") == "not complete"
        write_lines(tmp_path / "episodes.jsonl", [line(0, {"seed": 1}, 0.5)])
        page.wait_for_selector("[data-testid=task]")
        visit.assert_accessible()
        with failing(page, "**/web/results/summary"):
            page.wait_for_selector("[role=alert]:has-text('The server answered with 503: too busy')")
        page.wait_for_selector("[role=alert]", state="detached")
        page.route("**/web/results/summary", lambda route: route.fulfill(status=401, json={"detail": "a token"}))
        page.wait_for_selector("h1:has-text('This server needs its token')")
        page.unroute("**/web/results/summary")
        page.reload()
        page.wait_for_selector("[data-testid=task]")
        estimate = Estimate(0.5, 0.2, 0.8)
        tasks = [TaskResult({"seed": 1}, [0.5], 0, mean_reward=estimate)]
        Evaluation("walk", "random", 1, 1.0, estimate, {}, 3.0, 0.0, tasks).save(tmp_path / "results.json")
        page.wait_for_selector("[aria-label='Table of tasks'] th:has-text('Successes')")
        page.wait_for_selector("[aria-label='Table of tasks'] th:has-text('95% interval')")
        page.wait_for_selector("[data-testid=task] td:text-is('0 of 1')")
        visit.close()


def test_runs_and_an_evaluation_are_compared(browser: Any, comparison: RunningServer) -> None:
    visit = PlayPage(browser, comparison, "/")
    page = visit.page
    page.wait_for_selector("[data-testid=chart] >> nth=0 >> path >> nth=1")
    page.wait_for_selector("[data-testid=task]")
    assert page.locator("[data-testid=source]").count() == 3
    assert page.locator("[data-testid=chart] >> nth=0 >> path").count() == 2
    assert HOSTILE in page.inner_text("[data-testid=task]")
    assert "1 task in common" in visit.text("common")
    with failing(page, "**/1/web/run/progress?*"):
        page.wait_for_selector(".banner[role=alert]:has-text('The server answered with 503: too busy')")
    page.wait_for_selector(".banner[role=alert]", state="detached")
    visit.assert_accessible()
    reward = page.locator("[role=slider] >> nth=0")
    reward.focus()
    page.keyboard.press("Home")
    assert reward.get_attribute("aria-valuetext") == "Step 1: better 0.1, worse -0.1"
    page.click("text=Side by side")
    page.wait_for_selector("[data-testid=difference]:has-text('step 2')")
    assert page.locator("[aria-label='Episode better 1-1']").count() == 1
    page.locator("h2:text-is('Reset')").nth(1).wait_for()
    with page.expect_download() as saved:
        page.click("text=Save as JSON >> nth=1")
    assert "onerror" in Path(saved.value.path()).read_text()
    visit.assert_accessible()
    page.click("a:text-is('Comparison') >> nth=0")
    page.wait_for_selector("[data-testid=source] a")
    page.click("[data-testid=source] a >> nth=2")
    page.wait_for_selector("[data-testid=results]")
    page.click("a:text-is('Comparison')")
    page.wait_for_selector("[data-testid=compare]")
    assert page.evaluate("window.hacked") is None
    visit.close()


@pytest.mark.parametrize("view", ["evaluation", "comparison"])
def test_they_are_readable_on_a_phone(browser: Any, request: pytest.FixtureRequest, view: str) -> None:
    visit = PlayPage(browser, request.getfixturevalue(view), "/", **PHONE)
    visit.page.wait_for_selector("[data-testid=task]")
    visit.assert_accessible()
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
    visit.close()
