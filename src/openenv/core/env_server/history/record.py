"""Records of one session's requests and answers: in memory, or in a journal."""

import asyncio
import hashlib
import json
import time
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from openenv.core.env_server.history.batch import START_WITH_RESET, START_WITH_SNAPSHOT, Note
from openenv.core.env_server.history.entries import (
    LOST,
    REFUSED,
    Checkpoint,
    Data,
    History,
    HistoryEntry,
    KeptData,
    names_seed,
    restarts,
)
from openenv.core.exceptions import SessionLostError
from openenv.core.wire.arrays import Written, portable
from openenv.core.wire.messages import MessageType, V1Request

_RESET, _MCP = MessageType.RESET.value, MessageType.MCP.value

# A snapshot is taken after a reset, and then after so many requests or seconds, which bounds the time of a replay.
# An environment of some microseconds per step then spends a few percent on snapshots of some microseconds.
_SNAPSHOT_EVERY = 128
_SNAPSHOT_EVERY_S = 5.0

# Part of an answer to an agent after a timeout of the environment.
_TIMEOUT = '"code":"TIMEOUT"'

# Types of immutable values, which need no copy before the environment runs.
_UNCHANGEABLE = frozenset((str, int, float, bool, type(None)))

# Limits of the memory of a session without a journal: requests, and bytes of their data.
_MOST_REQUESTS = 1024
_MOST_BYTES = 1024 * 1024
# Characters of an answer up to which it is kept as a hash: of a longer one, the hash takes milliseconds.
_LONGEST_ANSWER = 8 * 1024 * 1024
# The same of all sessions of a process.
_MOST_BYTES_IN_ALL = 128 * 1024 * 1024
# Bytes that Python needs for a request on record beside its data.
_BYTES_OF_REQUEST = 256


class Record(Protocol):
    """Record of a session's requests and answers."""

    @property
    def recoverable(self) -> bool | None:
        """Whether the session could be rebuilt if the server's process ended now; ``None`` without a journal."""

    def copy_data(self, request: V1Request) -> KeptData:
        """Copy a request's data, for ``note``, before the environment may change it."""

    def note(self, request: V1Request, data_sent: KeptData, answer: Written, *, failed: bool = False) -> None:
        """Record a request that has been carried out.

        A replay can't start with a failed reset, whose effect is unknown: the reset is repeated after the requests
        before it. If the failed reset named a seed, later resets may draw from that seed.

        Args:
            request: The request.
            data_sent: Its data, from ``copy_data``.
            answer: The answer's data, perhaps with arrays; of an error, the whole message.
            failed: Whether the request was answered with an error.
        """

    def wants_checkpoint(self, last_id: int) -> bool:
        """Return whether a snapshot is due now, after the request of this number."""

    def keep_checkpoint(self, checkpoint: Checkpoint, request_id: int, answer: Written | None) -> None:
        """Record a checkpoint, after the request of this number and its answer."""

    async def history(self) -> History:
        """Return the history that a replay needs.

        Raises:
            SessionLostError: The history is not on record.
        """

    def ended(self, why: str) -> None:
        """Record the end of the session."""


class RecordMemory:
    """Memory of the records of all sessions of a process without a journal.

    Attributes:
        used: Bytes that the records hold now.
    """

    def __init__(self) -> None:
        self.used = 0


