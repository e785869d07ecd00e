"""Server-sent events: whatever a result holds arrives, in pieces that clients can read."""

import asyncio
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.ors_wire import Sent, events_of

from openenv.core.env_server.ors import event_stream as module
from openenv.core.env_server.ors.event_stream import Event, event_stream

# What aiohttp reads as one line, at most.
_LONGEST_LINE = 65536


async def written(task_id: str, answer: "asyncio.Future[Event] | Event") -> str:
    return "".join([str(part) async for part in event_stream(task_id, answer).body_iterator])


async def received(answer: "asyncio.Future[Event] | Event") -> list[Sent]:
    text = await written("t", answer)
    assert max(map(len, text.encode().split(b"\n"))) < _LONGEST_LINE
    return events_of(text)


LONG_TEXT = st.builds(lambda text, times: text * times, st.text(min_size=1), st.integers(0, 3000))


@given(LONG_TEXT)
@example(" " * 200_000)
@example("x" * 4000 + " " * 300 + "y" * 5000)
@example("\u2028\x85\x0b\r\n" * 3000)
def test_a_result_arrives_as_it_was(text: str) -> None:
    result = json.dumps({"text": text}, ensure_ascii=False)
    first, *chunks = asyncio.run(received(Event("end", result)))
    assert first == ("task_id", "t")
    assert [chunk.event for chunk in chunks] == ["chunk"] * (len(chunks) - 1) + ["end"]
    assert json.loads("".join(chunk.data for chunk in chunks)) == {"text": text}


@given(st.text())
@example("two\nlines\r\nand\rmore")
def test_an_error_is_one_event_whatever_it_says(message: str) -> None:
    events = asyncio.run(received(Event("error", message)))
    assert [event.event for event in events] == ["task_id", "error"]


async def test_a_long_error_is_cut() -> None:
    _, last = await received(Event("error", "x" * 100_000))
    assert last == ("error", "x" * 4096)


async def test_nothing_is_a_result_too() -> None:
    assert await received(Event("end", "")) == [("task_id", "t"), ("end", "")]


async def test_the_name_comes_at_once_and_the_rest_when_it_is_there() -> None:
    answer: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
    parts = aiter(event_stream("t", answer).body_iterator)
    assert "task_id" in str(await anext(parts))
    answer.set_result(Event("end", "1"))
    assert events_of(str(await anext(parts))) == [("end", "1")]


async def test_a_pulse_says_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PULSE_S", 0.01)
    answer: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
    parts = aiter(event_stream("t", answer).body_iterator)
    await anext(parts)
    pulses = [str(await anext(parts)) for _ in range(3)]
    assert pulses == [": ping\n\n"] * 3
    answer.cancel()
    assert events_of(str(await anext(parts))) == [("error", "The session has ended.")]
