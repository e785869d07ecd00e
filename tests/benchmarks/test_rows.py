"""Budgets grow with how slow the machine is, and nothing else does."""

import math

import pytest
from benchmarks.rows import ROWS, Samples, results


def sampled(**figures: dict[str, list[float]]) -> Samples:
    """Samples of some rows, as keyword arguments."""
    return Samples(dict(figures))


def test_a_figure_is_the_median_of_its_rounds() -> None:
    samples = Samples()
    for figure in (5e-6, 90e-6, 20e-6):
        samples.add("cpu_non_blocking", "ours", figure)

    (result,) = results(samples)

    assert result.ours == 20e-6
    assert result.floor is None
    assert result.public is None


@pytest.mark.parametrize(("slowness", "budget"), [(1, 30e-6), (2, 60e-6), (0.5, 15e-6)])
def test_a_budget_in_seconds_is_stretched_by_the_floor(slowness: float, budget: float) -> None:
    (result,) = results(sampled(cpu_non_blocking={"floor": [17e-6 * slowness], "ours": [1e-6]}))

    assert math.isclose(result.budget, budget)


def test_a_rate_is_asked_less_of_on_a_slower_machine() -> None:
    rows = {"cpu_non_blocking": {"floor": [34e-6]}, "threaded_clients": {"ours": [7_500.0]}}

    rate = results(sampled(**rows))[1]

    assert rate.budget == 7_500
    assert rate.met
    assert not results(sampled(**rows | {"threaded_clients": {"ours": [7_499.0]}}))[1].met


def test_sizes_are_the_same_on_every_machine() -> None:
    rows = {"cpu_non_blocking": {"floor": [1.0]}, "installed_size": {"ours": [90e6], "public": [450e6]}}

    size = results(sampled(**rows))[1]

    assert size.budget == ROWS["installed_size"].budget == 90e6
    assert size.met
    assert size.ratio_to(size.public) == 0.2


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    (result,) = results(sampled(session_memory={"public": [80_000]}))

    assert result.met is None
    assert result.ratio_to(result.public) is None
