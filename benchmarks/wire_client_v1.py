"""The bare client of the v1 wire: many sessions on one socket, all stepped by one frame.

Each frame holds one message with a column for every session or, for a server without these, an array with a message for
every session. The next is sent once all of them are answered, however the server spreads its answers over frames.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

from benchmarks.wire_client import STEP_DATA, UnexpectedAnswerError, WireSocket, check_answer
from openenv.core.wire.arrays import parts_of

OBSERVED = b'"observation":'
"""What every observation of the environment has once; nothing else that is sent here has a key of that name."""

TYPE = b'"type":'
"""What every other message has once."""

_ERROR = b'"type":"error"'

_STEP_DATA = json.dumps(STEP_DATA, separators=(",", ":")).encode()


@dataclass(slots=True)
class V1Session:
    """A session of a socket.

    Attributes:
        name: What the server calls it, as it stands in a message.
        requests: Requests sent so far; each carries the next number.
    """

    name: bytes
    requests: int = 0

    @classmethod
    def from_answer(cls, opened: dict[str, object]) -> Self:
        """Take the session out of the answer to an open message."""
        # The bare echo server names no session; any name of the usual length serves.
        return cls(json.dumps(opened.get("session") or str(uuid4())).encode())

    def reset_message(self) -> bytes:
        """Write a request for a new episode."""
        return self._message(b"reset", b"{}")

    def step_message(self) -> bytes:
        """Write a request for a step."""
        return self._message(b"step", _STEP_DATA)

    def _message(self, kind: bytes, data: bytes) -> bytes:
        self.requests += 1
        return b'{"type":"%b","id":%d,"session":%b,"data":%b}' % (kind, self.requests, self.name, data)


def open_messages(first: int, count: int) -> list[bytes]:
    """Write requests for sessions, numbered from ``first``."""
    return [b'{"type":"open","id":%d,"data":{}}' % number for number in range(first, first + count)]


def column_message(sessions: Sequence[V1Session]) -> bytes:
    """Write one request for a step of every session, with columns."""
    for session in sessions:
        session.requests += 1
    ids = b",".join(b"%d" % session.requests for session in sessions)
    names = b",".join(session.name for session in sessions)
    data = b",".join([_STEP_DATA] * len(sessions))
    return b'{"type":"step","ids":[%b],"sessions":[%b],"data":[%b]}' % (ids, names, data)


def joined(messages: Sequence[bytes]) -> bytes:
    """Write what one frame holds: a message, or an array of them."""
    return messages[0] if len(messages) == 1 else b"[" + b",".join(messages) + b"]"


def split(payload: str | bytes) -> list[dict[str, object]]:
    """Read what one frame holds, without the arrays of a binary one."""
    if isinstance(payload, bytes) and payload[:1] not in (b"{", b"["):
        return [json.loads(bytes(part.json)) for part in parts_of(payload)]
    document = json.loads(payload)
    messages = document if isinstance(document, list) else [document]
    return [each for message in messages for each in _entries(message)]


def _entries(message: dict[str, object]) -> list[dict[str, object]]:
    """Take a message with columns apart into a message for each session."""
    ids, sessions, data = (message.get(name) for name in ("ids", "sessions", "data"))
    if not isinstance(ids, list) or not isinstance(sessions, list) or not isinstance(data, list):
        return [message]
    rows = zip(ids, sessions, data, strict=True)
    return [{"type": message["type"], "id": number, "session": name, "data": each} for number, name, each in rows]


class V1Socket(WireSocket):
    """A socket of the v1 wire and its sessions, which are stepped by messages with columns.

    Attributes:
        sessions: Those opened so far; each was reset.
        latencies: Seconds of every round of steps since ``step`` was called last.
    """

    subprotocol = "openenv.v1"
    offers = "X-OpenEnv-Features: columns\r\n"

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[V1Session] = []
        self.latencies: list[float] = []
        self._opens = 0
        self._due = 0
        self._rounds = 0
        self._sent_at = 0.0
        self._payloads: list[bytes] = []

    async def open_sessions(self, count: int) -> None:
        """Open sessions together, then reset them together."""
        messages = open_messages(self._opens + 1, count)
        self._opens += count
        opened = [V1Session.from_answer(answer) for answer in await self._exchange(messages)]
        await self._reset(opened)
        self.sessions += opened

    async def reset(self) -> None:
        """Let every session begin a new episode."""
        await self._reset(self.sessions)

    async def step(self, rounds: int) -> None:
        """Let every session do ``rounds`` steps, all sessions at once."""
        self.latencies.clear()
        self._rounds = rounds
        await self._exchange(self._step_messages(), len(self.sessions))

    async def _reset(self, sessions: Sequence[V1Session]) -> None:
        await self._exchange([session.reset_message() for session in sessions])

    async def _exchange(self, messages: Sequence[bytes], due: int | None = None) -> list[dict[str, object]]:
        """Send messages in one frame and return the answers to them, or to those of the last round."""
        self._answer = asyncio.get_running_loop().create_future()
        self._send(messages, len(messages) if due is None else due)
        answers = [answer for payload in await self._answer for answer in split(payload)]
        for answer in answers:
            check_answer(answer)
        return answers

    def _step_messages(self) -> list[bytes]:
        if b"x-openenv-features" in self.handshake.lower() and len(self.sessions) > 1:
            return [column_message(self.sessions)]
        return [session.step_message() for session in self.sessions]

    def _send(self, messages: Sequence[bytes], due: int) -> None:
        self._due = due
        self._payloads = []
        self._sent_at = time.perf_counter()
        self.write(joined(messages))

    def frame_received(self, payload: bytes) -> None:
        """Send the next round as soon as the last answer of this one is here."""
        self._payloads.append(payload)
        self._due -= payload.count(OBSERVED) or payload.count(TYPE)
        if _ERROR in payload:
            self.fail(f"expected observations, got {payload.decode()}")
        elif self._due == 0:
            self._end_round()
        elif self._due < 0:
            self.fail(f"expected one answer to each message, got {-self._due} more")

    def _end_round(self) -> None:
        self.latencies.append(time.perf_counter() - self._sent_at)
        self._rounds -= 1
        if self._rounds > 0:
            self._send(self._step_messages(), len(self.sessions))
        elif not self._answer.done():
            self._answer.set_result(self._payloads)


class MessagesSocket(V1Socket):
    """A socket whose sessions are stepped by a message each, in one frame."""

    offers = ""


class ArraysSocket(V1Socket):
    """A socket that also takes arrays as bytes."""

    offers = "X-OpenEnv-Features: columns, arrays\r\n"


async def connect_v1(port: int, sockets: int, sessions: int, kind: type[V1Socket] = V1Socket) -> list[V1Socket]:
    """Open sockets with as many sessions each."""
    opened: list[V1Socket] = []
    try:
        for _ in range(sockets):
            opened.append(await kind.connect(port))
            await opened[-1].open_sessions(sessions)
    except UnexpectedAnswerError:
        for socket in opened:
            socket.close()
        raise
    return opened


async def step_all_v1(sockets: Sequence[V1Socket], rounds: int) -> None:
    """Let every session of every socket do ``rounds`` steps, all at once."""
    await asyncio.gather(*[socket.step(rounds) for socket in sockets])
