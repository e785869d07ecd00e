"""The frames between a server and a process."""

import asyncio
import json
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.environments.common import Add, Shown, Total

from openenv.core.env_server.isolation.link import (
    Call,
    Link,
    read_answer,
    read_call,
    write_call,
    write_error,
    write_outcome,
    write_value,
)
from openenv.core.exceptions import (
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    IllegalActionError,
    InvalidRequestError,
    RateLimitedError,
    RequestError,
    ResetNeededError,
)
from openenv.core.wire.answers import outcome_json
from openenv.core.wire.legacy import encode_error
from openenv.core.wire.results import Outcome, WrittenJson


class Collector:
    """Both ends of a link, and what came."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.ended = 0
        self.transport = RecordingTransport()
        self.link = Link(lambda number, body: self.frames.append((number, body)), self._end)
        self.link.connection_made(self.transport)

    def _end(self) -> None:
        self.ended += 1


class RecordingTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


numbers = st.integers(0, 2**64 - 1)


@given(frames=st.lists(st.tuples(numbers, st.binary(max_size=40))), sizes=st.lists(st.integers(1, 30), min_size=1))
def test_frames_arrive_however_the_stream_is_cut(frames: list[tuple[int, bytes]], sizes: list[int]) -> None:
    async def exchange() -> None:
        sender, receiver = Collector(), Collector()
        for number, body in frames:
            sender.link.send(number, body)
        await asyncio.sleep(0)
        assert len(sender.transport.written) == bool(frames)  # all in one piece
        stream = b"".join(sender.transport.written)
        pieces = iter(sizes * (len(stream) + 1))
        while stream:
            size = next(pieces)
            receiver.link.data_received(stream[:size])
            stream = stream[size:]
        assert receiver.frames == frames

    asyncio.run(exchange())


async def test_a_frame_that_claims_too_much_ends_the_link() -> None:
    collector = Collector()
    collector.link.data_received(struct.pack("<IQ", 2**31, 1))
    assert collector.transport.aborted
    assert collector.frames == []


@given(
    outcome=st.builds(
        Outcome,
        observation=st.builds(Total, total=st.integers()),
        reward=st.none()
        | st.booleans()
        | st.integers(-(2**70), 2**70)
        | st.floats(allow_nan=False, allow_infinity=False),
        done=st.booleans(),
        metadata=st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])), st.none() | st.integers() | st.floats()
        ),
    )
)
def test_an_outcome_is_the_same_json_on_both_sides(outcome: Outcome) -> None:
    answer = read_answer(write_outcome(outcome))
    assert isinstance(answer, Outcome)
    assert outcome_json(answer) == outcome_json(outcome)
    assert (answer.reward, type(answer.reward)) == (outcome.reward, type(outcome.reward))


class OwnError(InvalidRequestError):
    """Of an environment's own."""


@pytest.mark.parametrize(
    "error",
    [
        IllegalActionError("no"),
        ResetNeededError("first"),
        EnvironmentFailedError("half \udfff", lock=object()),
        EnvironmentTimeoutError("step", 3),
        OwnError("own", code="TOO_LARGE", errors=[{"loc": ("a", 1)}]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_on_the_wire(error: RequestError) -> None:
    with pytest.raises(RequestError) as restored:
        read_answer(write_error(error))
    assert encode_error(restored.value) == encode_error(error) or isinstance(error, EnvironmentFailedError)
    known = type(error) if type(error) is not OwnError else InvalidRequestError
    assert type(restored.value) is known
    assert restored.value.code == error.code
    assert str(restored.value) == error.message.replace("\udfff", "?")


def error_body(**changes: Any) -> bytes:
    """What a process sends for an error, with changes."""
    body: dict[str, Any] = {
        "kind": "InvalidRequestError",
        "code": "VALIDATION_ERROR",
        "message": "no",
        "details": {},
        "errors": [],
        "attributes": {},
        "origin": None,
        "traceback": None,
        "raised": None,
    }
    return b"e" + json.dumps({**body, **changes}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"code": ["VALIDATION_ERROR"]},
        {"code": ""},
        {"code": "X" * 65},
        {"message": 5},
        {"details": ["a"]},
        {"details": 5},
        {"errors": {"loc": []}},
        {"origin": 5},
        {"traceback": ["a"]},
        {"raised": 5},
        {"attributes": 5},
        {"attributes": {"method": ["a"]}},
        {"kind": 5},
        {"kind": "RateLimitedError"},
        {"kind": "Any"},
        {"__class__": "x"},
    ],
    ids=str,
)
def test_an_error_of_other_types_is_no_answer(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"validation error|is not an error of an environment"):
        read_answer(error_body(**changes))


def test_what_is_no_fault_is_left_out_of_an_error() -> None:
    fault = {"loc": ["a"], "msg": "too small", "type": "x"}
    with pytest.raises(InvalidRequestError) as restored:
        read_answer(error_body(errors=[5, {"loc": 5, "msg": "x"}, {"loc": ["a"]}, fault]))
    assert restored.value.errors == [fault]


def test_an_error_of_the_server_s_own_crosses_as_an_ordinary_one_of_the_same_code() -> None:
    with pytest.raises(RequestError) as restored:
        read_answer(write_error(RateLimitedError(5, 1)))
    assert type(restored.value) is RequestError
    assert encode_error(restored.value) == encode_error(RateLimitedError(5, 1))


def test_an_error_keeps_its_own_attributes() -> None:
    with pytest.raises(EnvironmentTimeoutError) as late:
        read_answer(write_error(EnvironmentTimeoutError("step", 2.5)))
    assert (late.value.operation, late.value.timeout_s) == ("step", 2.5)
    with pytest.raises(KeyError, match="operation"):
        read_answer(error_body(kind="EnvironmentTimeoutError"))


def test_a_value() -> None:
    assert read_answer(write_value('{"é":1}')) == WrittenJson('{"é":1}')


@given(st.binary(max_size=60) | st.sampled_from([b'e["RequestError",5]', b'e{"kind":"Any"}', b"e{}", b"o[1]\n"]))
def test_what_is_no_answer_is_an_ordinary_error(body: bytes) -> None:
    with suppress(ValueError, TypeError, AttributeError, KeyError, RequestError):
        read_answer(body)


class Guarded:
    """Can be pickled, and refuses to be made anew."""

    def __setstate__(self, state: Any) -> None:
        raise LookupError("not here")

    def __getstate__(self) -> Any:
        return {"a": 1}


class TestCalls:
    def test_a_call_arrives(self) -> None:
        call = Call(7, "step", (Add(amount=3), {"timeout_s": 2.5}))
        assert read_call(write_call(call)) == call

    def test_an_argument_that_can_t_be_pickled(self) -> None:
        with pytest.raises(EnvironmentFailedError, match=r"The step can't be sent .*pickle.*plain data"):
            write_call(Call(1, "step", (Shown(value=(lambda: 1)),)))

    def test_an_argument_that_can_t_be_read(self) -> None:
        with pytest.raises(EnvironmentFailedError, match="LookupError: not here"):
            read_call(write_call(Call(1, "step", (Guarded(),))))
