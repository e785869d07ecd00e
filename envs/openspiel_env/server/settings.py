"""Settings of a server, for resets that name no game."""

from typing import ClassVar

from pydantic import Field, field_validator

from openenv.adapters.openspiel import OpponentPolicy, game_type, unknown_game
from openenv.core.variables import VariableSettings


class Settings(VariableSettings):
    """The server's settings.

    Attributes:
        game_name: The game of a reset that names none; the variable is ``OPENSPIEL_GAME``.
        agent_player: The player whom the client plays, and whose rewards are reported.
        opponent_policy: How the other players move.
    """

    PREFIX: ClassVar[str] = "OPENSPIEL_"

    game_name: str = "catch"
    agent_player: int = Field(0, ge=0)
    opponent_policy: OpponentPolicy = "random"

    @field_validator("game_name")
    @classmethod
    def _check_game(cls, name: str) -> str:
        if game_type(name) is None:
            raise ValueError(unknown_game(name))
        return name

    @classmethod
    def variable(cls, field: str) -> str:
        """Return the name of a field's variable."""
        return super().variable(field.removesuffix("_name"))
