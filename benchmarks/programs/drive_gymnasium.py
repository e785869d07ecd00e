"""Step 64 environments, each in a process at the end of a pipe, with Gymnasium's own vector; print the rate as JSON."""

import argparse
import json
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from benchmarks.programs.drive_client import SESSIONS


class TrivialEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Echoes its action. A step costs next to nothing."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Echo the action."""
        return np.array([action], np.float32), 0.1, False, False, {}


def rate(steps: int) -> float:
    """Return the steps per second of all environments together."""
    vector = AsyncVectorEnv([TrivialEnv] * SESSIONS)
    vector.reset()
    actions = np.ones(SESSIONS, np.int64)
    started = time.perf_counter()
    for _ in range(steps):
        vector.step(actions)
    seconds = time.perf_counter() - started
    vector.close()
    return SESSIONS * steps / seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    print(json.dumps(rate(parser.parse_args().steps)))