class MemoryRecord:
    """Record of the last requests of a session without a journal.

    Data is kept as JSON and answers as hashes, because every step pays for the record and few sessions are forked.
    Errors, and answers to agents, which may be errors, are kept as text: a replay has to recognise a timeout.

    Args:
        memory: Memory of the records of all sessions.
        parent: Record of the session that this session was forked from.
        recoverable: See ``Record``.
    """

    __slots__ = ("_bytes", "_ended", "_overflowed", "_requests", "_seeded", "memory", "recoverable")

    def __init__(
        self, memory: RecordMemory, parent: "MemoryRecord | None" = None, *, recoverable: bool | None = None
    ) -> None:
        self.memory = memory
        self.recoverable = recoverable
        self._ended = False  # set when the session has ended: the answer under way is not kept any more
        self._requests: list[tuple[str, bytes, int, str, str | int, bool]] = []
        self._bytes = 0
        self._overflowed = False
        self._seeded = False
        if parent is not None:
            self._requests.extend(parent._requests)
            self._bytes = parent._bytes
            memory.used += parent._bytes
            self._overflowed = parent._overflowed
            self._seeded = parent._seeded
            self.recoverable = parent.recoverable

    def copy_data(self, request: V1Request) -> bytes | None:
        """See ``Record``."""
        if self._overflowed and request.type != _RESET:
            return None  # not kept
        try:
            return to_json(request.data, inf_nan_mode="constants")
        except ValueError:
            return None

    def note(self, request: V1Request, data_sent: KeptData, answer: Written, *, failed: bool = False) -> None:
        """See ``Record``."""
        if failed:
            if request.type == REFUSED:
                return
            self._seeded = self._seeded or names_seed(request)
        elif request.type == _RESET and restarts(request, self._seeded):
            self._forget()
            self._overflowed = False
            self._seeded = names_seed(request)
        if self._overflowed or self._ended:
            return
        if len(answer) > _LONGEST_ANSWER and not failed:
            self._overflow()
            return
        kept = portable(answer) if failed or request.type == _MCP else hash(answer)
        kind, data = (request.type, data_sent) if isinstance(data_sent, bytes) else (LOST, b"{}")
        size = _BYTES_OF_REQUEST + len(data) + (len(kept) if isinstance(kept, str) else 0)
        self._bytes += size
        self.memory.used += size
        is_full = self._bytes > _MOST_BYTES or self.memory.used > _MOST_BYTES_IN_ALL
        if is_full or len(self._requests) == _MOST_REQUESTS:
            self._overflow()
            return
        self._requests.append((kind, data, request.id, request.session, kept, failed))

    def wants_checkpoint(self, last_id: int) -> bool:
        """See ``Record``."""
        return False

    def keep_checkpoint(self, checkpoint: Checkpoint, request_id: int, answer: Written | None) -> None:
        """See ``Record``."""

    async def history(self) -> History:
        """See ``Record``."""
        if self._overflowed:
            raise SessionLostError(
                f"more than {_MOST_REQUESTS} requests, or {_MOST_BYTES} bytes of them, came since the reset that it "
                f"would have to be replayed from, or an answer was longer than {_LONGEST_ANSWER} characters, or the "
                f"server had {_MOST_BYTES_IN_ALL} bytes of all sessions; a server with a journal keeps them all."
            )
        entries = [
            HistoryEntry(V1Request(kind, from_json(data), number, session), answer, failed)
            for kind, data, number, session, answer, failed in self._requests
        ]
        return History(entries, last_id=entries[-1].request.id if entries else 0)

    def ended(self, why: str) -> None:
        """See ``Record``."""
        self._forget()
        self._ended = True

    def _overflow(self) -> None:
        self._forget()
        self._overflowed = True

    def _forget(self) -> None:
        self._requests.clear()
        self.memory.used -= self._bytes
        self._bytes = 0


class JournalSink(Protocol):
    """Part of ``Journal`` that a record uses."""

    notes: list[Note]
    answers: list[str]

    @property
    def is_open(self) -> bool:
        """Whether the requests of sessions are written."""

    def change(self, statement: str, number: int, **values: Any) -> None:
        """Record a change of a session's row."""

    def commit_soon(self) -> "asyncio.Future[bool]":
        """Commit in the event loop's next iteration."""

    async def history_of(self, number: int) -> History:
        """Return the history that a replay of a session needs."""

    def end(self, number: int, why: str) -> None:
        """Record the end of a session."""


