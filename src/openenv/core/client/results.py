"""Results of a client's methods, which may be awaited where the call has blocked."""

import math
from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass
from functools import cache
from types import new_class
from typing import Any, Generic, NoReturn, Self, SupportsIndex, cast

from typing_extensions import TypeVar

from openenv.core.exceptions import InvalidRewardError, MissingRewardError
from openenv.core.wire.results import (
    CPU_SECONDS,
    PARTICIPANTS,
    REWARD_SIGNALS,
    REWARD_WEIGHTS,
    STEP_REWARDS,
    ParticipantUsage,
    participants_of,
)
from openenv.core.wire.types import State

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT", default=State)  # clients of 0.1 name two classes
ResultT = TypeVar("ResultT")

# Classes whose objects keep their class, so that one of a class below it is made of their value.
_BUILT_IN = (dict, list, tuple, str, bytes, int, float)


class Done:
    """Result of a call that has blocked, which may be awaited all the same.

    ``asyncio.run(client.reset())`` calls the method where no event loop runs, and hands on what that returns.
    """

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, Self]:
        """Return itself."""
        yield from ()
        return self

    def __next__(self) -> NoReturn:
        """End as a coroutine does: a task calls this, which needs no public ``send`` then."""
        raise StopIteration(self)


Coroutine.register(Done)


class _DoneAs(Done):
    """Base of the classes that add the awaiting to another class, and are that class in all other respects."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Be copied and pickled as an object of the other class."""
        reduced = super().__reduce_ex__(protocol)
        if isinstance(reduced, str):
            return reduced
        made_by, arguments, *contents = reduced
        return made_by, tuple(self.__class__ if each is type(self) else each for each in arguments), *contents


def awaitable(result: ResultT) -> ResultT:
    """Return what a blocking call gave so that it may be awaited, too.

    Its ``__class__``, equality, text, copies and pickles stay those of its class; its ``type`` is a class below that.
    ``None``, ``True`` and ``False`` stay as they are, as Python has no classes below theirs.
    """
    cls: type = type(result)
    done_class = None if isinstance(result, Done) else _done_class(cls)
    if done_class is None:
        return result
    if cls in _BUILT_IN:
        return cast("ResultT", done_class(result))
    try:
        object.__setattr__(result, "__class__", done_class)
    except TypeError:  # an object of a class in C
        return result
    return result


@cache
def _done_class(cls: type) -> type | None:
    """Make the class below another one whose objects may be awaited; ``None`` where there can be none."""
    members: dict[str, Any] = {
        "__class__": property(lambda _: cls),
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        "__slots__": (),
    }
    if getattr(cls, "__hash__", None) is None:
        members["__hash__"] = object.__hash__  # for asyncio.gather
    try:
        return new_class(cls.__name__, (cls, _DoneAs), exec_body=lambda namespace: namespace.update(members))
    except TypeError:  # bool, NoneType, an enumeration
        return None


class Nothing(Done):
    """Result of a call that has blocked and returns nothing; ``None`` can't be awaited."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Say that it is done."""
        return "<done>"

    def __bool__(self) -> bool:
        """Be false, as ``None`` is."""
        return False

    def __next__(self) -> NoReturn:
        """End as a coroutine without a result does."""
        raise StopIteration


@dataclass
class StepResult(Done, Generic[ObsT]):
    """An observation with its reward and done flag.

    It may be awaited, which gives itself: ``asyncio.run(client.reset())`` is as good as ``client.reset()``.

    Attributes:
        observation: What the environment shows.
        reward: The reward of this step; ``None`` where the environment gives none, as after a reset.
        done: Whether the episode has ended.
        metadata: What the environment reported beside the observation.
    """

    observation: ObsT
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None

    def __hash__(self) -> int:
        """Hash it, for ``asyncio.gather`` of results that are there already."""
        return hash((self.reward, self.done))

    @property
    def reward_error(self) -> MissingRewardError | InvalidRewardError | None:
        """The error of a result without a reward that ends its episode, or with one that is no finite number."""
        reward: Any = self.reward  # of another server, anything
        if reward is None:
            return MissingRewardError() if self.done else None
        is_number = isinstance(reward, int | float) and math.isfinite(reward)
        return None if is_number else InvalidRewardError(reward)

    @property
    def counted_reward(self) -> float:
        """The reward as a number to add up: 0 where a step before the episode's end has none.

        Raises:
            InvalidAnswerError: The result ends the episode and has no reward, or it is no finite number: a failure, and
                no reward of 0.
        """
        error = self.reward_error
        if error is not None:
            raise error
        return 0.0 if self.reward is None else float(self.reward)

    @property
    def reward_components(self) -> dict[str, float]:
        """Scores of the reward's components that were called in this step, by name; empty without a rubric."""
        return _numbers(self._reported(REWARD_SIGNALS))

    @property
    def reward_weights(self) -> dict[str, float]:
        """Weights of the components that the reward is a weighted sum of, by name."""
        return _numbers(self._reported(REWARD_WEIGHTS))

    @property
    def step_rewards(self) -> list[float] | None:
        """The credit of each step of the episode, at its end, where the environment has a trajectory rubric."""
        rewards = self._reported(STEP_REWARDS)
        if not isinstance(rewards, list) or not all(map(_is_number, rewards)):
            return None
        return [float(each) for each in rewards]

    @property
    def participants(self) -> dict[str, ParticipantUsage]:
        """Usage of the environment's participants, such as a user or an opponent, in the episode so far, by name."""
        return participants_of(self._reported(PARTICIPANTS))

    @property
    def cpu_s(self) -> float | None:
        """Seconds of CPU that the environment has used in the episode; ``None`` where its server measures none."""
        seconds = self._reported(CPU_SECONDS)
        return float(seconds) if _is_number(seconds) and 0 <= seconds < math.inf else None

    def _reported(self, name: str) -> Any:
        """Return a value of the metadata; a public server sends them in the observation."""
        metadata = self.metadata
        if metadata is None:
            shown = self.observation
            metadata = shown.get("metadata") if isinstance(shown, Mapping) else getattr(shown, "metadata", None)
        return metadata.get(name) if isinstance(metadata, Mapping) else None


def _numbers(values: Any) -> dict[str, float]:
    """Return the numbers among named values, which an environment may have written without a rubric."""
    if not isinstance(values, Mapping):
        return {}
    return {str(name): float(value) for name, value in values.items() if _is_number(value)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
