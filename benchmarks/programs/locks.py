"""An environment whose tasks go from trivial to impossible: doors, of which each is opened by keys of its own."""

from typing import Literal, get_args

from openenv import Action, Environment, Observation, State

Key = Literal["red", "green", "blue", "white", "black", "brown", "pink", "grey"]
KEYS: tuple[Key, ...] = get_args(Key)

OPENING = (8, 8, 8, 8, 1, 1, 0, 0, 0, 0)
"""Number of the keys that open a door, by difficulty: any of them, then one, then none."""

DOORS_OF_EACH = 6
"""Number of doors of each difficulty."""

DIFFICULTIES = {door: door // DOORS_OF_EACH for door in range(len(OPENING) * DOORS_OF_EACH)}
"""Difficulty of each door."""


class Turn(Action):
    """Turn a key in the lock."""

    key: Key


class Door(Observation):
    """The door that is to be opened."""

    text: str


class LocksEnvironment(Environment[Turn, Door, State]):
    """Open a door with the first key that is tried: the reward is 1 if it opens the door, else 0."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def __init__(self) -> None:
        super().__init__()
        self._keys: tuple[Key, ...] = ()

    def reset(self, seed: int | None = None, door: int = 0, difficulty: int = 0) -> Door:
        """Go to a door of this difficulty."""
        self._keys = keys_of(door, difficulty)
        return Door(text=name_of(door))

    def step(self, action: Turn) -> Door:
        """Turn a key."""
        return Door(text="", reward=float(action.key in self._keys), done=True)

    @property
    def state(self) -> State:
        """Nothing that is of use."""
        return State()


def keys_of(door: int, difficulty: int) -> tuple[Key, ...]:
    """Return the keys that open a door: mostly other ones than those of the next door."""
    first = (door * door + door // 3) % len(KEYS)
    return (KEYS * 2)[first : first + OPENING[difficulty]]


def name_of(door: int) -> str:
    """Return the name of a door, a word that says nothing of its keys."""
    letters = "abcdefgh"
    return f"door{letters[door // len(letters)]}{letters[door % len(letters)]}"
