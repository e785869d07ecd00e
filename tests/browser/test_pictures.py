"""Declared arrays of pixels are pictures on the page, while an episode is played and on record."""

from pathlib import Path
from typing import Any

from tests.support.environments.pictured import Gallery, Look, View
from tests.support.servers import RunningServer, eventually
from tests.support.web_pages import PlayPage

from openenv import create_app, traces

_PIXEL = "canvas => [canvas.width, canvas.height, ...canvas.getContext('2d').getImageData(3, 1, 1, 1).data]"


def test_pixels_are_pictures(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    with RunningServer(create_app(Gallery, Look, View, traces=str(file))) as server:
        visit = PlayPage(browser, server)
        visit.reset()
        visit.step({"brightness": 200})
        assert visit.page.locator("[data-testid=pixels]").evaluate(_PIXEL) == [4, 2, 200, 200, 200, 255]
        visit.assert_accessible()
        visit.close()
        eventually(lambda: _steps(file) == 1, "the step is on record")
        visit = PlayPage(browser, server, "/web/traces?episode=1-1#step-1")
        visit.page.wait_for_selector("h2:text-is('Step 1')")
        current = visit.page.locator("[data-current=true] [data-testid=pixels]")
        assert current.evaluate(_PIXEL) == [4, 2, 200, 200, 200, 255]
        visit.assert_accessible()
        visit.close()


def _steps(file: Path) -> int:
    with traces.open(file) as opened:
        return sum(episode.steps for episode in opened.episodes())
