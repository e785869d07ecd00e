"""Settings of a server, for resets that name no game."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, field_validator

from openenv.agents import find_participant
from openenv.core.exceptions import InvalidRequestError
from openenv.core.variables import VariableSettings

from ..models import History, Opponents
from .game import MOST_PLAYERS, game_name

_OPTION = "TEXTARENA_KW_"


class Settings(VariableSettings):
    """The server's settings.

    Attributes:
        env_id: The game of a reset that names none.
        num_players: Players; a game for more has as many as it needs.
        max_turns: Messages of all players after which an episode is cut off; ``None`` for the game's own end alone.
        opponents: How the players move that the client does not play.
        participant: Their player with ``participant``: a model and its address, ``NAME@URL``, or ``module:name``, as
            for ``find_participant``.
        history: What an observation shows.
        options: What the game's class is called with beside what its id stands for; only for ``env_id``. Each has a
            variable, as in ``TEXTARENA_KW_num_guesses``.
    """

    PREFIX: ClassVar[str] = "TEXTARENA_"

    env_id: str = "Wordle-v0"
    num_players: int = Field(1, ge=1, le=MOST_PLAYERS)
    max_turns: int | None = Field(None, ge=1)
    opponents: Opponents = "self"
    participant: str | None = None
    history: History = "new"
    options: dict[str, Any] = Field(default_factory=dict)

    @field_validator("env_id")
    @classmethod
    def _check_game(cls, env_id: str) -> str:
        try:
            game_name(env_id)
        except InvalidRequestError as error:
            raise ValueError(str(error)) from error
        return env_id

    @field_validator("participant")
    @classmethod
    def _check_participant(cls, participant: str | None) -> str | None:
        if participant is not None:
            find_participant(participant)
        return participant

    @classmethod
    def fields_of(cls, variables: Mapping[str, str]) -> dict[str, object]:
        """Return the values of the fields that variables set, the game's options among them."""
        options = {
            name.removeprefix(_OPTION): _value(text) for name, text in variables.items() if name.startswith(_OPTION)
        }
        return {**super().fields_of(variables), "options": options}


def _value(text: str) -> Any:
    """Read a number, a list or another JSON value; anything else is the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
