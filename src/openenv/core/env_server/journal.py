"""The record of every session of v1, from which a session is rebuilt when the server's process has ended.

Each request is noted with its answer and committed before the answer leaves, all that leave together in one commit. So
what was answered is on record, and what is not on record was not answered: its client sends it again, and it is carried
out then.

While the journal can't be written, sessions go on all the same, and what they do waits for it as far as there is room.
Whoever was answered what never came to be on record can't have that session rebuilt: its client knows of answers that
the journal does not.
"""

import asyncio
import hashlib
import json
import logging
import sqlite3
import time
from pathlib import Path
from typing import Any, Self, TypeAlias

from pydantic_core import from_json, to_json

from openenv.core.env_server.journal_file import BUSY_TIMEOUT_S, open_journal, prepare_journal
from openenv.core.env_server.journal_reader import Reader, Row, Told, find_session
from openenv.core.env_server.journal_upkeep import Upkeep
from openenv.core.env_server.limits import Limits
from openenv.core.env_server.metrics import Metrics
from openenv.core.env_server.protocol import V1Request
from openenv.core.env_server.records import LOST, Data, History, Position, Taken, names_seed, restarts
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.exceptions import JournalError, SessionLostError

logger = logging.getLogger(__name__)

_MEBIBYTE = 1024 * 1024
# Characters that may wait for a journal that can't be written just now; each time that it is tried, they are put into
# JSON again. What goes beyond is forgotten, and with it the chance to rebuild those sessions before their next reset.
_MOST_WAITING = 16 * 1024 * 1024
_RETRY_EVERY_S = 1.0
# A snapshot is taken after a reset, and then after so many requests or seconds, because that many would have to be
# repeated. An environment of some microseconds per step then spends a few percent on snapshots of some microseconds.
_SNAPSHOT_EVERY = 128
_SNAPSHOT_EVERY_S = 5.0

# What the answer to an agent has in it where the environment ran into its timeout.
_TIMEOUT = '"code":"TIMEOUT"'

# Types of values that an environment can't change under the hands of whoever notes them later.
_UNCHANGEABLE = frozenset((str, int, float, bool, type(None)))

Note: TypeAlias = tuple[int, int, str, Taken, int]
"""Number of a session, of its request, the request's type and data, and the length of the answer, below 0 of an error.

The answer is its data alone; of an error, the whole message.
"""

_ADD_BATCH = "INSERT INTO batch (at, notes, answers) VALUES (?, ?, ?)"
_ADD_SESSION = """
INSERT INTO session (number, id, added, opened_at, token, environment, first_id, start, since, batch)
VALUES (:number, :id, :batch, :now, :token, :environment, 1, :number, 0, :batch)
"""
_ADD_CHILD = """
INSERT INTO session SELECT :number, :id, :batch, :now, :token, :environment, :first_id, :parent, :parent_last_id,
    start, since, batch, snapshot, position, NULL, NULL FROM session WHERE number = :parent
"""
_START_WITH_RESET = """
UPDATE session SET start = :number, since = :request, batch = :batch, snapshot = NULL, position = NULL
WHERE number = :number
"""
_START_WITH_SNAPSHOT = """
UPDATE session SET start = :number, since = :request, batch = :batch, snapshot = :snapshot, position = :position
WHERE number = :number
"""
_END = "UPDATE session SET ended = :why, last_batch = :batch WHERE number = :number AND ended IS NULL"
# What is kept even of what is forgotten, no more than the server has places: a session that has its row can be rebuilt
# from its next reset on.
_KEPT = (_ADD_SESSION, _ADD_CHILD, _END)


