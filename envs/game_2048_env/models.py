"""Actions and observations of 2048."""

from typing import Literal

from pydantic import Field

from openenv.adapters.openspiel import OpenSpielObservation, WordAction

Move = Literal["up", "right", "down", "left"]


class Game2048Action(WordAction):
    """Slide all tiles.

    Attributes:
        move: Where to.
    """

    move: Move = Field(description="Where all tiles slide")


class Game2048Observation(OpenSpielObservation):
    """The board. The numbers of OpenSpiel are there too.

    Attributes:
        board: Four rows of four tiles, the top row first; 0 where there is none.
        score: The sum of the rewards so far.
        legal_moves: The moves that slide a tile.
    """

    board: list[list[int]] = Field(description="Four rows of four tiles, the top row first; 0 is empty")
    score: int = Field(ge=0, description="The sum of the rewards so far")
    legal_moves: list[Move] = Field(description="The moves that slide a tile")
