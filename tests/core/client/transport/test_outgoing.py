"""Requests of many sessions as messages: whatever their form, the server reads the same ones."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.client.transport.outgoing import FULL_FRAME, OutgoingRequest, entries_of, messages_of
from openenv.core.wire.messages import V1Request
from openenv.core.wire.v1 import decode_v1

DATA = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=2)


def read(messages: list[bytes]) -> set[tuple[Any, ...]]:
    found = set()
    for request in (request for message in messages for request in decode_v1(message.decode())):
        assert isinstance(request, V1Request)
        found.add((request.type, request.id, request.session, json.dumps(request.data)))
    return found


@given(st.lists(st.tuples(st.sampled_from([b"step", b"reset", b"mcp"]), st.integers(1, 9), DATA), max_size=8))
def test_the_server_reads_the_same_requests_in_either_form(given_requests: list[tuple[bytes, int, Any]]) -> None:
    requests = [
        OutgoingRequest(kind, number, b'"s%d"' % slot, json.dumps(data).encode())
        for slot, (kind, number, data) in enumerate(given_requests)
    ]
    assert read(messages_of(requests, columns=True)) == read(messages_of(requests, columns=False))


def test_steps_are_one_message_and_resets_another() -> None:
    kinds = [b"step", b"reset", b"step", b"reset"]
    requests = [OutgoingRequest(kind, 1, b'"s%d"' % slot, b"{}") for slot, kind in enumerate(kinds)]
    written = [json.loads(message) for message in messages_of(requests, columns=True)]
    assert [(message["type"], message["sessions"]) for message in written] == [
        ("reset", ["s1", "s3"]),
        ("step", ["s0", "s2"]),
    ]


def test_a_message_is_no_longer_than_a_full_frame_and_its_envelope() -> None:
    data = json.dumps({"text": "x" * 5_000}).encode()
    requests = [OutgoingRequest(b"step", 1, b'"%036d"' % slot, data) for slot in range(100)]
    messages = messages_of(requests, columns=True)
    assert len(read(messages)) == 100
    assert max(map(len, messages)) < FULL_FRAME + 100 * 64


def test_an_answer_with_columns_becomes_one_for_each_session() -> None:
    message = {"type": "observation", "ids": [1, 2], "sessions": ["a", "b"], "data": [{}, {"x": 1}]}
    assert entries_of(message) == [
        {"type": "observation", "id": 1, "session": "a", "data": {}},
        {"type": "observation", "id": 2, "session": "b", "data": {"x": 1}},
    ]


@pytest.mark.parametrize(
    "changes",
    [{"ids": [1]}, {"ids": None}, {"data": {}}, {"sessions": "ab"}, {"type": "state"}, {"type": ["observation"]}],
)
def test_columns_that_do_not_fit_together_are_no_answers(changes: dict[str, Any]) -> None:
    message = {"type": "observation", "ids": [1, 2], "sessions": ["a", "b"], "data": [{}, {}]}
    assert entries_of(message) is not None
    assert entries_of({**message, **changes}) is None
