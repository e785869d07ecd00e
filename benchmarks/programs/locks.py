"""An environment whose tasks go from trivial to impossible: locks in a row, each with a key of its own."""

from typing import Literal, get_args

from openenv import Action, Environment, Observation, State

Key = Literal["red", "green", "blue"]
KEYS: tuple[Key, ...] = get_args(Key)
TRIVIAL = 0
"""The difficulty at which any key opens the door."""

LOCKS = 5
"""Locks of the hardest door that can be opened; of the difficulties from 1 on, each has as many."""

IMPOSSIBLE = range(LOCKS + 1, LOCKS + 6)
"""Difficulties of doors that no key opens."""

DIFFICULTIES = range(IMPOSSIBLE.stop)
SOLVABLE = range(LOCKS + 1)


class Turn(Action):
    """Turn a key in the lock."""

    key: Key


class Lock(Observation):
    """The lock that one stands before."""

    text: str


class LocksEnvironment(Environment[Turn, Lock, State]):
    """Open the locks of a door with their keys. A wrong key ends the episode; the reward of an open door is 1."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def __init__(self) -> None:
        super().__init__()
        self._difficulty = self._opened = 0

    def reset(self, seed: int | None = None, difficulty: int = 1) -> Lock:
        """Go to a door of this difficulty."""
        self._difficulty, self._opened = difficulty, 0
        return self._seen()

    def step(self, action: Turn) -> Lock:
        """Turn a key."""
        if self._difficulty == TRIVIAL:
            return self._seen(reward=1.0, done=True)
        if self._difficulty in IMPOSSIBLE or action.key != key_of(self._opened):
            return self._seen(reward=0.0, done=True)
        self._opened += 1
        is_open = self._opened == self._difficulty
        return self._seen(reward=float(is_open), done=is_open)

    def _seen(self, reward: float | None = None, *, done: bool = False) -> Lock:
        return Lock(text=f"lock {self._opened}", reward=reward, done=done)

    @property
    def state(self) -> State:
        """Number of the locks that were opened."""
        return State(step_count=self._opened)


def key_of(lock: int) -> Key:
    """Return the key of a lock, the first of which is 0."""
    return KEYS[(lock * lock + lock // 2) % len(KEYS)]
