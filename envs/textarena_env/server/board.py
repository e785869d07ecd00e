"""The boards of games as people see them."""

import re
from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.web.boards import Board, Square, board_html
from openenv.core.env_server.web.text_boards import text_board_html

_FEEDBACK = re.compile(r"Feedback:\s*\n((?:[A-Z] )+[A-Z])[ ]*\n((?:[GYX] )+[GYX])(?=\s|$)")
# The class of a letter's square, and what is read aloud of its colour.
_KINDS = {"G": ("in-place", "in its place"), "Y": ("elsewhere", "elsewhere"), "X": ("absent", "absent")}

_STYLE = """
table { border-spacing: 6px }
td { width: 52px; height: 52px; font-size: 28px; font-weight: 700; color: #fff }
td.in-place { background: #3f7d3b }
td.elsewhere { background: #8f6f00 }
td.absent { background: #5b5f66 }
"""


def as_html(observation: Mapping[str, Any]) -> str | None:
    """Draw a game's text for a page, with its board as a board.

    Args:
        observation: A ``TextArenaObservation`` as JSON.

    Returns:
        HTML with its own styles; ``None`` where the game writes no board of squares, and its text shows more.
    """
    text: str = observation["text"]
    guesses = [_letters(*found) for found in _FEEDBACK.findall(text)]
    if guesses:
        return board_html(Board(guesses, "Guesses"), _FEEDBACK.sub("", text).strip(), style=_STYLE)
    return text_board_html(text)


def _letters(guess: str, marks: str) -> list[Square]:
    pairs = zip(guess.split(), marks.split(), strict=False)
    return [Square(letter, _KINDS[mark][0], f"{letter}, {_KINDS[mark][1]}") for letter, mark in pairs]
