"""What a player sends in Catch, and what comes back."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation

COLUMNS = 5
ROWS = 10

Move = Literal["left", "stay", "right"]


class CatchAction(Action):
    """Move the paddle.

    Attributes:
        move: One column to the left or to the right, or not at all. At the edge the paddle stays.
    """

    move: Move = Field(description="Where the paddle goes")


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
