"""Figures of checks in reports."""

import pytest

from openenv.records.evaluation import Estimate
from openenv.validation.statistical.figures import figure_text, in_json


def test_an_estimate_has_its_interval() -> None:
    assert in_json(Estimate(1 / 3, 0.1, 0.5)) == {"mean": 0.3333, "low": 0.1, "high": 0.5}
    assert figure_text(in_json(Estimate(1 / 3, 0.1, 0.5))) == "0.333 [0.1, 0.5]"
    assert figure_text(in_json(Estimate(2.0))) == "2"


@pytest.mark.parametrize("value", [True, [1], {"a": 1}, None])
def test_what_is_no_figure_has_no_text(value: object) -> None:
    assert figure_text(value) == ""
