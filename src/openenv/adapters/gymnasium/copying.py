"""Copies of environments that go on from where they are."""

import copy
from typing import Any, TypeVar

from gymnasium.utils import EzPickle

from openenv.core.exceptions import EnvironmentFailedError

__all__ = ["deep_copy"]

EnvironmentT = TypeVar("EnvironmentT")


def deep_copy(environment: EnvironmentT, unwrapped: Any, memo: dict[int, Any]) -> EnvironmentT:
    """Copy an environment as ``copy.deepcopy`` would, for its ``__deepcopy__``.

    Args:
        environment: The environment.
        unwrapped: The library's environment, without its wrappers.
        memo: What ``copy.deepcopy`` has copied already.

    Raises:
        EnvironmentFailedError: The copy would be a new one that was never reset: that is how ``EzPickle`` pickles
            environments, and ``copy.deepcopy`` does as pickling does.
    """
    if isinstance(unwrapped, EzPickle):
        raise EnvironmentFailedError(
            f"a copy of {type(unwrapped).__name__} would start from the beginning, as EzPickle makes it"
        )
    twin = object.__new__(type(environment))
    memo[id(environment)] = twin
    twin.__dict__.update(copy.deepcopy(environment.__dict__, memo))
    return twin
