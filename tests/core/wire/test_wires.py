"""The wire without a socket: whatever comes in, whatever goes out."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from tests.support.environments.common import Add, PlainTotal, Shown, Total

from openenv.core.exceptions import EnvironmentFailedError, InvalidRequestError, MessageTooLargeError, RequestError
from openenv.core.wire.actions import decode_action
from openenv.core.wire.answers import outcome_json, state_json
from openenv.core.wire.arrays import nested
from openenv.core.wire.legacy import decode, encode, encode_error
from openenv.core.wire.messages import Answer, Refusal, Request, V1Request
from openenv.core.wire.results import Outcome, WrittenJson, outcome_of
from openenv.core.wire.types import Observation, State
from openenv.core.wire.v1 import ARRAY_BYTES, decode_v1, encode_answer, encode_error_v1, frames_v1

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


class Unprintable:
    def __repr__(self) -> str:
        raise KeyError("no name")


def unwritable() -> dict[str, Any]:
    """Make what an environment may quote in an error, and JSON can't."""
    circular: list[Any] = []
    circular += [circular, circular]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return {
        "bytes": b"\xff",
        "unprintable": Unprintable(),
        "circular": circular,
        "deep": deep,
        "set": {"\ud800"},
        "huge": 10**5000 - 1,
        "half": {"\ud800": "\udfff"},
        "mixed": {1: b"\xff", (1, 2): Unprintable(), "\ud800": {"a": object()}},
    }


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


IDS = st.integers(0, 2**53 - 1)


class TestDecodeV1:
    @given(TEXT | JSON.map(json.dumps), st.none() | st.integers(1, 100))
    @example("\ud800" * 50, 100)
    @example("[]", None)
    @example('[{"id": %s}]' % ("9" * 4300), None)
    @example('[{"id": -%s}]' % ("9" * 4300), None)
    @example("[" * 150 + "]" * 150, None)
    def test_any_text(self, frame: str, max_bytes: int | None) -> None:
        for message in decode_v1(frame, max_bytes):
            if isinstance(message, Refusal):
                answer = json.loads(nested(encode_error_v1(message.error, message.id, message.session).text))
                assert answer["data"]["message"]

    @given(st.lists(SENDABLE, min_size=1, max_size=5))
    def test_every_message_of_an_array_gets_a_request_or_a_refusal(self, documents: list[Any]) -> None:
        messages = list(decode_v1(json.dumps(documents)))
        assert len(messages) == len(documents)
        assert all(isinstance(message, Refusal) for message in messages), "there is no message by chance"

    @pytest.mark.level("socket")
    @given(
        st.lists(
            st.fixed_dictionaries(
                {
                    "id": IDS,
                    "session": st.text(),
                    "type": st.sampled_from(["open", "step", "state", "bogus"]) | SENDABLE,
                },
                optional={"data": SENDABLE, "x": SENDABLE},
            ),
            min_size=1,
        )
    )
    def test_ids_and_sessions_come_back_in_order(self, documents: list[dict[str, Any]]) -> None:
        for document, message in zip(documents, decode_v1(json.dumps(documents)), strict=True):
            assert message.id == document["id"]
            assert message.session == document["session"]

    @given(
        st.sampled_from([-1, 2**53, True, False, None, "1", 1.0, 0.5, [1], {}]), st.sampled_from(["step", "open", "x"])
    )
    def test_what_is_no_id(self, number: Any, kind: str) -> None:
        (message,) = decode_v1(json.dumps({"type": kind, "id": number, "session": "s", "data": {}}))
        assert isinstance(message, Refusal)
        assert (message.id, message.session) == (None, "s")
        assert "Expected an id" in message.error.message

    @given(IDS, st.text(), st.dictionaries(st.text(), SENDABLE))
    def test_requests_arrive(self, number: int, session: str, data: dict[str, Any]) -> None:
        for kind in ("step", "reset", "mcp"):
            document = {"type": kind, "id": number, "session": session, "data": data}
            for frame in (document, [document]):
                assert list(decode_v1(json.dumps(frame))) == [V1Request(kind, data, number, session)]
        assert list(decode_v1(json.dumps({"type": "state", "session": session, "id": number}))) == [
            V1Request("state", {}, number, session)
        ]

    def test_open_says_what_its_client_takes(self) -> None:
        first, second = decode_v1('[{"type":"open","id":0},{"type":"open","id":1,"data":{"max_message_bytes":5}}]')
        assert first == V1Request("open", {"max_message_bytes": None, "wait_s": 0.0}, 0, "")
        assert second == V1Request("open", {"max_message_bytes": 5, "wait_s": 0.0}, 1, "")

    def test_the_limit_counts_bytes(self) -> None:
        message = '{"type":"reset","id":3,"session":"é"}'
        size = len(message.encode())
        (fitting,) = decode_v1(message, size)
        assert isinstance(fitting, V1Request)
        (refused,) = decode_v1(message, size - 1)
        assert isinstance(refused, Refusal)
        assert isinstance(refused.error, MessageTooLargeError)
        assert (refused.error.size, refused.id, refused.session) == (size, 3, "é")
        padded = message + " " * (ARRAY_BYTES - 2)
        assert len(list(decode_v1(f"[{padded}]", size))) == 1
        (refused,) = decode_v1(f"[{padded} ]", size)
        assert isinstance(refused, Refusal)
        assert isinstance(refused.error, MessageTooLargeError)

    def test_a_binary_frame(self) -> None:
        (refused,) = decode_v1(None)
        assert isinstance(refused, Refusal)
        assert isinstance(refused.error, InvalidRequestError)
        assert "binary" in refused.error.message


