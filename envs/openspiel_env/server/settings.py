"""What a server plays where a reset says nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from openenv.core.exceptions import ConfigurationError

from .games import game_type, unknown_game
from .opponents import OpponentPolicy


@dataclass(frozen=True)
class Settings:
    """The server's settings.

    Attributes:
        game_name: The game of a reset that names none.
        agent_player: The player whom the client plays, and whose rewards are reported.
        opponent_policy: How the other players move.

    Raises:
        ConfigurationError: There is no such game or policy, or the player is negative.
    """

    game_name: str = "catch"
    agent_player: int = 0
    opponent_policy: OpponentPolicy = "random"

    def __post_init__(self) -> None:
        if game_type(self.game_name) is None:
            raise ConfigurationError(f"OPENSPIEL_GAME: {unknown_game(self.game_name)}")
        if self.agent_player < 0:
            raise ConfigurationError(
                f"OPENSPIEL_AGENT_PLAYER is {self.agent_player}; expected 0 for the first player, 1 for the second, …"
            )
        if self.opponent_policy not in get_args(OpponentPolicy):
            raise ConfigurationError(
                f"OPENSPIEL_OPPONENT_POLICY is {self.opponent_policy!r}; expected one of "
                f"{', '.join(get_args(OpponentPolicy))}."
            )

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> "Settings":
        """Read the settings from environment variables.

        Args:
            variables: ``OPENSPIEL_GAME``, ``OPENSPIEL_AGENT_PLAYER`` and ``OPENSPIEL_OPPONENT_POLICY`` are read.

        Returns:
            The settings; a variable that is not there leaves the default.

        Raises:
            ConfigurationError: A variable has a value that is not allowed.
        """
        player = variables.get("OPENSPIEL_AGENT_PLAYER", "0")
        if not player.isdecimal():
            raise ConfigurationError(f"OPENSPIEL_AGENT_PLAYER is {player!r}; expected a player's number, such as 0.")
        return cls(
            game_name=variables.get("OPENSPIEL_GAME", "catch"),
            agent_player=int(player),
            opponent_policy=variables.get("OPENSPIEL_OPPONENT_POLICY", "random"),  # type: ignore[arg-type]  # checked above
        )
