"""What the tests of the adapter serve."""

from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

LENGTH = 7


class Move(Action):
    """One way along a path; ``trip`` makes the environment fail."""

    way: Literal["left", "right", "trip"]


class Place(Observation):
    """Where the walker is, and what is around it."""

    position: int = Field(ge=-LENGTH, le=LENGTH)
    around: tuple[bool, bool]
    name: str


class WalkEnvironment(Environment[Move, Place, State]):
    """Ends by itself seven places to the left or right of the start, is cut off after nine steps."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def __init__(self) -> None:
        super().__init__()
        self._position = self._steps = self._walks = 0

    def reset(self, seed: int | None = None, start: int = 0) -> tuple[Place, dict[str, Any]]:
        if abs(start) > LENGTH:
            raise ValueError("off the path")
        self._position = start if seed is None else seed % 5 - 2
        self._steps = 0
        self._walks += 1
        return self._place(), {"walks": self._walks}

    def step(self, action: Move) -> tuple[Place, float, bool, bool, dict[str, Any]]:
        if action.way == "trip":
            raise RuntimeError("the walker tripped")
        self._position += 1 if action.way == "right" else -1
        self._steps += 1
        terminated = abs(self._position) == LENGTH
        info: dict[str, Any] = {"steps": self._steps, "legs": {"left": 0.5 * self._steps}, "nothing": None}
        if self._steps % 2:
            info["odd"] = f"step {self._steps}"
        return self._place(), 0.25 * self._position, terminated, self._steps == 9, info

    def _place(self) -> Place:
        name = "the end — fin" if abs(self._position) == LENGTH else ""
        return Place(position=self._position, around=(self._position > -LENGTH, self._position < LENGTH), name=name)

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


class Gear(Enum):
    """Names and numbers, as no single type of JSON."""

    LOW = "low"
    HIGH = 2


class Wheels(BaseModel):
    """A model within a model."""

    angle: float = Field(gt=-0.7, lt=0.7)
    brakes: Annotated[list[bool], Field(min_length=2, max_length=2)]


class Drive(Action):
    """A field of every kind that has a space; only required ones count."""

    gear: Gear
    lamp: bool
    seat: int = Field(ge=3, lt=9)
    throttle: float = Field(ge=0, le=0.1)
    mirrors: tuple[Annotated[float, Field(ge=-1, le=0.3)], float]
    radio: Annotated[list[Annotated[int, Field(ge=1, le=9, multiple_of=2)]], Field(min_length=3, max_length=3)]
    wheels: Wheels
    shout: str = Field(min_length=1, max_length=5)
    distance: int
    board: Annotated[
        list[Annotated[list[Literal["x", "o", ""]], Field(min_length=2, max_length=2)]],
        Field(min_length=2, max_length=2),
    ]
    note: dict[str, Any] | None = None


class Driven(Observation):
    """The action, as it was understood."""

    gear: Gear
    lamp: bool
    seat: int = Field(ge=3, lt=9)
    throttle: float
    mirrors: tuple[float, float]
    radio: Annotated[list[int], Field(min_length=3, max_length=3)]
    wheels: Wheels
    shout: str
    distance: int
    board: Annotated[
        list[Annotated[list[Literal["x", "o", ""]], Field(min_length=2, max_length=2)]],
        Field(min_length=2, max_length=2),
    ]


STANDING = Driven(
    gear=Gear.LOW,
    lamp=False,
    seat=3,
    throttle=0.0,
    mirrors=(0.0, 0.0),
    radio=[1, 1, 1],
    wheels=Wheels(angle=0.0, brakes=[True, True]),
    shout="",
    distance=0,
    board=[["", ""], ["", ""]],
)


class DriveEnvironment(Environment[Drive, Driven, State]):
    """Shows each action as its observation."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def reset(self) -> Driven:
        return STANDING

    def step(self, action: Drive) -> Driven:
        fields = {name: getattr(action, name) for name in Driven.model_fields if name in Drive.model_fields}
        return Driven(**{**fields, "metadata": {}}, reward=1)

    @property
    def state(self) -> State:
        return State()


class Free(Observation):
    """An observation that has no space by itself."""

    legal: list[int]


class FreeEnvironment(Environment[Move, Free, State]):
    """Shows a list of any length; ends after two steps, without telling how."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False
    REQUIRES_RESET = True

    def __init__(self) -> None:
        super().__init__()
        self._legal: list[int] = []

    def reset(self) -> Free:
        self._legal = [3, 1]
        return Free(legal=self._legal, reward=5.0)

    def step(self, action: Move) -> Free:
        self._legal = self._legal[1:]
        return Free(legal=self._legal, done=not self._legal, reward=0.0, metadata={"truncated": True})

    @property
    def state(self) -> State:
        return State()
