"""Rates: never more than a second's worth at once, nor more than the rate for long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.env_server.access.rate import Rate, Rates
from openenv.core.exceptions import RateLimitedError


class Clock:
    """Stands still until it is set on."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def passes(rate: Rate) -> bool:
    return rate.refusal() is None


@pytest.mark.parametrize(("per_s", "at_once"), [(100, 100), (3, 3), (2.5, 2), (1, 1), (0.01, 1)])
def test_a_second_s_worth_may_come_at_once(per_s: float, at_once: int) -> None:
    rate = Rate(per_s, Clock())
    assert [passes(rate) for _ in range(at_once + 1)] == [True] * at_once + [False]


@pytest.mark.parametrize("per_s", [1000, 3, 1, 0.1])
def test_whoever_waits_as_long_as_told_is_let_through(per_s: float) -> None:
    clock = Clock()
    rate = Rate(per_s, clock)
    while (error := rate.refusal()) is None:
        pass
    assert 0 < error.retry_after_s <= 1 / per_s + 1e-6
    clock.now += error.retry_after_s * 0.99
    assert not passes(rate)
    clock.now += error.retry_after_s * 0.01
    assert passes(rate)
    assert not passes(rate)


@given(st.lists(st.floats(0, 3), max_size=60), st.floats(0.5, 20))
def test_no_more_pass_than_the_rate_allows(pauses: list[float], per_s: float) -> None:
    clock = Clock()
    rate = Rate(per_s, clock)
    passed: list[float] = []
    for pause in pauses:
        clock.now += pause
        if passes(rate):
            passed.append(clock.now)
    for first, since in enumerate(passed):
        for last, until in enumerate(passed[first:], first):
            assert last - first + 1 <= max(1, per_s) + (until - since) * per_s + 1e-3


@given(st.floats(0.5, 20))
def test_whoever_keeps_to_the_rate_is_never_refused(per_s: float) -> None:
    clock = Clock()
    rate = Rate(per_s, clock)
    for _ in range(200):
        rate.check()
        clock.now += 1 / per_s
    assert passes(rate)


def test_refused_messages_do_not_count() -> None:
    clock = Clock()
    rate = Rate(1, clock)
    rate.check()
    for _ in range(100):
        with pytest.raises(RateLimitedError, match="takes 1 a second"):
            rate.check()
    clock.now += 1
    rate.check()


def test_clients_have_a_rate_each_and_are_forgotten() -> None:
    rates = Rates(0.001)
    rates.check("a")
    with pytest.raises(RateLimitedError):
        rates.check("a")
    rates.check("b")
    fast = Rates(1e9)
    for number in range(50_000):
        fast.check(str(number))
    assert len(fast) < 5_000