class JournalRecord:
    """Record of one session's requests and answers in a journal; see ``Record``.

    Args:
        journal: The journal.
        number: Number of the session.
        seeded: Whether an earlier reset has named a seed.

    Attributes:
        number: Number of the session.
        seeded: Whether a reset has named a seed.
        recoverable: Whether the history that rebuilds the session is on record, or will be before the answer is sent.
    """

    __slots__ = (
        "_add_answer",
        "_add_note",
        "_failed_id",
        "_journal",
        "_snapshot_due",
        "_snapshot_id",
        "number",
        "recoverable",
        "seeded",
    )

    def __init__(self, journal: JournalSink, number: int, *, seeded: bool) -> None:
        self.number = number
        self.seeded = seeded
        self.recoverable = True
        self._journal = journal
        self._add_note = journal.notes.append
        self._add_answer = journal.answers.append
        self._failed_id = 0
        self._snapshot_id = 0
        self._snapshot_due = 0.0  # an agent's first call starts an episode without a reset, see _note_reset

    def mark_unrecoverable(self) -> None:
        """Mark the session as not recoverable, since its history is not on record any more; a snapshot is due soon."""
        self.recoverable = False
        self._snapshot_id = 0
        self._snapshot_due = 0.0

    def copy_data(self, request: V1Request) -> Data:
        """See ``Record``."""
        data = request.data
        return dict(data) if _UNCHANGEABLE.issuperset(map(type, data.values())) else _copied(data)

    def note(self, request: V1Request, data_sent: KeptData, answer: Written, *, failed: bool = False) -> None:
        """See ``Record``."""
        kind, text = request.type, portable(answer)
        if failed:
            self.seeded = self.seeded or names_seed(request)
            self._failed_id = request.id
        elif kind == _RESET:
            self._note_reset(request)
        elif kind == _MCP and _TIMEOUT in text:
            self._failed_id = request.id
        length = -len(text) if failed else len(text)
        self._add_note((self.number, request.id, kind if data_sent is not None else LOST, data_sent, length))
        self._add_answer(text)

    def wants_checkpoint(self, last_id: int) -> bool:
        """See ``Record``."""
        if last_id == self._failed_id:  # the environment may still run it, or have ended
            return False
        if not self._journal.is_open:
            return False
        since = last_id - self._snapshot_id
        return since >= _SNAPSHOT_EVERY or (since > 0 and time.monotonic() >= self._snapshot_due)

    def keep_checkpoint(self, checkpoint: Checkpoint, request_id: int, answer: Written | None) -> None:
        """See ``Record``."""
        self._snapshot_id = request_id
        self._snapshot_due = time.monotonic() + _SNAPSHOT_EVERY_S
        self._journal.change(
            START_WITH_SNAPSHOT,
            self.number,
            request=request_id,
            snapshot=checkpoint.snapshot.to_bytes(),
            position=json.dumps([*checkpoint.position, None if answer is None else portable(answer)]),
        )
        self._journal.commit_soon().add_done_callback(self._kept)

    def _kept(self, written: "asyncio.Future[bool]") -> None:
        """Handle the end of the commit of a snapshot."""
        if not written.cancelled() and written.result():
            self.recoverable = True
        else:  # a snapshot is due again as soon as the journal can be written
            self.mark_unrecoverable()

    async def history(self) -> History:
        """See ``Record``."""
        if not self.recoverable:
            raise SessionLostError("some of its requests could not be written to the journal, or were removed from it.")
        return await self._journal.history_of(self.number)

    def ended(self, why: str) -> None:
        """See ``Record``."""
        self._journal.end(self.number, why)

    def _note_reset(self, request: V1Request) -> None:
        if restarts(request, self.seeded):
            self._journal.change(START_WITH_RESET, self.number, request=request.id)
            self.recoverable = self._journal.is_open
            self.seeded = names_seed(request)
        self._snapshot_due = 0.0  # the episode may be random even with a seed; only a snapshot can rebuild it


def _copied(data: dict[str, Any]) -> Data:
    """Copy a request's data, which the environment may change; return ``None`` where it is nested too deep for JSON."""
    try:
        copy: Data = from_json(to_json([[data]], inf_nan_mode="constants"))[0][0]
    except ValueError:
        return None
    return copy


def hashed(token: str) -> bytes:
    """Return the hash of a token, as it is recorded."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
