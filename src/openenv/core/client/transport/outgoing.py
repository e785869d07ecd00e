"""Requests of sessions that share a connection, as messages: one by one, or with columns for many sessions."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from openenv.core.wire.messages import MessageType

FULL_FRAME = 64 * 1024
"""Bytes after which no further message is put into a frame, so that the server begins while the rest is being sent."""

_IN_COLUMNS = (b"reset", b"step")


class OutgoingRequest(NamedTuple):
    """A request of a session, with the number under which the server carries it out once.

    Attributes:
        kind: Its ``type``.
        id: Its number.
        session: The session's id, as JSON.
        data: Its ``data`` as JSON; ``None`` for a type that has none.
    """

    kind: bytes
    id: int
    session: bytes
    data: bytes | None

    @property
    def message(self) -> bytes:
        """The request as a message of its own."""
        kind, number, session, data = self
        if data is None:
            return b'{"type":"%b","id":%d,"session":%b}' % (kind, number, session)
        return b'{"type":"%b","id":%d,"session":%b,"data":%b}' % (kind, number, session, data)


def messages_of(requests: Sequence[OutgoingRequest], *, columns: bool) -> list[bytes]:
    """Write requests of different sessions.

    Args:
        requests: The requests.
        columns: Whether the server reads messages with columns: steps become one message then, and so do resets.
    """
    if not columns or len(requests) == 1:
        return [request.message for request in requests]
    messages: list[bytes] = []
    for kind, group in groupby(sorted(requests, key=attrgetter("kind")), attrgetter("kind")):
        if kind in _IN_COLUMNS:
            messages += _column_messages(list(group))
        else:
            messages += [request.message for request in group]
    return messages


def _column_messages(requests: list[OutgoingRequest]) -> Iterator[bytes]:
    """Write requests of one type with columns, in messages of up to a full frame."""
    if len(requests) == 1:
        yield requests[0].message
        return
    kinds, ids, sessions, data = zip(*requests, strict=True)
    written = b",".join(data)
    if len(written) > FULL_FRAME:
        middle = len(requests) // 2
        yield from _column_messages(requests[:middle])
        yield from _column_messages(requests[middle:])
        return
    numbers = ",".join(map(str, ids)).encode()
    yield b'{"type":"%b","ids":[%b],"sessions":[%b],"data":[%b]}' % (kinds[0], numbers, b",".join(sessions), written)


def entries_of(message: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Take an answer with columns apart into an answer for each session; ``None`` if its columns do not fit together.

    Args:
        message: A message with ``sessions``.
    """
    kind, ids, sessions, data = map(message.get, ("type", "ids", "sessions", "data"))
    if kind != MessageType.OBSERVATION or not (
        isinstance(ids, list) and isinstance(sessions, list) and isinstance(data, list)
    ):
        return None
    if not len(ids) == len(sessions) == len(data):
        return None
    return [
        {"type": kind, "id": number, "session": session, "data": each}
        for number, session, each in zip(ids, sessions, data, strict=True)
    ]
