"""Chance that the rewards of a group differ."""

import pytest

from openenv.validation.statistical.variance import signal_of


@pytest.mark.parametrize("successes", range(9))
def test_of_two_rewards_it_is_that_of_the_public_formula(successes: int) -> None:
    p = successes / 8
    rewards = [1.0] * successes + [0.0] * (8 - successes)
    assert signal_of(rewards, size=8) == pytest.approx(1 - p**8 - (1 - p) ** 8)


def test_rewards_that_differ_by_rounding_are_the_same() -> None:
    assert signal_of([0.1 + 0.2, 0.3], size=4) == 0.0
