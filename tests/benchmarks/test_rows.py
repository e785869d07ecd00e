"""Budgets grow with how slow the machine is, and nothing else does."""

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

    assert result.budget == pytest.approx(budget)


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
    (result,) = results(sampled(memory={"public": [80_000]}))

    assert result.met is None
    assert result.ratio_to(result.public) is None


def test_a_budget_may_be_a_multiple_of_another_servers_figure() -> None:
    (vector,) = results(sampled(vector={"gymnasium": [10_000.0, 14_000.0, 90_000.0], "ours": [69_999.0]}))
    (alone,) = results(sampled(vector={"ours": [1e9]}))

    assert vector.budget == 5 * 14_000
    assert not vector.met
    assert alone.budget is None
    assert alone.met is None


def test_a_row_without_a_budget_is_neither_met_nor_missed() -> None:
    (result,) = results(sampled(memory_legacy={"ours": [27_000.0]}))

    assert result.budget is None
    assert result.met is None


def test_a_point_of_a_curve_is_the_median_of_its_rounds() -> None:
    samples = Samples()
    for figure in (5e-6, 90e-6, 20e-6):
        samples.add_point("cpu_per_step", "ours", 64, figure)
    samples.add_point("cpu_per_step", "ours", 1024, 8e-6)

    assert samples.points("cpu_per_step", "ours") == {64: 20e-6, 1024: 8e-6}
    assert samples.points("cpu_per_step", "public") == {}
