"""Players of the seats that the client does not play."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Discrete

from openenv.agents import Participant, find_participant
from openenv.agents.finding import find_named
from openenv.core.exceptions import ConfigurationError

__all__ = ["Opponent", "Seating", "Turn", "find_opponent", "legal_actions", "random_move"]

Numbers = np.random.Generator


@dataclass(frozen=True)
class Turn:
    """Knowledge of the player that is to move.

    Attributes:
        agent: The seat that is to move.
        observation: Its observation, as PettingZoo gives it.
        space: The space of its actions.
        legal: The actions that are legal now; ``None`` where the game does not list them.
    """

    agent: str
    observation: Any
    space: Space[Any]
    legal: Sequence[int] | None


Opponent = Callable[[Turn, Numbers], Any]
"""Chooses an action. All that is random in it comes from the generator, so that a seed repeats the game."""


@dataclass(frozen=True)
class Seating:
    """Players of the seats.

    Attributes:
        seat: Seat that the client plays, where it does not play all.
        opponent: Player of the others; ``None`` where the client plays all.
    """

    seat: str
    opponent: Opponent | Participant | None


def random_move(turn: Turn, numbers: Numbers) -> Any:
    """Choose any legal action, each with the same probability."""
    if turn.legal is not None:
        return int(numbers.choice(list(turn.legal)))
    turn.space.seed(int(numbers.integers(2**31)))
    return turn.space.sample()


def find_opponent(name: str) -> Opponent | Participant:
    """Find an opponent.

    Args:
        name: ``random``; ``NAME@URL`` of a model; or ``module:name`` of a function of your own, or of a participant.

    Raises:
        ConfigurationError: There is no such opponent.
    """
    if name == "random":
        return random_move
    if "@" in name:
        return find_participant(name)
    found = find_named(name, "opponents to be random, none, NAME@URL of a model, or module:name")
    if not isinstance(found, Participant) and not callable(found):
        raise ConfigurationError(
            f"Expected {name} to be a function that chooses a move, or a participant, got {type(found).__name__}."
        )
    opponent: Opponent | Participant = found
    return opponent


def legal_actions(space: Space[Any], observation: Any, info: Mapping[str, Any]) -> Sequence[int] | None:
    """Read which actions are legal from where PettingZoo's games have their mask, the observation or the info."""
    mask = observation.get("action_mask") if isinstance(observation, Mapping) else None
    mask = info.get("action_mask") if mask is None else mask
    if mask is None or not isinstance(space, Discrete):
        return None
    first = int(space.start)
    return [first + int(index) for index in np.flatnonzero(mask)]