class Journal:
    """A journal that this process writes; others may write the same one.

    Args:
        path: Its file, which is made where there is none. Beside it there will be two more, ``-wal`` and ``-shm``.
        max_age_s: Age from which what sessions did is forgotten.
        max_bytes: Bytes that the file may have; beyond that, what ended sessions did is forgotten first.

    Attributes:
        path: Its file.
        metrics: Where it counts what it writes.
        notes: What the next commit writes: requests,
        answers: and their answers. Records add to both; a call for each would cost a tenth of what all of it costs.

    Raises:
        ConfigurationError: The file can't be opened, is no journal, or is one of another version.
    """

    def __init__(self, path: Path, *, max_age_s: float, max_bytes: int) -> None:
        self.path = path
        self.metrics = Metrics()
        self._max_age_s = max_age_s
        self._max_bytes = max_bytes
        prepare_journal(path)
        self._reader = Reader(path)
        self._connection: sqlite3.Connection | None = None
        self._upkeep: Upkeep | None = None
        self._next_number = 0
        self.notes: list[Note] = []
        self.answers: list[str] = []
        self._changes: list[tuple[str, dict[str, Any]]] = []
        self._retry_at = 0.0
        self._committing_soon = False

    @classmethod
    def within(cls, limits: Limits, path: Path) -> Self:
        """Make the journal of a server."""
        max_bytes = int(limits.journal_max_size_mb * _MEBIBYTE)
        return cls(path, max_age_s=limits.journal_max_age_s, max_bytes=max_bytes)

    def start(self) -> None:
        """Get ready to write, in the thread that will; nothing where that was done already.

        Raises:
            JournalError: The file can't be opened any more.
        """
        if self._connection is not None:
            return
        try:
            self._connection = open_journal(self.path)
            run = self._connection.execute("INSERT INTO run (started_at) VALUES (?)", (time.time(),)).lastrowid
        except sqlite3.Error as error:
            self._drop_connection()
            self._tell_failing(error)
            raise JournalError(f"The journal {self.path} can't be opened: {error}.") from error
        self._next_number = (run or 0) << 32
        self._upkeep = Upkeep(self.path, self._max_age_s, self._max_bytes)

    async def close(self) -> None:
        """Write what waits, and let go of the file. What ends from now on is not noted: it can be taken up again."""
        if self._connection is None:
            return
        self._retry_at = 0.0
        self.commit()
        self._drop_connection()
        if self._upkeep is not None:
            await asyncio.to_thread(self._upkeep.close)

    def add(self, session_id: str, token: str, environment: str) -> "JournalRecord":
        """Take down a new session, with the next commit."""
        record = JournalRecord(self, self._number(), seeded=False)
        self.change(_ADD_SESSION, record.number, id=session_id, token=hashed(token), environment=environment)
        return record

    def add_child(
        self, parent: int, session_id: str, token: str, environment: str, *, seeded: bool, last_id: int, first_id: int
    ) -> "JournalRecord":
        """Take down a session that continues another one from the state after a request.

        Args:
            parent: The other one's number.
            session_id: The session's id; the other one's, where it is the same that was recovered.
            token: What its client must show.
            environment: What its environment is.
            seeded: Whether a reset of the other one has named a seed.
            last_id: Number of the request.
            first_id: Number of its own first request.
        """
        record = JournalRecord(self, self._number(), seeded=seeded)
        self.change(
            _ADD_CHILD,
            record.number,
            id=session_id,
            token=hashed(token),
            environment=environment,
            parent=parent,
            parent_last_id=last_id,
            first_id=first_id,
        )
        return record

    def commit(self) -> bool:
        """Write what was taken down.

        Returns:
            Whether all of it is on record now. What can't be written waits for a later commit.
        """
        if not (self.notes or self._changes):
            return True
        if self._connection is None:  # closed with the server
            self._clear()
            return False
        if self.metrics.journal_failing and time.monotonic() < self._retry_at:
            return False
        began = time.perf_counter()
        try:
            self._write(self._connection)
        except sqlite3.Error as error:
            self._fail(error)
            return False
        self.metrics.journal_commits += 1
        self.metrics.journal_seconds += time.perf_counter() - began
        self._clear()
        if self.metrics.journal_failing:
            self._tell_mended()
        return True

    def end(self, number: int, why: str) -> None:
        """Take down that a session has ended, soon; not once the journal is closed, as when the server ends."""
        if self._connection is None:
            return
        self.change(_END, number, why=why)
        self.commit_soon()

    def commit_soon(self) -> None:
        """Commit in the loop's next turn; for what no answer waits for."""
        if not self._committing_soon:
            self._committing_soon = True
            asyncio.get_running_loop().call_soon(self._commit_late)

    def find(self, session: str | int) -> Row | None:
        """Find a session by its id or its number; by its id as it was when it was last recovered.

        Raises:
            JournalError: The journal can't be read.
        """
        self.start()
        self.commit()  # for the ends of sessions that were taken down a moment ago
        assert self._connection is not None
        try:
            return find_session(self._connection, session)
        except sqlite3.Error as error:
            raise JournalError(f"The journal {self.path} can't be read: {error}.") from error

    async def tell(self, row: Row) -> Told:
        """Tell how to rebuild a session.

        Raises:
            SessionLostError: Some of what it did is not on record.
            JournalError: The journal can't be read.
        """
        return await self._reader.tell(row)

    def change(self, statement: str, number: int, **values: Any) -> None:
        """Take down a session's row or a change of it, with the next commit.

        Args:
            statement: What to execute, with named parameters.
            number: The session's number.
            **values: Its further parameters; there are also ``now``, and ``batch``, the number of this commit's batch.
        """
        self._changes.append((statement, {"number": number, "now": time.time(), **values}))

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _write(self, connection: sqlite3.Connection) -> None:
        batch = (time.time(), _as_json(self.notes), "".join(self.answers))
        if not self._changes:
            connection.execute(_ADD_BATCH, batch)
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            number = connection.execute(_ADD_BATCH, batch).lastrowid
            for statement, values in self._changes:
                connection.execute(statement, {**values, "batch": number})
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _fail(self, error: sqlite3.Error) -> None:
        self._tell_failing(error)
        self._retry_at = time.monotonic() + _RETRY_EVERY_S
        if self._waiting() > _MOST_WAITING:
            self._forget_waiting()

    def _tell_failing(self, error: sqlite3.Error) -> None:
        if not self.metrics.journal_failing:
            self.metrics.journal_failing = True
            logger.error(
                "the journal %s can't be written, so sessions go on without it and would be lost with this process: %s",
                self.path,
                error,
            )
            self._wait_for_others(is_patient=False)

    def _tell_mended(self) -> None:
        self.metrics.journal_failing = False
        logger.warning("the journal %s can be written again", self.path)
        self._wait_for_others(is_patient=True)

    def _wait_for_others(self, *, is_patient: bool) -> None:
        """Say whether to wait for others that write: once it was in vain, it would hold up the event loop each time."""
        if self._connection is not None:
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000 if is_patient else 0:.0f}")

    def _waiting(self) -> int:
        values = (value for _, values in self._changes for value in values.values() if isinstance(value, str | bytes))
        return len(_as_json(self.notes)) + sum(map(len, self.answers)) + sum(map(len, values))

    def _forget_waiting(self) -> None:
        changes = {(statement, values["number"]): values for statement, values in self._changes if statement in _KEPT}
        came_and_went = {number for statement, number in changes if statement != _END and (_END, number) in changes}
        self._clear()
        self._changes += [(how, values) for (how, number), values in changes.items() if number not in came_and_went]

    def _clear(self) -> None:
        self.notes.clear()
        self.answers.clear()
        self._changes.clear()

    def _commit_late(self) -> None:
        self._committing_soon = False
        self.commit()

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class JournalRecord:
    """Takes down what one session is asked and answers; see ``Record``.

    Args:
        journal: Where.
        number: Number of the session.
        seeded: Whether a reset before has named a seed.

    Attributes:
        number: Number of the session.
        seeded: Whether a reset has named a seed.
    """

    __slots__ = (
        "_add_answer",
        "_add_note",
        "_failed_id",
        "_journal",
        "_snapshot_due",
        "_snapshot_id",
        "number",
        "seeded",
    )

    def __init__(self, journal: Journal, number: int, *, seeded: bool) -> None:
        self.number = number
        self.seeded = seeded
        self._journal = journal
        self._add_note = journal.notes.append
        self._add_answer = journal.answers.append
        self._failed_id = 0
        self._snapshot_id = 0
        self._snapshot_due = 0.0  # an agent's first call begins an episode without any reset, see _note_reset

    def takes(self, request: V1Request) -> Data:
        """See ``Record``."""
        data = request.data
        return data if _UNCHANGEABLE.issuperset(map(type, data.values())) else _copied(data)

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
        if last_id == self._failed_id:  # the environment may still be at it, or be gone
            return False
        since = last_id - self._snapshot_id
        return since >= _SNAPSHOT_EVERY or (since > 0 and time.monotonic() >= self._snapshot_due)

    def keep_snapshot(self, snapshot: Snapshot, position: Position, request_id: int, answer: str | None) -> None:
        """See ``Record``."""
        self._snapshot_id = request_id
        self._snapshot_due = time.monotonic() + _SNAPSHOT_EVERY_S
        self._journal.change(
            _START_WITH_SNAPSHOT,
            self.number,
            request=request_id,
            snapshot=snapshot.written,
            position=json.dumps([*position, answer]),
        )
        self._journal.commit_soon()

    async def history(self) -> History:
        """See ``Record``."""
        if not self._journal.commit():
            raise JournalError(f"The journal {self._journal.path} can't be written just now.")
        row = self._journal.find(self.number)
        if row is None:
            raise SessionLostError("it is not in the journal any more.")
        return (await self._journal.tell(row)).history

    def ended(self, why: str) -> None:
        """See ``Record``."""
        self._journal.end(self.number, why)

    def _note_reset(self, request: V1Request) -> None:
        if restarts(request, self.seeded):
            self._journal.change(_START_WITH_RESET, self.number, request=request.id)
            self.seeded = names_seed(request)
        self._snapshot_due = 0.0  # the episode may be a random one, seed or not, which only a snapshot can rebuild


def _copied(data: dict[str, Any]) -> Data:
    """Copy what a request says, since the environment may change it; ``None`` where it is nested too deep for JSON."""
    try:
        copy: Data = from_json(to_json([[data]], inf_nan_mode="constants"))[0][0]
    except ValueError:
        return None
    return copy


def _as_json(notes: list[Note]) -> bytes:
    return to_json(notes, inf_nan_mode="constants")


def hashed(token: str) -> bytes:
    """Return the form in which a token is on record."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
