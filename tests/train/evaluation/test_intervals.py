"""Confidence intervals: known values, properties, and whether they hold the truth as often as they say."""

import random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.train.evaluation.intervals import Estimate, mean_estimate, share_estimate

REWARDS = st.floats(-1e6, 1e6)
SHARES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=30)


def test_a_mean_is_that_of_students_t() -> None:
    # 2.776 is the tabled quantile for 4 degrees of freedom.
    estimate = mean_estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.776445 * (2.5 / 5) ** 0.5
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((3.0, 3 - half, 3 + half), abs=1e-5)


@given(st.lists(st.lists(REWARDS, min_size=3, max_size=3), min_size=2, max_size=8))
def test_the_error_of_task_means_is_clustered_by_task(rewards: list[list[float]]) -> None:
    """Against the usual formula: the squared sums of each cluster's residuals, with its small-sample factor."""
    table = np.array(rewards)
    tasks, samples = table.shape
    sums = (table - table.mean()).sum(axis=1)
    clustered = np.sqrt((sums**2).sum() * tasks / (tasks - 1)) / (tasks * samples)
    estimate = mean_estimate([fmean(row) for row in rewards])
    reference = mean_estimate([0.0, 1.0] + [0.5] * (tasks - 2))
    assert reference.high is not None
    assert estimate.high is not None
    unit = (reference.high - 0.5) / np.std([0.0, 1.0] + [0.5] * (tasks - 2), ddof=1) * tasks**0.5
    assert estimate.high - estimate.value == pytest.approx(unit * clustered, rel=1e-6, abs=1e-6)


@given(st.lists(REWARDS, min_size=2, max_size=20), st.floats(-100, 100))
def test_a_mean_moves_with_its_values(values: list[float], shift: float) -> None:
    here, there = mean_estimate(values), mean_estimate([value + shift for value in values])
    assert here.low is not None
    assert there.low is not None
    assert there.value - here.value == pytest.approx(shift, abs=1e-4)
    assert there.low - here.low == pytest.approx(shift, abs=1e-4)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20))
def test_an_interval_of_rewards_ends_at_their_bounds_and_nowhere_else(values: list[float]) -> None:
    free, bounded = mean_estimate(values), mean_estimate(values, (-1.0, 1.0))
    assert None not in (free.low, free.high, bounded.low, bounded.high)
    assert bounded.low == min(bounded.value, max(-1.0, free.low or 0.0))
    assert bounded.high == max(bounded.value, min(1.0, free.high or 0.0))


def test_one_task_has_no_interval_of_rewards() -> None:
    assert mean_estimate([0.5]) == Estimate(0.5)
    assert str(mean_estimate([0.5])) == "0.500"


@pytest.mark.parametrize(
    ("won", "tasks", "low", "high"),
    # From the tables of Newcombe (1998), method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_single_attempts_have_wilsons_interval(won: int, tasks: int, low: float, high: float) -> None:
    estimate = share_estimate([1.0] * won + [0.0] * (tasks - won), attempts=tasks)
    assert estimate.low == pytest.approx(low, abs=2e-4)
    assert estimate.high == pytest.approx(high, abs=2e-4)


@given(SHARES, st.integers(1, 50))
def test_a_share_stays_between_none_and_all_and_is_never_certain(values: list[float], samples: int) -> None:
    estimate = share_estimate(values, samples * len(values))
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert estimate.high - estimate.low > 0.001
    mirrored = share_estimate([1 - value for value in values], samples * len(values))
    assert mirrored.high == pytest.approx(1 - estimate.low)


@given(SHARES, st.integers(1, 50))
def test_more_attempts_at_the_same_tasks_never_widen_a_share(values: list[float], samples: int) -> None:
    few, many = (share_estimate(values, count * len(values)) for count in (samples, samples + 1))
    assert few.low is not None
    assert many.low is not None
    assert many.low >= few.low - 1e-12


def test_no_tasks_are_no_estimate() -> None:
    for estimate in (mean_estimate, lambda values: share_estimate(values, 0)):
        with pytest.raises(ValueError, match="at least one task; got none"):
            estimate([])


@pytest.mark.level("files")
@pytest.mark.parametrize(("tasks", "samples"), [(20, 1), (30, 4), (100, 8)])
def test_intervals_hold_the_truth_about_as_often_as_they_say(tasks: int, samples: int) -> None:
    """A thousand evaluations of a player whose chance differs from task to task, 0.5 in the mean."""
    source = random.Random(7)
    held = {"mean": 0, "share": 0}
    for _ in range(1000):
        chances = [source.betavariate(1.5, 1.5) for _ in range(tasks)]
        means = [fmean(source.random() < chance for _ in range(samples)) for chance in chances]
        for name, estimate in (("mean", mean_estimate(means)), ("share", share_estimate(means, tasks * samples))):
            assert estimate.low is not None
            assert estimate.high is not None
            held[name] += estimate.low <= 0.5 <= estimate.high
    assert all(925 <= count <= 985 for count in held.values()), held
