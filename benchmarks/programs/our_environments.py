"""The environments that only our server serves in the benchmark: with a rubric, and with pictures."""

from typing import Annotated, Any

import numpy as np

from benchmarks.programs.environment import EchoAction, EchoObservation, NonBlockingEchoEnvironment
from openenv import NDArray
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Observation, State
from openenv.core.rubrics import Rubric, WeightedSum

PARTS = 10
"""Parts of the rubric."""

PICTURE = (84, 84, 4)
"""Shape of a picture: four frames of a game, in grey."""


class Length(Rubric):
    """A tenth of the message's length."""

    def forward(self, action: EchoAction, observation: EchoObservation) -> float:
        """Score a message."""
        return 0.1 * len(observation.text)


class ScoredEchoEnvironment(NonBlockingEchoEnvironment):
    """Echoes messages, and scores each by a rubric of ten parts."""

    def __init__(self) -> None:
        super().__init__()
        self.rubric = WeightedSum([Length() for _ in range(PARTS)], [1 / PARTS] * PARTS)

    def step(self, action: EchoAction) -> EchoObservation:
        """Echo the message."""
        observation = super().step(action)
        observation.reward = self._apply_rubric(action, observation)
        return observation


class Screen(Observation):
    """A picture."""

    pixels: Annotated[np.ndarray[Any, Any], NDArray("uint8", PICTURE)]


class ScreenEnvironment(Environment[EchoAction, Screen, State]):
    """Shows the same picture in each step."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    BLOCKING = False

    def __init__(self) -> None:
        super().__init__()
        self._pixels = np.full(PICTURE, 80, np.uint8)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Screen:
        """Start an episode."""
        return Screen(pixels=self._pixels)

    def step(self, action: EchoAction) -> Screen:
        """Show the picture."""
        return Screen(pixels=self._pixels, reward=0.1)

    @property
    def state(self) -> State:
        """Nothing is counted."""
        return State()
