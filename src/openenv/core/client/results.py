"""What a client's ``reset`` and ``step`` return."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")


@dataclass
class StepResult(Generic[ObsT]):
    """An observation with its reward and done flag.

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
