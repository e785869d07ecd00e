"""Server-sent events of ORS."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from starlette.responses import StreamingResponse

# Clients drop a connection that is silent for 30 s.
_PULSE_S = 10.0
_PULSE = ": ping\n\n"
_CHUNK = 4096
_LINE_END = re.compile(r"\r\n|\r|\n")
_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Event(NamedTuple):
    """Server-sent event.

    Attributes:
        name: ``task_id``, ``end`` or ``error``.
        data: Data of the event; for ``end``, JSON without white space around it.
    """

    name: str
    data: str


def event_stream(task_id: str, answer: "asyncio.Future[Event] | Event") -> StreamingResponse:
    """Return a response with two events: the id of a call at once, and its result when it has ended.

    Args:
        task_id: Id of the call.
        answer: The last event, or a future of it, which is not cancelled when the client disconnects.
    """
    return StreamingResponse(_written(task_id, answer), headers=_HEADERS, media_type="text/event-stream")


async def _written(task_id: str, answer: "asyncio.Future[Event] | Event") -> AsyncIterator[str]:
    yield _lines(Event("task_id", task_id))
    if isinstance(answer, Event):
        last = answer
    else:
        while not (await asyncio.wait({answer}, timeout=_PULSE_S))[0]:
            yield _PULSE
        last = Event("error", "The session has ended.") if answer.cancelled() else answer.result()
    for event in _chunks(last):
        yield _lines(event)


def _chunks(last: Event) -> Iterator[Event]:
    """Split a long result into chunks, since clients limit the length of a line."""
    if last.name != "end":
        yield Event(last.name, last.data[:_CHUNK])
        return
    end = max(len(last.data) - 1, 0) // _CHUNK * _CHUNK
    for start in range(0, end, _CHUNK):
        yield Event("chunk", _guarded(last.data[start : start + _CHUNK]))
    yield Event("end", _guarded(last.data[end:]))


def _guarded(chunk: str) -> str:
    """Escape white space at the start of a chunk, as in JSON: clients would strip it."""
    return f"\\u{ord(chunk[0]):04x}{chunk[1:]}" if chunk[:1].isspace() else chunk


def _lines(event: Event) -> str:
    data = "".join(f"data: {line}\n" for line in _LINE_END.split(event.data))
    return f"event: {event.name}\n{data}\n"
