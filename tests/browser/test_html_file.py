"""One HTML file is opened from disk in a browser, without a server."""

from pathlib import Path
from typing import Any

from tests.browser.test_results import HOSTILE, write_run
from tests.support.trace_files import entries, episode, new_file
from tests.support.web_pages import Address, PlayPage

from openenv.viewer import Source, save_page


def opened(browser: Any, path: Path, page: bytes) -> PlayPage:
    path.write_bytes(page)
    return PlayPage(browser, Address(f"file://{path}"), "")


def test_a_comparison_of_runs_leads_to_their_episodes_and_back(browser: Any, tmp_path: Path) -> None:
    runs = [write_run(tmp_path, name, slope).path for name, slope in (("better", 0.1), ("worse", -0.1))]
    visit = opened(browser, tmp_path / "page.html", save_page(Source.all_at([str(run) for run in runs])))
    page = visit.page
    page.wait_for_selector("[data-testid=task]")
    assert visit.text("saved").startswith("Saved on ")
    visit.assert_accessible()
    page.click("text=Side by side")
    page.wait_for_selector("[data-testid=difference]:has-text('step 2')")
    assert HOSTILE in page.inner_text("[data-testid=entry] >> nth=0")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("h2:has-text('Step 1')")
    page.click("a:has-text('Comparison') >> nth=0")
    page.click("a:has-text('worse')")
    page.wait_for_selector("[data-testid=run]:has-text('Rollouts of step 12')")
    page.click("[data-testid=rollout-best] header a")
    page.wait_for_selector("[data-testid=entry]")
    page.go_back()
    page.wait_for_selector("[data-testid=run]")
    assert page.evaluate("window.hacked") is None
    visit.close()


def test_a_step_that_was_left_out_says_so_and_episodes_are_walked_through(browser: Any, tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        traces.add(episode(1, 30), entries(30, HOSTILE))
        traces.add(episode(2, 3), entries(3, HOSTILE))
    visit = opened(browser, tmp_path / "page.html", save_page([Source.at(str(tmp_path))], max_bytes=12_000))
    page = visit.page
    page.wait_for_selector("[data-testid=episode] >> nth=1")
    assert "Left out for its size: " in visit.text("saved")
    assert not page.is_visible("[role=search]")
    page.click("[data-testid=episode] >> nth=0 >> a")
    page.wait_for_selector("[data-testid=entry]")
    page.click("text=Next")
    page.wait_for_selector("[data-testid=sum]:has-text('30')")
    page.keyboard.press("End")
    page.wait_for_selector("[data-testid=left-out]:has-text('observation')")
    assert page.evaluate("window.hacked") is None
    visit.close()
