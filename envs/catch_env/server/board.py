"""The board as people see it."""

from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.web.boards import Board, Square, board_html

from ..models import COLUMNS, ROWS

_STYLE = """
td { border-radius: 4px; background: light-dark(#eceef1, #2b2e33) }
td.ball { border-radius: 50%; background: light-dark(#c4322a, #ff8f85) }
td.paddle { background: light-dark(#2f4fc6, #93a8ff) }
td.caught { border-radius: 50%; background: light-dark(#17703f, #62d08f) }
"""


def as_html(observation: Mapping[str, Any]) -> str:
    """Draw a position for a page.

    Args:
        observation: A ``CatchObservation`` as JSON.

    Returns:
        HTML with its own styles.
    """
    rows = [[_square(observation, row, column) for column in range(COLUMNS)] for row in range(ROWS)]
    return board_html(Board(rows), style=_STYLE)


def _square(observation: Mapping[str, Any], row: int, column: int) -> Square:
    is_ball = (row, column) == (observation["row"], observation["ball"])
    is_paddle = (row, column) == (ROWS - 1, observation["paddle"])
    kind = "caught" if is_ball and is_paddle else "ball" if is_ball else "paddle" if is_paddle else ""
    return Square(kind=kind, name=kind)
