"""Actions and observations of Catch."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from openenv.core.env_server.types import Action, Observation

COLUMNS = 5
ROWS = 10

Move = Literal["left", "stay", "right"]


class CatchAction(Action):
    """Move the paddle. There are words only: OpenSpiel's action ids are refused.

    Attributes:
        move: One column to the left or to the right, or not at all. At the edge the paddle stays.
    """

    move: Move = Field(description="Where the paddle goes")

    @model_validator(mode="before")
    @classmethod
    def _refuse_numbers(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and "action_id" in fields and "move" not in fields:
            raise ValueError(
                f"expected a move (left, stay or right), got the action_id {fields['action_id']!r}; "
                "for moves by number, play catch in the environment openspiel"
            )
        return fields


class CatchObservation(Observation):
    """Where ball and paddle are.

    Attributes:
        ball: The ball's column, 0 on the left to 4 on the right. It does not change in an episode.
        paddle: The paddle's column, 0 to 4. The paddle is in row 9, the lowest.
        row: The ball's row, 0 at the top to 9. With every step it falls by one; in row 9 the episode is over.
    """

    ball: int = Field(ge=0, le=COLUMNS - 1, description="Column of the ball")
    paddle: int = Field(ge=0, le=COLUMNS - 1, description="Column of the paddle")
    row: int = Field(ge=0, le=ROWS - 1, description="Row of the ball")
