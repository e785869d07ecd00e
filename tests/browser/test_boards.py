"""Boards of the catalog: while they are played, followed, and on record at a server and in the viewer."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from tests.support.servers import RunningServer, eventually
from tests.support.web_pages import PlayPage

from openenv import traces
from openenv.auto.discovery import find_environment
from openenv.auto.serving import app_for
from openenv.core.env_server.app import create_fastapi_app
from openenv.viewer import viewer_app

_BOARD = 'iframe[title="The environment\'s own view"]'
# On record, each turn of the conversation has its board.
_CURRENT = "[data-current=true]"


def cells(page: Any, within: str = "main") -> list[str]:
    """Return the cells of the board that is shown: their texts, marks and classes; none while its frame loads."""
    from playwright.sync_api import Error  # where it is missing, these tests are skipped

    frame = page.frame_locator(f"{within} {_BOARD}")
    try:
        written: list[str] = frame.locator("td").evaluate_all(
            "all => all.map(cell => cell.innerText + (cell.dataset.mark ?? '') + cell.className)"
        )
    except Error as error:
        if "context was destroyed" not in str(error):
            raise
        return []  # the frame loads the next board
    return written


@pytest.mark.parametrize(
    ("name", "count"), [("catch", 50), ("2048", 16), ("sudoku", 81), ("wordle", 30), ("openspiel", 50)]
)
def test_a_board_is_a_board_wherever_an_episode_is_shown(browser: Any, name: str, count: int, tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    package = find_environment(name)
    player = package.make_player(3)
    assert player is not None
    # The application in the package's module keeps the settings of the process's first import of it.
    with RunningServer(app_for(package.environment_class(), name, traces=file)) as server:
        played = PlayPage(browser, server)
        played.reset(seed=3)
        eventually(lambda: len(cells(played.page)) == count, "the first board is shown")
        first = cells(played.page)
        followed = PlayPage(browser, server, "/web/live")
        followed.page.click("[data-testid=session] a")
        followed.page.wait_for_selector("[data-testid=status][data-status=open]")
        action = player(package.observation_class().model_validate(played.observation))
        played.step(action.model_dump(mode="json", exclude_unset=True))
        eventually(lambda: _is_next(cells(played.page), first), "the board after the step is shown")
        board = cells(played.page)
        eventually(lambda: cells(followed.page) == board, "the follower has the same board")
        played.assert_accessible()
        followed.assert_accessible()
        eventually(lambda: _steps(file) == 1, "the step is on record")
        recorded = PlayPage(browser, server, "/web/traces?episode=1-1#step-1")
        eventually(lambda: cells(recorded.page, _CURRENT) == board, "the board is shown on record")
        for visit in (played, followed, recorded):
            visit.close()
    with RunningServer(viewer_app(file)) as server:
        recorded = PlayPage(browser, server, "/web/traces?episode=1-1#step-1", color_scheme="dark")
        eventually(lambda: cells(recorded.page, _CURRENT) == board, "the viewer shows it, which has no environment")
        recorded.assert_accessible()
        recorded.close()


class FailingEnvironment(CounterEnvironment):
    """Shows the first observation only."""

    @staticmethod
    def render_web(observation: dict[str, Any]) -> str:
        if observation["total"] > 0:
            raise KeyError("colour")
        return "<table><td>none</td></table>"


def test_a_view_that_fails_is_said_beside_the_fields(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "traces.db"
    with RunningServer(create_fastapi_app(FailingEnvironment, Add, Total, traces=str(file))) as server:
        visit = PlayPage(browser, server)
        visit.reset()
        eventually(lambda: cells(visit.page) == ["none"], "the frame is shown")
        visit.step({"amount": 2})
        visit.page.wait_for_selector(".note:has-text('could not render this')")
        visit.close()
        eventually(lambda: _steps(file) == 1, "the step is on record")
        visit = PlayPage(browser, server, "/web/traces?episode=1-1#step-1")
        visit.page.wait_for_selector(".note:has-text(\"could not render this: 'colour'\")")
        assert "Total\n2" in visit.page.inner_text(f"{_CURRENT} [data-testid=observation]")
        visit.close()


def _is_next(board: list[str], first: list[str]) -> bool:
    return len(board) == len(first) and board != first


def _steps(file: Path) -> int:
    with traces.open(file) as opened:
        return sum(episode.steps for episode in opened.episodes())
