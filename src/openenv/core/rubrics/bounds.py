"""Rewards beside bounds: whether a reward reaches one, and the range of rewards."""

import math
from collections.abc import Iterable

__all__ = ["highest_within", "lowest_reaching", "reaches", "reward_range"]

# Weights of 0.6, 0.3 and 0.1 sum to 0.9999999999999999, and sums of 32 bits are off by more. Relative above 1.
_TOLERANCE = 1e-6


def reaches(reward: float, bound: float) -> bool:
    """Return whether a reward is a bound or above it, but for rounding.

    Args:
        reward: The reward.
        bound: The bound.

    Example:
        >>> reaches(0.6 + 0.3 + 0.1, 1.0), reaches(0.999, 1.0)
        (True, False)
    """
    return reward >= lowest_reaching(bound)


def lowest_reaching(bound: float) -> float:
    """Return the lowest reward that reaches a bound."""
    return bound - _tolerance(bound)


def highest_within(bound: float) -> float:
    """Return the highest reward that is no more than a bound, but for rounding."""
    return bound + _tolerance(bound)


def reward_range(rewards: Iterable[float]) -> tuple[float, float]:
    """Return the range that rewards have, which no environment declares: 0 to 1, -1 to 1, or no bounds.

    Args:
        rewards: All rewards that there are.

    Returns:
        The narrowest of the three that has all of them.

    Example:
        >>> reward_range([0.25, 1.0]), reward_range([1.0, -0.5]), reward_range([7.0])
        ((0.0, 1.0), (-1.0, 1.0), (-inf, inf))
    """
    known = list(rewards)
    for low in (0.0, -1.0):
        if all(reaches(reward, low) and reaches(1.0, reward) for reward in known):
            return low, 1.0
    return -math.inf, math.inf


def _tolerance(bound: float) -> float:
    return _TOLERANCE * max(1.0, abs(bound)) if math.isfinite(bound) else 0.0
