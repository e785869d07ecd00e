"""Step 8 environments with pictures as a Gymnasium vector, ours or Gymnasium's own; print the rate as JSON."""

import argparse
import json
import time
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, VectorEnv

from benchmarks.programs.pictures import SHAPE, PicturesEnv
from openenv.adapters.gymnasium import GymnasiumVectorEnv

ENVIRONMENTS = 8
WARM_UP_STEPS = 20


def rate(vector: VectorEnv[Any, Any, Any], steps: int) -> float:
    """Return the steps per second of all environments together."""
    actions = np.ones(ENVIRONMENTS, np.int64)
    vector.reset()
    for _ in range(WARM_UP_STEPS):
        vector.step(actions)
    started = time.perf_counter()
    for _ in range(steps):
        observations, *_ = vector.step(actions)
    seconds = time.perf_counter() - started
    assert observations.shape == (ENVIRONMENTS, *SHAPE), observations.shape
    vector.close()
    return ENVIRONMENTS * steps / seconds


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", help="Address of our server; without it, Gymnasium's processes.")
    parser.add_argument("--steps", type=int, required=True)
    arguments = parser.parse_args()
    if arguments.url is None:
        driven: VectorEnv[Any, Any, Any] = AsyncVectorEnv([PicturesEnv] * ENVIRONMENTS)
    else:
        driven = GymnasiumVectorEnv(arguments.url, ENVIRONMENTS)
    print(json.dumps(rate(driven, arguments.steps)))
