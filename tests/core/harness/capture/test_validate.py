"""Findings in captured turns."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.harness.capture.validate import FATAL, Finding, validate_training_turn

TURN: dict[str, Any] = {
    "prompt_token_ids": [1, 2],
    "completion_token_ids": [3, 4],
    "per_token_logps": [-0.1, 0.0],
    "loss_mask": [0, 0, 1, 0],
}


def test_a_turn_that_can_be_trained_on_has_no_faults() -> None:
    assert validate_training_turn(**TURN) == []


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        ({"prompt_token_ids": [], "loss_mask": [1, 0]}, ["no_prompt_ids"]),
        ({"prompt_token_ids": [1, -2]}, ["invalid_token_id"]),
        ({"completion_token_ids": [3, -1]}, ["invalid_token_id"]),
        ({"per_token_logps": []}, ["no_logprobs"]),
        ({"per_token_logps": [-0.1]}, ["logprob_misalign"]),
        ({"per_token_logps": [-0.1, float("nan")]}, ["invalid_logprob"]),
        ({"per_token_logps": [-0.1, float("-inf")]}, ["invalid_logprob"]),
        ({"per_token_logps": [-0.1, 0.2]}, ["positive_logprob"]),
        ({"loss_mask": [1, 0]}, ["length_mismatch", "trainable_prompt"]),
        ({"loss_mask": [0, 0, 2, 0]}, ["invalid_loss_mask"]),
        ({"loss_mask": [0, 1, 1, 0]}, ["trainable_prompt"]),
        ({"per_token_logps": [], "loss_mask": [0, 0, 2]}, ["no_logprobs", "length_mismatch", "invalid_loss_mask"]),
    ],
)
def test_each_fault_has_its_code(change: dict[str, Any], codes: list[str]) -> None:
    found = validate_training_turn(**{**TURN, **change})

    assert [finding.code for finding in found] == codes
    assert {finding.level for finding in found} == {FATAL}


def test_a_finding_is_text() -> None:
    assert str(Finding(FATAL, "no_logprobs", "got none")) == "[FATAL] no_logprobs: got none"


@given(prompt=st.lists(st.integers(0), min_size=1), sampled=st.lists(st.tuples(st.integers(0), st.floats(-99, 0))))
def test_any_turn_with_a_log_probability_for_each_sampled_token_can_be_trained_on(
    prompt: list[int], sampled: list[tuple[int, float]]
) -> None:
    mask = [0] * len(prompt) + [1] * len(sampled)

    assert validate_training_turn(prompt, [token for token, _ in sampled], [logp for _, logp in sampled], mask) == []