class TestEncodeV1:
    @given(st.sampled_from(["observation", "state"]), SENDABLE, IDS, st.uuids().map(str))
    def test_an_answer(self, kind: str, data: Any, number: int, session: str) -> None:
        message = encode_answer(Answer(kind, json.dumps(data), number, session))
        assert json.loads(message) == {"type": kind, "id": number, "session": session, "data": data}

    @given(st.lists(st.text(max_size=8) | st.integers(0, 100_000).map("漢".__mul__), max_size=12))
    @example(["漢" * 30_000] * 3)
    def test_frames_keep_every_message_and_the_order(self, texts: list[str]) -> None:
        messages = [json.dumps(text, ensure_ascii=False) for text in texts]
        frames = list(frames_v1(Answer("", message, None, None) for message in messages))
        arrived = [message for frame in map(json.loads, frames) for message in listed(frame)]
        assert arrived == texts
        longest = max((len(message.encode(errors="surrogatepass")) for message in messages), default=0)
        for frame in frames:
            assert isinstance(frame, str), "a message without arrays is text"
            assert len(frame.encode()) <= longest + ARRAY_BYTES, "what the other side allows for"
            if frame.startswith("["):
                assert len(json.loads(frame)) > 1, "a message alone is no array"

    def test_many_small_messages_share_frames(self) -> None:
        messages = [Answer("observation", "{}", number, "s" * 36) for number in range(10_000)]
        frames = list(frames_v1(messages))
        assert [answer["id"] for frame in frames for answer in json.loads(frame)] == list(range(10_000))
        assert len(frames) < 20
        assert max(map(len, frames)) < ARRAY_BYTES


def listed(frame: Any) -> list[Any]:
    return frame if isinstance(frame, list) else [frame]


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

    @pytest.mark.parametrize("name", ["bytes", "unprintable", "circular", "deep", "set", "huge", "half", "mixed"])
    def test_an_error_can_quote_what_has_no_form_in_json(self, name: str) -> None:
        quoted = unwritable()[name]
        error = RequestError("why", errors=[{"input": quoted}], fine=[1, 2.5, None, True])
        for text in (encode_error(error), nested(encode_error_v1(error, 1, "s").text)):
            assert '"message":"why"' in text
            assert '"fine":[1,2.5,null,true]' in text
            assert text.encode()

    @given(st.none() | IDS, st.none() | TEXT)
    def test_an_error_says_whose_it_is(self, number: int | None, session: str | None) -> None:
        answer = json.loads(nested(encode_error_v1(RequestError("why"), number, session).text))
        assert answer.get("id") == number
        assert answer.get("session", "") == (session or "").encode(errors="replace").decode()
        assert answer["data"] == {"message": "why", "code": "SESSION_ERROR"}

    def test_the_class_of_an_action_may_be_any_model(self) -> None:
        class Loose(BaseModel):
            model_config = ConfigDict(extra="allow")

        assert decode_action({"a": 1}, Loose).model_dump() == {"a": 1}


def test_what_another_process_has_written_is_sent_as_it_is() -> None:
    written = WrittenJson('{"total":1}')
    assert outcome_json(Outcome(written, 2, True)) == '{"observation":{"total":1},"reward":2,"done":true}'
    assert state_json(written) == '{"total":1}'


@pytest.mark.parametrize("depth", range(190, 210))
def test_an_error_tells_of_any_nesting(depth: int) -> None:
    # Just below the deepest that is read, what quotes it is too deep.
    with pytest.raises(InvalidRequestError) as error:
        decode(f'{{"type": "step", "data": {"[" * depth}{"]" * depth}}}')
    assert json.loads(encode_error(error.value))["type"] == "error"
