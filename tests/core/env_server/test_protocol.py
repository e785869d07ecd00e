"""The wire without a socket: whatever comes in, whatever goes out."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from tests.environments import Add, PlainTotal, Shown, Total

from openenv.core.env_server.outcomes import Outcome, outcome_of
from openenv.core.env_server.protocol import (
    Request,
    decode,
    decode_action,
    encode,
    encode_error,
    mcp_refusal_json,
    outcome_json,
    state_json,
)
from openenv.core.env_server.types import Observation, State
from openenv.core.exceptions import EnvironmentFailedError, InvalidRequestError, RequestError

NUMBERS = st.integers() | st.floats()
TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
SENDABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def nulled(value: Any) -> Any:
    """Put null where JSON has no number."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [nulled(item) for item in value]
    if isinstance(value, dict):
        return {key: nulled(item) for key, item in value.items()}
    return value


def decoded(frame: str) -> None:
    """Decode a frame; only one kind of error may come out, and it must be sendable."""
    try:
        decode(frame)
    except InvalidRequestError as error:
        answer = json.loads(encode_error(error))
        assert answer["type"] == "error"
        assert answer["data"]["code"] in ("INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR")
        assert answer["data"]["message"]


class TestDecode:
    @given(TEXT)
    @example("\x00")
    @example("\ud800")
    @example('"\ud800"')
    @example("\ufeff{}")
    @example("1e999")
    @example("-")
    @example("9" * 5000)
    def test_any_text(self, frame: str) -> None:
        decoded(frame)

    @given(JSON, st.booleans())
    def test_any_json(self, document: Any, ascii_only: bool) -> None:
        decoded(json.dumps(document, ensure_ascii=ascii_only))

    @given(
        st.sampled_from(["reset", "step", "state", "close", "mcp", "bogus"]) | JSON, JSON, st.dictionaries(TEXT, JSON)
    )
    def test_anything_that_looks_like_a_message(self, kind: Any, data: Any, further: dict[str, Any]) -> None:
        decoded(json.dumps({**further, "type": kind, "data": data}))

    @given(st.dictionaries(st.text(), SENDABLE))
    def test_a_step_s_data_arrives(self, data: dict[str, Any]) -> None:
        assert decode(json.dumps({"type": "step", "data": data})) == Request("step", data)

    @pytest.mark.parametrize("kind", ["reset", "state", "close"])
    def test_some_need_no_data(self, kind: str) -> None:
        assert decode(json.dumps({"type": kind})) == Request(kind, {})

    @given(st.dictionaries(st.sampled_from(["amount", "metadata", "x"]) | TEXT, JSON))
    def test_any_action(self, data: dict[str, Any]) -> None:
        refusals: list[InvalidRequestError] = []
        try:
            decode_action(data, Add)
        except InvalidRequestError as error:
            refusals.append(error)
        for refusal in refusals:
            assert json.loads(encode_error(refusal))["data"]["errors"]

    @pytest.mark.parametrize("data", [{"amount": float("nan")}, {"amount": float("inf")}])
    def test_the_entries_of_a_number_that_json_has_not(self, data: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequestError) as refused:
            decode_action(data, Add)
        json.dumps(refused.value.errors, allow_nan=False)  # the HTTP transport writes them so


class TestOutcome:
    def test_the_public_form(self) -> None:
        outcome = outcome_of(Total(total=1, reward=2, done=True, metadata={"m": 1}))
        assert encode("observation", outcome_json(outcome)) == (
            '{"type":"observation","data":{"observation":{"metadata":{"m":1},"total":1},'
            '"reward":2,"done":true,"metadata":{"m":1}}}'
        )

    def test_empty_metadata_is_left_out_or_null(self) -> None:
        outcome = Outcome(PlainTotal(total=1))
        assert outcome_json(outcome) == '{"observation":{"total":1},"reward":null,"done":false}'
        assert json.loads(outcome_json(outcome, always_metadata=True))["metadata"] is None

    @given(
        SENDABLE,
        NUMBERS.filter(math.isfinite) | st.none() | st.booleans(),
        st.booleans(),
        st.dictionaries(st.text(), SENDABLE),
    )
    def test_a_round_trip(self, value: Any, reward: Any, done: bool, metadata: dict[str, Any]) -> None:
        outcome = outcome_of(Shown(value=value, reward=reward, done=done, metadata=metadata))
        data = json.loads(outcome_json(outcome))
        assert data["observation"] == {"metadata": metadata, "value": value}
        assert (data["reward"], data["done"], data.get("metadata", {})) == (reward, done, metadata)

    @given(st.recursive(st.floats(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10))
    def test_numbers_that_json_has_not_are_null(self, value: Any) -> None:
        outcome = Outcome(Shown(value=value), metadata={"value": value})
        data = json.loads(outcome_json(outcome), parse_constant=lambda name: pytest.fail(f"sent {name}"))
        assert data["observation"]["value"] == nulled(value)
        assert data["metadata"]["value"] == nulled(value)

    @given(JSON)
    def test_whatever_cannot_be_sent_is_a_typed_error(self, value: Any) -> None:
        try:
            text = encode("observation", outcome_json(Outcome(Shown(value=value), metadata={"value": value})))
        except EnvironmentFailedError as error:
            text = encode_error(error)
        assert json.loads(text.encode())["type"] in ("observation", "error")

    def test_a_field_that_is_called_as_one_of_those_beside_it(self) -> None:
        class Nested(Observation):
            inner: dict[str, Any] = Field(default_factory=dict)

        shown = json.loads(outcome_json(Outcome(Nested(inner={"reward": 1, "done": 2}))))
        assert shown["observation"]["inner"] == {"reward": 1, "done": 2}


class TestState:
    def test_a_model_keeps_further_fields(self) -> None:
        state = State.model_validate({"episode_id": "e", "target": "crane"})
        assert json.loads(state_json(state)) == {"episode_id": "e", "step_count": 0, "target": "crane"}

    def test_a_mapping(self) -> None:
        assert encode("state", state_json({"a": float("nan")})) == '{"type":"state","data":{"a":null}}'

    def test_what_has_no_form(self) -> None:
        with pytest.raises(EnvironmentFailedError, match="state cannot be sent"):
            state_json({"a": object()})


class TestErrors:
    @given(TEXT, st.dictionaries(TEXT.filter(lambda name: name not in ("self", "message")), JSON))
    def test_an_error_can_always_be_sent(self, message: str, details: dict[str, Any]) -> None:
        json.loads(encode_error(RequestError(message, **details)))

    @given(st.dictionaries(st.text(), SENDABLE))
    def test_an_mcp_refusal_names_the_request(self, data: dict[str, Any]) -> None:
        answer = json.loads(mcp_refusal_json(data))
        assert answer["id"] == data.get("id")
        assert answer["error"]["code"] == -32603

    def test_the_class_of_an_action_may_be_any_model(self) -> None:
        class Loose(BaseModel):
            model_config = ConfigDict(extra="allow")

        assert decode_action({"a": 1}, Loose).model_dump() == {"a": 1}
