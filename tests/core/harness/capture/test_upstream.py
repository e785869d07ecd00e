"""Sampling settings of an engine whose tokens are trained on."""

from typing import Any

import pytest

from openenv.core.harness.capture.upstream import NON_POLICY_SAMPLING, training_sampling


def test_the_policy_is_sampled_whole() -> None:
    sampling = training_sampling({"temperature": 0.5})

    assert sampling == {
        "temperature": 0.5,
        "top_p": 1,
        "top_k": -1,
        "min_p": 0,
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "repetition_penalty": 1,
    }


def test_settings_at_their_neutral_values_may_be_named() -> None:
    assert training_sampling({"temperature": 1, **NON_POLICY_SAMPLING}) == training_sampling({"temperature": 1.0})
    assert training_sampling({"temperature": 1, "top_k": 0, "top_p": 1.0})["top_k"] == -1


@pytest.mark.parametrize("temperature", [None, 0, -1.0, float("nan"), float("inf"), "1", True])
def test_the_temperature_is_a_finite_number_above_zero(temperature: Any) -> None:
    with pytest.raises(ValueError, match=f"needs a finite temperature above 0, got {temperature!r}"):
        training_sampling({"temperature": temperature})


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_p", 0.9), ("top_k", 50), ("min_p", 0.1), ("repetition_penalty", 1.1), ("presence_penalty", None)],
)
def test_a_setting_that_cuts_or_shifts_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"needs {name}=.*got {value!r}"):
        training_sampling({"temperature": 1.0, name: value})


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="got 'typical_p'"):
        training_sampling({"temperature": 1.0, "typical_p": 1.0})


def test_no_temperature_is_refused() -> None:
    with pytest.raises(ValueError, match="got None"):
        training_sampling({"top_p": 1})
