"""A game in which no step can be lost or doubled unseen, alone and with every kind of mischief."""

import ctypes
import re
import threading
from collections import Counter
from typing import ClassVar
from zlib import crc32

from pydantic import Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

LENGTH = 8
"""Steps of an episode."""

_LEAKED_BYTES = 32 * 1024 * 1024
_MODULUS = 2**61 - 1


class Move(Action):
    """Mix a number into the value."""

    amount: int = Field(strict=True)  # as the schema says, which knows no boolean that is a number


class Position(Observation):
    """How many moves were made, and what they came to."""

    steps: int
    value: int


class ChainEnvironment(Environment[Move, Position, State]):
    """Each reward depends on the seed and on every move before: one move more or less changes all that follow.

    Attributes:
        calls: What was done in this process, by episode: ``"<episode>/reset"``, ``"<episode>/1"`` for its first step...
    """

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_RESET = True
    BLOCKING = False
    calls: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0
        self.value = 0
        self.episode = ""

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Position:
        # Whatever comes over the wire as a seed makes an episode: this environment never fails by itself.
        self.steps, self.value, self.episode = 0, crc32(repr(seed).encode()), str(episode_id)
        self.calls[f"{self.episode}/reset"] += 1
        return self._observe()

    def step(self, action: Move) -> Position:
        self.steps += 1
        self.calls[f"{self.episode}/{self.steps}"] += 1
        self.value = (self.value * 6364136223846793005 + action.amount) % _MODULUS
        return self._observe(reward=self.value % 1000 / 1000)

    @property
    def state(self) -> State:
        return State(episode_id=self.episode, step_count=self.steps)

    def _observe(self, reward: float | None = None) -> Position:
        return Position(steps=self.steps, value=self.value, reward=reward, done=self.steps >= LENGTH)


class ThreadedChainEnvironment(ChainEnvironment):
    """The same in a thread of its own."""

    BLOCKING = True


class MischievousChainEnvironment(ThreadedChainEnvironment):
    """The same, but an episode may come to a bad end in its third step."""

    hoard: ClassVar[list[bytearray]] = []

    def __init__(self) -> None:
        super().__init__()
        self.mischief = "none"

    def reset(self, seed: int | None = None, episode_id: str | None = None, mischief: str = "none") -> Position:
        self.mischief = mischief
        return super().reset(seed, episode_id)

    def step(self, action: Move) -> Position:
        if self.steps == 2:
            self._misbehave()
        return super().step(action)

    def _misbehave(self) -> None:
        match self.mischief:
            case "raise":
                raise ValueError("kaboom")
            case "hang":
                threading.Event().wait()
            case "hang in C":
                re.match(r"(a+)+$", "a" * 60 + "b")
            case "leak":
                self.hoard.append(bytearray(b"x") * _LEAKED_BYTES)
            case "segfault":
                ctypes.string_at(0)
