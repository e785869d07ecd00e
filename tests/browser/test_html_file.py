"""One HTML file is opened from disk in a browser, without a server."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.browser.test_results import HOSTILE, write_run
from tests.support.episode_folders import line, write_evaluation, write_lines
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
    assert "Not in this file: 1" in visit.text("saved")
    assert not page.is_visible("[role=search]")
    page.click("[data-testid=episode] >> nth=0 >> a")
    page.wait_for_selector("[data-testid=entry]")
    page.click("text=Next")
    page.wait_for_selector("[data-testid=sum]:has-text('30')")
    page.keyboard.press("End")
    page.wait_for_selector("[data-testid=left-out]:has-text('observation')")
    assert page.evaluate("window.hacked") is None
    visit.close()


# What breaks out of an element, a comment or a line of a script, and what JSON has in no other form.
BREAKS = "</script><script>window.hacked = 1</script><!-- <script> ]]> \u2028\u2029\x00\x1b &lt; $`"
PRINTED = """
window.printed = [];
addEventListener("beforeprint", () => window.printed.push(document.querySelector("main").textContent));
"""


def printed(page: Any) -> tuple[int, str]:
    """Print a page; return the number of sheets, and the text that the page had for them."""
    page.evaluate(PRINTED)
    sheets = len(re.findall(rb"/Type /Page\b", page.pdf()))
    (text,) = page.evaluate("window.printed")
    return sheets, text


def test_an_episode_is_printed_to_its_end(browser: Any, tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        traces.add(episode(1, 80), entries(80, "At {step}.\n" + BREAKS))
    visit = opened(browser, tmp_path / "page.html", save_page([Source.at(str(tmp_path))], ["1-1"]))
    page = visit.page
    page.wait_for_selector("[data-turn='9'] [data-testid=entry]")
    assert not page.locator("[data-turn='80']").count(), "on a screen those around one are drawn"
    sheets, text = printed(page)
    assert sheets > 10
    assert [f"At {step}." in text for step in (0, 41, 80)] == [True] * 3
    page.wait_for_selector("[data-turn='80']", state="detached")
    assert page.evaluate("window.hacked") is None
    visit.close()


def test_all_episodes_of_a_list_are_printed(browser: Any, tmp_path: Path) -> None:
    with new_file(tmp_path / "traces.db") as traces:
        for number in range(90):
            traces.add(episode(number, 1, BREAKS), entries(1))
    visit = opened(browser, tmp_path / "page.html", save_page([Source.at(str(tmp_path))]))
    visit.page.wait_for_selector("[data-testid=episode]")
    sheets, text = printed(visit.page)
    assert sheets > 1
    assert all(f"1-{number}" in text for number in range(1, 91))
    visit.close()


def whole_run(folder: Path) -> Path:
    return write_run(folder, f"run {BREAKS}".replace("/", "").replace("\x00", ""), 0.1).path


def own_evaluation(folder: Path) -> Path:
    made = write_evaluation(folder / "eval", {1: [1.0]}, BREAKS)
    # Half of a surrogate pair, which JSON has and UTF-8 has not.
    write_lines(made / "episodes.jsonl", [line(1, {"seed": 2, "word": "\ud83d"}, 0.5, f"half \ud83d {BREAKS}")])
    results = json.loads((made / "results.json").read_text())
    (made / "results.json").write_text(json.dumps({**results, "player": f"half \ud83d {BREAKS}"}))
    return made


@pytest.mark.parametrize("folder_of", [whole_run, own_evaluation])
def test_texts_that_break_out_are_texts(browser: Any, tmp_path: Path, folder_of: Callable[[Path], Path]) -> None:
    visit = opened(browser, tmp_path / "page.html", save_page([Source.at(str(folder_of(tmp_path)))]))
    visit.page.wait_for_selector("main h1")
    visit.page.wait_for_selector("[data-testid=rollout-best]")
    assert visit.page.evaluate("window.hacked") is None
    sheets, _ = printed(visit.page)
    assert sheets >= 1
    visit.close()
