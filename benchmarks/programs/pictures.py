"""A Gymnasium environment whose observations are pictures, as learners on Atari have them."""

from typing import Any

import gymnasium
import numpy as np

ID = "OpenEnvBenchmarkPictures-v0"
"""Gymnasium's id of it, once ``register`` was called."""

SHAPE = (84, 84, 4)
"""Four frames of a game, in grey."""

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


class PicturesEnv(gymnasium.Env[Pixels, np.int64]):
    """Shows one of two pictures. A step costs next to nothing."""

    observation_space = gymnasium.spaces.Box(0, 255, SHAPE, np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._pictures = [np.full(SHAPE, grey, np.uint8) for grey in (80, 160)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Pixels, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        return self._pictures[0], {}

    def step(self, action: np.int64) -> tuple[Pixels, float, bool, bool, dict[str, Any]]:
        """Show the picture of an action."""
        return self._pictures[int(action)], 0.1, False, False, {}


def register() -> None:
    """Make the environment known to Gymnasium."""
    gymnasium.register(ID, f"{__name__}:{PicturesEnv.__name__}")
