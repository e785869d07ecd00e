"""Action, observation and state of a game of OpenSpiel. A client needs no OpenSpiel for them."""

from typing import Any, Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

__all__ = ["OpenSpielAction", "OpenSpielObservation", "OpenSpielState", "Phase"]

Phase = Literal["initial", "playing", "terminal"]

_NOT_READ: dict[str, Any] = {"deprecated": True}  # players do not fill it in


class OpenSpielAction(Action):
    """Make a move.

    Attributes:
        action_id: One of the last observation's ``legal_actions``.
        game_name: For the reader only: the game is chosen at the reset.
        game_params: As ``game_name``.
    """

    action_id: int = Field(ge=0, description="One of the legal actions' ids")
    game_name: str = Field(
        default="catch", description="Not read: the game is chosen at the reset", json_schema_extra=_NOT_READ
    )
    game_params: dict[str, Any] = Field(
        default_factory=dict, description="Not read, like game_name", json_schema_extra=_NOT_READ
    )


class OpenSpielObservation(Observation):
    """Observation of the player who is to move.

    Attributes:
        info_state: The game's information state tensor, flattened; its observation tensor where it has no other; empty
            where it has neither.
        legal_actions: Action ids that may be played; empty once the game is over.
        game_phase: Whether this is the ``initial`` observation, one while ``playing``, or the ``terminal`` one.
        current_player_id: The player who is to move; -4 once the game is over.
        opponent_last_action: The latest move of another player since the last observation; ``None`` where there was
            none, or where the rules may hide it.
        text: The same in words, for a language model: the game's own description of what the player sees, and the legal
            moves with their names.
    """

    info_state: list[float]
    legal_actions: list[int]
    game_phase: Phase = "playing"
    current_player_id: int = 0
    opponent_last_action: int | None = None
    text: str = ""


class OpenSpielState(State):
    """State of the episode. ``step_count`` counts the moves of all players.

    Attributes:
        game_name: OpenSpiel's name of the game.
        agent_player: The player whose rewards are reported, and whom the client plays.
        opponent_policy: How the other players move; ``self`` if the client plays them too.
        game_params: The parameters that were given for the game.
        num_players: Players in the game.
    """

    game_name: str = "catch"
    agent_player: int = 0
    opponent_policy: str = "random"
    game_params: dict[str, Any] = Field(default_factory=dict)
    num_players: int = 1
