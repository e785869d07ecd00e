"""Episodes on record are given labels and notes on the page."""

from pathlib import Path
from typing import Any

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
