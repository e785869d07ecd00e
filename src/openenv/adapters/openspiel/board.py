"""HTML of the boards of games."""

from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.web.text_boards import text_board_html

__all__ = ["as_html"]

# Its cards lie in a frame, at the positions of their ranks.
_CARDS = " of gin_rummy.\n"


def as_html(observation: Mapping[str, Any]) -> str | None:
    """Draw a position for a page.

    Args:
        observation: An ``OpenSpielObservation`` as JSON.

    Returns:
        HTML with its own styles; ``None`` where OpenSpiel writes no board of squares, and its text shows more.
    """
    text: str = observation["text"]
    return None if _CARDS in text else text_board_html(text)
