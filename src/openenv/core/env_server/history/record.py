"""Record of one session in a journal."""

import asyncio
import hashlib
import json
import time
from typing import Any, Protocol

from pydantic_core import from_json, to_json

from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.history.batch import START_WITH_RESET, START_WITH_SNAPSHOT, Note
from openenv.core.env_server.history.entries import LOST, Data, History, Position, Taken, names_seed, restarts
from openenv.core.exceptions import SessionLostError
from openenv.core.wire.messages import V1Request

# A snapshot is taken after a reset, and then after so many requests or seconds, which bounds the time of a replay.
# An environment of some microseconds per step then spends a few percent on snapshots of some microseconds.
_SNAPSHOT_EVERY = 128
_SNAPSHOT_EVERY_S = 5.0

# Part of an answer to an agent after a timeout of the environment.
_TIMEOUT = '"code":"TIMEOUT"'

# Types of immutable values, which need no copy before the environment runs.
_UNCHANGEABLE = frozenset((str, int, float, bool, type(None)))


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

    def lose_beginning(self) -> None:
        """Mark the session as not recoverable, since its history is not on record any more; a snapshot is due soon."""
        self.recoverable = False
        self._snapshot_id = 0
        self._snapshot_due = 0.0

    def takes(self, request: V1Request) -> Data:
        """See ``Record``."""
        data = request.data
        return dict(data) if _UNCHANGEABLE.issuperset(map(type, data.values())) else _copied(data)

    def note(self, request: V1Request, taken: Taken, answer: str) -> None:
        """See ``Record``."""
        kind = request.type
        if kind == "reset":
            self._note_reset(request)
        elif kind == "mcp" and _TIMEOUT in answer:
            self._failed_id = request.id
        self._add_note((self.number, request.id, kind if taken is not None else LOST, taken, len(answer)))
        self._add_answer(answer)

    def note_error(self, request: V1Request, taken: Taken, message: str) -> None:
        """See ``Record``."""
        self.seeded = self.seeded or names_seed(request)
        self._failed_id = request.id
        kind = request.type if taken is not None else LOST
        self._add_note((self.number, request.id, kind, taken, -len(message)))
        self._add_answer(message)

    def wants_snapshot(self, last_id: int) -> bool:
        """See ``Record``."""
        if last_id == self._failed_id:  # the environment may still run it, or have ended
            return False
        if not self._journal.is_open:
            return False
        since = last_id - self._snapshot_id
        return since >= _SNAPSHOT_EVERY or (since > 0 and time.monotonic() >= self._snapshot_due)

    def keep_snapshot(self, snapshot: Snapshot, position: Position, request_id: int, answer: str | None) -> None:
        """See ``Record``."""
        self._snapshot_id = request_id
        self._snapshot_due = time.monotonic() + _SNAPSHOT_EVERY_S
        self._journal.change(
            START_WITH_SNAPSHOT,
            self.number,
            request=request_id,
            snapshot=snapshot.to_bytes(),
            position=json.dumps([*position, answer]),
        )
        self._journal.commit_soon().add_done_callback(self._kept)

    def _kept(self, written: "asyncio.Future[bool]") -> None:
        """Handle the end of the commit of a snapshot."""
        if not written.cancelled() and written.result():
            self.recoverable = True
        else:  # a snapshot is due again as soon as the journal can be written
            self.lose_beginning()

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
