"""The board as people see it."""

from collections.abc import Mapping
from typing import Any

from ..models import COLUMNS, ROWS

_STYLE = """<style>
body { margin: 0; display: grid; place-items: center }
table { border-spacing: 3px }
td { width: 30px; height: 30px; border-radius: 4px; background: light-dark(#eceef1, #2b2e33) }
.ball { border-radius: 50%; background: light-dark(#c4322a, #ff8f85) }
.paddle { background: light-dark(#2f4fc6, #93a8ff) }
.caught { border-radius: 50%; background: light-dark(#17703f, #62d08f) }
</style>"""


def as_html(observation: Mapping[str, Any]) -> str:
    """Draw a position for a page.

    Args:
        observation: A ``CatchObservation`` as JSON.

    Returns:
        HTML with its own styles.
    """
    rows = (f"<tr>{''.join(_cell(observation, row, column) for column in range(COLUMNS))}</tr>" for row in range(ROWS))
    return f"{_STYLE}<table aria-label='Board'>{''.join(rows)}</table>"


def _cell(observation: Mapping[str, Any], row: int, column: int) -> str:
    is_ball = (row, column) == (observation["row"], observation["ball"])
    is_paddle = (row, column) == (ROWS - 1, observation["paddle"])
    name = "caught" if is_ball and is_paddle else "ball" if is_ball else "paddle" if is_paddle else ""
    return f'<td class="{name}"></td>' if name else "<td></td>"
