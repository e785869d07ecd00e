"""What a server plays where a reset says nothing else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from openenv.core.exceptions import ConfigurationError, InvalidRequestError

from ..models import History, Opponents
from .game import MOST_PLAYERS, game_name

_OPTION = "TEXTARENA_KW_"


@dataclass(frozen=True)
class Settings:
    """The server's settings.

    Attributes:
        env_id: The game of a reset that names none.
        num_players: Players; a game for more has as many as it needs.
        max_turns: Messages of all players after which an episode is cut off; ``None`` for the game's own end alone.
        opponents: Who plays the seats that the client does not.
        history: What an observation shows.
        options: What the game's class is called with beside what its id stands for; only for ``env_id``.

    Raises:
        ConfigurationError: There is no such game, or a value is not among those that are allowed.
    """

    env_id: str = "Wordle-v0"
    num_players: int = 1
    max_turns: int | None = None
    opponents: Opponents = "self"
    history: History = "new"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            game_name(self.env_id)
        except InvalidRequestError as error:
            raise ConfigurationError(f"TEXTARENA_ENV_ID: {error}") from error
        if not 1 <= self.num_players <= MOST_PLAYERS:
            raise ConfigurationError(f"TEXTARENA_NUM_PLAYERS is {self.num_players}; expected 1 to {MOST_PLAYERS}.")
        if self.max_turns is not None and self.max_turns < 1:
            raise ConfigurationError(f"TEXTARENA_MAX_TURNS is {self.max_turns}; expected 1 or more.")
        for name, value, allowed in (("OPPONENTS", self.opponents, Opponents), ("HISTORY", self.history, History)):
            if value not in get_args(allowed):
                raise ConfigurationError(
                    f"TEXTARENA_{name} is {value!r}; expected one of {', '.join(get_args(allowed))}."
                )

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> "Settings":
        """Read the settings from environment variables.

        Args:
            variables: Those that begin with ``TEXTARENA_`` are read.

        Returns:
            The settings; a variable that is not there, or empty, leaves the default.

        Raises:
            ConfigurationError: A variable has a value that is not allowed.
        """
        max_turns = variables.get("TEXTARENA_MAX_TURNS", "")
        return cls(
            env_id=variables.get("TEXTARENA_ENV_ID") or "Wordle-v0",
            num_players=_number(variables, "TEXTARENA_NUM_PLAYERS", "1"),
            max_turns=_number(variables, "TEXTARENA_MAX_TURNS", "") if max_turns else None,
            opponents=variables.get("TEXTARENA_OPPONENTS") or "self",  # type: ignore[arg-type]  # checked above
            history=variables.get("TEXTARENA_HISTORY") or "new",  # type: ignore[arg-type]  # checked above
            options={
                name.removeprefix(_OPTION): _value(text) for name, text in variables.items() if name.startswith(_OPTION)
            },
        )


def _number(variables: Mapping[str, str], name: str, default: str) -> int:
    text = variables.get(name) or default
    if not text.isdecimal():
        raise ConfigurationError(f"{name} is {text!r}; expected a whole number.")
    return int(text)


def _value(text: str) -> Any:
    """Read a number, a list or another JSON value; anything else is the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
