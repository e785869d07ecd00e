"""How many replicas there should be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import ConfigurationError
from openenv.fleet import Autoscaling

SCALING = Autoscaling(2, 10, free_share=0.2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"min_replicas": 0, "max_replicas": 2}, "min_replicas to be at least 1"),
        ({"min_replicas": 3, "max_replicas": 2}, "got 3 and 2"),
        ({"min_replicas": 1, "max_replicas": 2, "free_share": 0.95}, "free_share to be from 0 to 0.9"),
        ({"min_replicas": 1, "max_replicas": 2, "free_share": math.nan}, "free_share"),
        ({"min_replicas": 1, "max_replicas": 2, "calm_s": -1}, "calm_s to be 0 or more"),
        ({"min_replicas": 1, "max_replicas": 2, "calm_s": math.inf}, "calm_s"),
    ],
)
def test_bounds_that_make_no_sense(arguments: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Autoscaling(**arguments)  # type: ignore[arg-type]


def test_there_is_a_share_of_free_places() -> None:
    assert SCALING.needed(sessions=160, capacity=50) == 4
    assert SCALING.needed(sessions=161, capacity=50) == 5


def test_the_bounds_hold() -> None:
    assert SCALING.needed(0, 50) == 2
    assert SCALING.needed(10_000, 50) == 10
    assert [SCALING.within(count) for count in (0, 2, 7, 11)] == [2, 2, 7, 10]


def test_the_last_ones_are_kept() -> None:
    assert not SCALING.has_one_too_many(2, sessions=0, capacity=50)


def test_a_fleet_that_wants_most_places_free_still_shrinks_when_it_is_empty() -> None:
    scaling = Autoscaling(1, 4, free_share=0.9)
    assert scaling.has_one_too_many(4, sessions=0, capacity=50)
    assert not scaling.has_one_too_many(4, sessions=1, capacity=50)


@given(
    st.integers(1, 100), st.integers(0, 10_000), st.integers(1, 500), st.sampled_from([0.0, 0.1, 0.2, 0.35, 0.6, 0.9])
)
def test_what_is_taken_away_is_not_missed_at_once(replicas: int, sessions: int, capacity: int, share: float) -> None:
    scaling = Autoscaling(1, 100, free_share=share)
    if scaling.has_one_too_many(replicas, sessions, capacity):
        assert scaling.needed(sessions, capacity) <= replicas - 1
