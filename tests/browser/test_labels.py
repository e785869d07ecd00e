"""Episodes on record are given labels and notes on the page."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.servers import RunningServer
from tests.support.trace_files import entries, episode, new_file
from tests.support.web_pages import Address, PlayPage

from openenv.viewer import Source, save_page, viewer_app

HOSTILE = "<img src=x onerror='window.hacked = 1'>"


def test_a_label_is_kept_listed_filtered_by_and_shown_in_a_file(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "traces.db"
    with new_file(path) as traces:
        for number in range(3):
            traces.add(episode(number, 3), entries(3))
    with RunningServer(viewer_app(path)) as server:
        visit = PlayPage(browser, server, "/web/traces?episode=1-2")
        page = visit.page
        page.click("form.labelled >> text=good")
        page.wait_for_selector("[data-testid=label-state]:has-text('saved')")
        page.fill("[aria-label=Label]", HOSTILE)
        page.fill("[aria-label=Note]", "odd " + HOSTILE)
        page.keyboard.press("Enter")
        page.wait_for_selector("form.labelled button[type=submit]:disabled")
        page.reload()
        page.wait_for_selector("form.labelled")
        assert page.input_value("[aria-label=Label]") == HOSTILE
        visit.assert_accessible()
        page.click("text=All episodes")
        page.wait_for_selector("[data-testid=label]")
        page.select_option("#label", HOSTILE)
        page.wait_for_selector("[data-testid=count]:has-text('1 episode')")
        assert "label=" in page.url
        visit.assert_accessible()
        assert page.evaluate("window.hacked") is None
        visit.close()
    file = tmp_path / "page.html"
    file.write_bytes(save_page([Source.at(str(path))], ["1-2"]))
    saved = PlayPage(browser, Address(f"file://{file}"), "")
    saved.page.wait_for_selector(".labelled [data-testid=label]")
    assert "odd <img" in saved.page.inner_text(".labelled")
    assert not saved.page.is_visible("form.labelled")
    assert saved.page.evaluate("window.hacked") is None
    saved.close()


@pytest.fixture
def labelling(browser: Any, tmp_path: Path) -> Iterator[Callable[[str], PlayPage]]:
    """Open pages of three episodes by their query, and close them."""
    with new_file(tmp_path / "traces.db") as traces:
        for number in range(3):
            traces.add(episode(number, 3), entries(3))
    visits: list[PlayPage] = []
    with RunningServer(viewer_app(tmp_path / "traces.db")) as server:

        def visit(query: str) -> PlayPage:
            visits.append(PlayPage(browser, server, f"/web/traces?{query}", viewport={"width": 1280, "height": 800}))
            visits[-1].page.wait_for_selector("[data-testid=entry]")
            return visits[-1]

        yield visit
        for each in visits:
            each.close()


def test_a_label_that_another_person_gives_meanwhile_is_not_lost(labelling: Callable[[str], PlayPage]) -> None:
    mine, other = (labelling("episode=1-1").page for _ in range(2))
    other.fill("[aria-label=Label]", "cheats")
    other.fill("[aria-label=Note]", "by the window")
    other.click("form.labelled button[type=submit]")
    other.wait_for_selector("[data-testid=label-state]:has-text('saved')")
    mine.click("form.labelled >> text=good")
    mine.wait_for_selector("form.labelled .problem:has-text('another person gave it cheats, by the window')")
    for page, label in ((other, "cheats"), (mine, "good")):
        page.reload() if page is other else page.click("form.labelled button[type=submit]")
        page.wait_for_selector("[data-testid=label-state]:has-text('saved')")
        assert page.get_attribute("form.labelled .label-good", "aria-pressed") == str(label == "good").lower()
    mine.click("form.labelled >> text=bad")  # which replaces their own
    mine.wait_for_selector("form.labelled .label-bad[aria-pressed=true]")
    assert mine.locator("form.labelled .problem").count() == 0


def test_among_episodes_beside_each_other_the_fields_wait_for_a_click(labelling: Callable[[str], PlayPage]) -> None:
    visit = labelling("episode=1-1&with=1-2,1-3")
    page = visit.page
    forms = page.locator("form.labelled")
    assert [form.bounding_box()["height"] < 50 for form in forms.all()] == [True] * 3
    assert page.locator("form.labelled input").count() == 0
    second = forms.nth(1)
    second.locator("text=bad").click()
    second.locator("[data-testid=label-state]:has-text('saved')").wait_for()
    second.locator("text=Label, note").click()
    visit.assert_accessible()
    assert page.evaluate("document.activeElement.ariaLabel") == "Label"
    second.locator("[aria-label=Label]").fill("odd")
    second.locator("[aria-label=Note]").fill(f"walks back {HOSTILE}")
    page.keyboard.press("Enter")
    second.locator("[data-testid=label-state]:has-text('saved')").wait_for()
    page.reload()
    page.wait_for_selector("form.labelled [data-testid=label]:text-is('odd')")
    assert page.inner_text("form.labelled >> nth=1").startswith("good\nbad\nodd\nwalks back")
    assert forms.nth(1).bounding_box()["height"] < 70
    assert page.evaluate("window.hacked") is None
    visit.assert_accessible()
