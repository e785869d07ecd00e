"""Policies of the players that the client does not play."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal

__all__ = ["OpponentPolicy", "opponent"]

OpponentPolicy = Literal["random", "first", "last", "middle", "self"]
Choice = Callable[[Sequence[int]], int]


def opponent(policy: OpponentPolicy, random: Random) -> Choice | None:
    """Return the function that chooses the moves of the other players.

    Returns:
        A function from the legal actions to one of them; ``None`` for ``self``, where the client chooses.
    """
    choices: dict[OpponentPolicy, Choice | None] = {
        "random": random.choice,
        "first": _first,
        "last": _last,
        "middle": _middle,
        "self": None,
    }
    return choices[policy]


def _first(actions: Sequence[int]) -> int:
    return actions[0]


def _last(actions: Sequence[int]) -> int:
    return actions[-1]


def _middle(actions: Sequence[int]) -> int:
    return actions[len(actions) // 2]
