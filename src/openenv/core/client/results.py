"""What a client's ``reset`` and ``step`` return."""

from collections.abc import Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, Self

from typing_extensions import TypeVar

from openenv.core.wire.results import REWARD_SIGNALS, REWARD_WEIGHTS, STEP_REWARDS
from openenv.core.wire.types import State

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT", default=State)  # clients of 0.1 name two classes


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
