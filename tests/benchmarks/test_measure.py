"""Every row has its measurement, and only what is asked for is measured."""

from collections import Counter

import pytest
from benchmarks.effort import FULL, QUICK, Effort
from benchmarks.measure import MEASUREMENTS, measure
from benchmarks.rows import ROWS


def test_every_row_is_measured_by_one_function() -> None:
    measured = Counter(row for measurement in MEASUREMENTS for row in measurement.rows)

    assert measured == Counter(ROWS.keys())


@pytest.mark.parametrize("effort", [FULL, QUICK])
def test_no_measurement_gets_more_rounds_than_there_are(effort: Effort) -> None:
    assert all(1 <= measurement.rounds(effort) <= effort.rounds for measurement in MEASUREMENTS)


def test_nothing_asked_for_is_nothing_measured() -> None:
    said: list[str] = []

    samples = measure(QUICK, [], said.append)

    assert samples.figures == {}
    assert said == []
