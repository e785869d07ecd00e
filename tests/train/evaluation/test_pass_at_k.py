"""pass@k and pass^k, against counting."""

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.train.evaluation.pass_at_k import pass_at_k, pass_hat_k


@st.composite
def counts(draw: st.DrawFn, most: int) -> tuple[int, int, int]:
    attempts = draw(st.integers(1, most))
    return attempts, draw(st.integers(0, attempts)), draw(st.integers(1, attempts))


@given(counts(9))
def test_it_is_the_share_of_draws_with_a_success(numbers: tuple[int, int, int]) -> None:
    attempts, successes, k = numbers
    draws = list(combinations([True] * successes + [False] * (attempts - successes), k))
    assert pass_at_k(attempts, successes, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@given(counts(9))
def test_all_of_k_is_the_share_of_draws_without_a_failure(numbers: tuple[int, int, int]) -> None:
    attempts, successes, k = numbers
    draws = list(combinations([True] * successes + [False] * (attempts - successes), k))
    assert pass_hat_k(attempts, successes, k) == pytest.approx(sum(map(all, draws)) / len(draws))


@given(st.integers(2, 8), st.floats(0, 1), st.data())
def test_it_has_no_bias(attempts: int, chance: float, data: st.DataObject) -> None:
    """Over all outcomes of ``attempts`` attempts, its expectation is the chance of a success in ``k``."""
    k = data.draw(st.integers(1, attempts))
    expectation = sum(
        comb(attempts, won) * chance**won * (1 - chance) ** (attempts - won) * pass_at_k(attempts, won, k)
        for won in range(attempts + 1)
    )
    assert expectation == pytest.approx(1 - (1 - chance) ** k)


@given(counts(2000))
def test_it_is_a_probability_that_grows_with_k_and_with_successes(numbers: tuple[int, int, int]) -> None:
    attempts, successes, k = numbers
    value = pass_at_k(attempts, successes, k)
    assert 0 <= value <= 1
    assert pass_at_k(attempts, successes, 1) == pytest.approx(successes / attempts)
    if k < attempts:
        assert pass_at_k(attempts, successes, k + 1) >= value
    if successes < attempts:
        assert pass_at_k(attempts, successes + 1, k) >= value


@pytest.mark.parametrize(("attempts", "successes", "k"), [(3, 0, 0), (3, 0, 4), (3, 4, 1), (3, -1, 1), (0, 0, 1)])
def test_numbers_that_cannot_be_are_refused(attempts: int, successes: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"got k={k}, attempts={attempts}, successes={successes}"):
        pass_at_k(attempts, successes, k)
