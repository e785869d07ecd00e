"""Means over tasks, with 95% confidence intervals.

A task is drawn from many like it; attempts at one task are not independent of each other. So what counts is one value
for each task, the mean over its attempts, and an interval is as wide as these values differ: a hundred attempts at ten
tasks count as ten tasks.
"""

from collections.abc import Sequence
from math import inf, sqrt
from statistics import NormalDist, fmean, variance

from openenv.records.evaluation import Estimate

__all__ = ["NO_BOUNDS", "Estimate", "mean_estimate", "share_estimate"]

CONFIDENCE = 0.95
NO_BOUNDS = (-inf, inf)


def mean_estimate(values: Sequence[float], bounds: tuple[float, float] = NO_BOUNDS) -> Estimate:
    """Estimate the mean of one value for each task with Student's t distribution, whose interval ends at the bounds.

    Example:
        >>> print(mean_estimate([0.0, 1.0, 0.5, 0.5]))
        0.500 [-0.150, 1.150]
        >>> print(mean_estimate([0.0, 1.0, 0.5, 0.5], bounds=(0.0, 1.0)))
        0.500 [0.000, 1.000]
    """
    # Where every task was tried equally often, the standard error is the one that is clustered by task (Miller, 2024,
    # https://arxiv.org/abs/2411.00640).
    mean = _mean(values)
    if len(values) == 1:
        return Estimate(mean)
    from scipy.special import stdtrit  # type: ignore[import-untyped]  # an import of this module should not wait for it

    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * sqrt(variance(values) / len(values))
    return _within(bounds, mean, mean - half, mean + half)


def share_estimate(values: Sequence[float], attempts: int) -> Estimate:
    """Estimate the mean of what lies between 0 and 1, such as shares of successes, with Wilson's interval.

    The interval stays between 0 and 1, and has a width even where all tasks succeed. It takes the number of independent
    attempts that would vary as the tasks do: at least that of the tasks, at most that of the attempts.

    Args:
        values: One share for each task.
        attempts: How many attempts there were at all tasks together.

    Returns:
        The mean and its interval.

    Raises:
        ValueError: There are no values.

    Example:
        >>> print(share_estimate([1.0] * 10, attempts=10))
        1.000 [0.722, 1.000]
    """
    mean = _mean(values)
    count = _independent_attempts(mean, values, attempts)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    middle = mean + z * z / (2 * count)
    half = z * sqrt(mean * (1 - mean) / count + (z / (2 * count)) ** 2)
    scale = 1 + z * z / count
    return _within((0.0, 1.0), mean, (middle - half) / scale, (middle + half) / scale)


def _within(bounds: tuple[float, float], mean: float, low: float, high: float) -> Estimate:
    """Return the interval within bounds; rounding must not put the mean outside."""
    return Estimate(mean, min(mean, max(bounds[0], low)), max(mean, min(bounds[1], high)))


def _mean(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("expected the value of at least one task; got none")
    return fmean(values)


def _independent_attempts(mean: float, values: Sequence[float], attempts: int) -> float:
    tasks = len(values)
    if tasks == 1 or mean in (0.0, 1.0):
        return tasks
    squared_error = variance(values) / tasks
    most = max(tasks, attempts)
    if squared_error * most <= mean * (1 - mean):
        return most
    return max(tasks, mean * (1 - mean) / squared_error)
