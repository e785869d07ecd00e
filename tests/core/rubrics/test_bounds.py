"""Rewards beside bounds: what rounding leaves of a reward still reaches, and what is really lower does not."""

import math
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.rubrics import Gate, Rubric, WeightedSum
from openenv.core.rubrics.bounds import highest_within, lowest_reaching, reaches, reward_range

REWARDS = st.floats(-1e6, 1e6)


class Full(Rubric):
    """Scores 1."""

    def forward(self, action: object, observation: object) -> float:
        return 1.0


@pytest.mark.parametrize("weights", [(0.6, 0.3, 0.1), (0.1,) * 10, (1 / 3, 1 / 3, 1 / 3), (0.7, 0.2, 0.1)])
def test_a_sum_of_weights_reaches_what_they_sum_to(weights: tuple[float, ...]) -> None:
    total = WeightedSum([Full() for _ in weights], weights)
    assert reaches(total(None, None), 1.0)
    assert reaches(-1.0, -total(None, None))
    assert Gate(total)(None, None) == total(None, None)


@given(REWARDS, REWARDS)
def test_what_is_lower_by_more_than_rounding_does_not_reach(reward: float, bound: float) -> None:
    assert reaches(reward, bound) == (reward >= lowest_reaching(bound))
    if reward >= bound:
        assert reaches(reward, bound)
    if reward < bound - 2e-6 * max(1, abs(bound)):
        assert not reaches(reward, bound)
        assert highest_within(reward) < bound


def test_bounds_may_be_infinite() -> None:
    assert reaches(0.0, -inf)
    assert reaches(inf, inf)
    assert not reaches(1e300, inf)
    assert (lowest_reaching(-inf), highest_within(inf)) == (-inf, inf)


@given(st.lists(REWARDS, min_size=1))
def test_a_range_has_all_rewards(rewards: list[float]) -> None:
    low, high = reward_range(rewards)
    assert all(reaches(reward, low) and reaches(high, reward) for reward in rewards)
    assert (low, high) in [(0.0, 1.0), (-1.0, 1.0), (-inf, inf)]


def test_a_reward_above_1_by_rounding_leaves_the_range() -> None:
    above = math.nextafter(1.0, 2.0)
    assert reward_range([0.0, above]) == (0.0, 1.0)
    assert reward_range([-above, 0.5]) == (-1.0, 1.0)
