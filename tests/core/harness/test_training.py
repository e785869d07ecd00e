"""Turns of an agent with the tokens that its model's engine read and sampled, as a trainer reads them."""

import json
import re
from typing import Any

import pytest

from openenv.core.harness import TraceEntry, TrainingTrace, TrainingTurn

TURN: dict[str, Any] = {
    "node_id": "n0",
    "prompt_token_ids": [1, 2],
    "completion_token_ids": [3],
    "per_token_logps": [-0.2],
    "loss_mask": [0, 0, 1],
    "request": {"messages": [], "tools": None},
    "response": {"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]},
    "metadata": {"sampling_params": {"temperature": 1.0}},
}


def test_a_trace_has_its_form_in_json() -> None:
    trace = TrainingTrace(turns=[TrainingTurn(**TURN)])

    assert json.loads(trace.model_dump_json()) == {"schema_version": 1, "turns": [TURN]}
    assert TrainingTrace.model_validate_json(trace.model_dump_json()) == trace


def test_entries_are_read_back() -> None:
    trace = TrainingTrace(turns=[TrainingTurn(**TURN), TrainingTurn(**{**TURN, "node_id": "n1"})])

    entries = trace.to_trace_entries()

    assert [entry["metadata"]["node_id"] for entry in entries] == ["n0", "n1"]
    assert TrainingTrace.from_entries(entries).to_trace_entries() == entries


def test_a_turn_tells_all_that_keeps_it_from_being_trained_on() -> None:
    message = r"invalid training turn: \[FATAL\] logprob_misalign: .*; \[FATAL\] trainable_prompt: "

    with pytest.raises(ValueError, match=message):
        TrainingTurn(**{**TURN, "per_token_logps": [-0.2, -0.1], "loss_mask": [0, 1, 1]})


@pytest.mark.parametrize(
    "change",
    [
        {"node_id": ""},
        {"prompt_token_ids": ["1", "2"]},
        {"completion_token_ids": [True]},
        {"per_token_logps": ["-0.2"]},
        {"loss_mask": [0, 0, 1.0]},
        {"reward": 1.0},
    ],
)
def test_a_turn_has_no_values_of_other_types_and_no_other_fields(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        TrainingTurn(**{**TURN, **change})


def test_no_two_turns_have_the_same_id() -> None:
    with pytest.raises(ValueError, match="training trace contains duplicate node_ids"):
        TrainingTrace(turns=[TrainingTurn(**TURN), TrainingTurn(**TURN)])


def test_an_entry_without_an_id_is_named() -> None:
    complete = TrainingTrace(turns=[TrainingTurn(**TURN)]).to_trace_entries()
    without = TraceEntry(prompt_token_ids=[1], completion_token_ids=[2], per_token_logps=[-0.1], loss_mask=[0, 1])

    with pytest.raises(ValueError, match=re.escape("trace entry 1: expected a text as metadata.node_id, got None")):
        TrainingTrace.from_entries([*complete, without])


def test_an_entry_without_tokens_can_not_be_trained_on() -> None:
    with pytest.raises(ValueError, match="no_prompt_ids"):
        TrainingTrace.from_entries([TraceEntry(request={}, metadata={"node_id": "n0"})])
