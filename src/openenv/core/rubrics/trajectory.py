"""Rewards that are known at the end of an episode, and the credit that its steps get."""

import math
import sys
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from openenv.core.rubrics.base import Rubric

__all__ = ["ExponentialDiscountingTrajectoryRubric", "TrajectoryRubric"]


class TrajectoryRubric(Rubric):
    """Score of a whole episode, given with its last observation; ``reset`` begins the next episode.

    Subclasses define ``score_trajectory`` and ``compute_step_rewards``. Where the rubric of an environment is one, the
    last step's metadata hold the step rewards as ``step_rewards``.

    Args:
        intermediate_reward: Score of every step before the last.
    """

    def __init__(self, intermediate_reward: float = 0.0) -> None:
        super().__init__()
        self.intermediate_reward = intermediate_reward
        self._trajectory: list[tuple[Any, Any]] = []
        # Whether ``last_score`` is the trajectory's.
        self._is_scored = False

    def forward(self, action: Any, observation: Any) -> Any:
        """Add the step to the trajectory, and score the trajectory where the observation is the last."""
        self._trajectory.append((action, observation))
        self._is_scored = _is_last(observation)
        return self.score_trajectory(self._trajectory) if self._is_scored else self.intermediate_reward

    @abstractmethod
    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        """Return the score of an episode.

        Args:
            trajectory: The action and the observation of each step.
        """

    @abstractmethod
    def compute_step_rewards(self) -> list[float]:
        """Return the reward of each step of the trajectory, once it is complete."""

    def reset(self) -> None:
        """Begin an episode: forget the trajectory."""
        super().reset()
        self._trajectory = []
        self._is_scored = False

    @property
    def trajectory(self) -> list[tuple[Any, Any]]:
        """A copy of the steps since the last reset."""
        return list(self._trajectory)

    def state_dict(self) -> dict[str, Any]:
        """Return the settings."""
        return {"intermediate_reward": self.intermediate_reward}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the settings."""
        self.intermediate_reward = state.get("intermediate_reward", self.intermediate_reward)

    def episode_state(self) -> Any:
        """Return the trajectory, for a snapshot."""
        return [[_written(action), _written(observation)] for action, observation in self._trajectory] or None

    def load_episode_state(self, state: Any) -> None:
        """Restore the trajectory."""
        self._trajectory = [(_read(action), _read(observation)) for action, observation in state or []]


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """Score of a whole episode, of which earlier steps get less: step ``t`` of ``T`` gets ``score * gamma**(T-1-t)``.

    Args:
        gamma: Factor for each step before the last, from 0 to 1.
        intermediate_reward: Score of every step before the last, at the time of the step.

    Raises:
        ValueError: ``gamma`` is not from 0 to 1.
    """

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        super().__init__(intermediate_reward)
        if not 0.0 <= gamma <= 1.0:
            raise ValueError(f"gamma must be in [0, 1], got {gamma}")
        self.gamma = gamma

    def compute_step_rewards(self) -> list[float]:
        """Return the discounted score for each step; none before the first step."""
        if not self._trajectory:
            return []
        is_known = self._is_scored and self.last_score is not None
        score = self.last_score if is_known else self.score_trajectory(self._trajectory)
        assert score is not None
        last = len(self._trajectory) - 1
        return [score * math.pow(self.gamma, last - step) for step in range(last + 1)]

    def state_dict(self) -> dict[str, Any]:
        """Return the settings."""
        return {**super().state_dict(), "gamma": self.gamma}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the settings."""
        super().load_state_dict(state)
        self.gamma = state.get("gamma", self.gamma)


def _is_last(observation: Any) -> bool:
    if isinstance(observation, Mapping):
        return bool(observation.get("done", False))
    return bool(getattr(observation, "done", False))


def _written(value: Any) -> Any:
    """Return an action or observation in a form for JSON; a model with its class's name."""
    if isinstance(value, BaseModel):
        return {
            "model": f"{type(value).__module__}:{type(value).__qualname__}",
            "fields": value.model_dump(mode="json"),
        }
    return {"value": value}


def _read(written: Mapping[str, Any]) -> Any:
    """Return the value of ``_written``. Only classes that are loaded are used: a snapshot imports no code."""
    if "model" not in written:
        return written["value"]
    module, _, name = written["model"].partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or not issubclass(found, BaseModel):
        raise LookupError(f"Expected the class {written['model']} of a snapshot to be loaded; it is not.")
    return found.model_validate(written["fields"])
