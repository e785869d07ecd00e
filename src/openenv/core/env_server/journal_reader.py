"""Reads out of a journal what a session did."""

import asyncio
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic_core import from_json

from openenv.core.env_server.journal_file import open_journal
from openenv.core.env_server.protocol import V1Request
from openenv.core.env_server.records import Data, History, Position, Recorded, answer_message
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.exceptions import JournalError, SessionLostError

_COLUMNS = (
    "number, id, token, environment, first_id, parent, parent_last_id, start, since, batch, snapshot, position, ended"
)


class Row(NamedTuple):
    """A session's row, see ``journal_file``."""

    number: int
    id: str
    token: bytes
    environment: str
    first_id: int
    parent: int | None
    parent_last_id: int | None
    start: int
    since: int
    batch: int
    snapshot: bytes | str | None
    position: str | None
    ended: str | None


@dataclass(frozen=True)
class Told:
    """What a journal tells of a session.

    Attributes:
        history: How to bring an environment to where it stands.
        last_id: Number of its last request; 0 where there was none.
        last_type: Type of that request; ``None`` where only its answer is on record.
        last_answer: The answer to it, a whole message.
    """

    history: History
    last_id: int
    last_type: str | None = None
    last_answer: str | None = None


def find_session(connection: sqlite3.Connection, session: str | int) -> Row | None:
    """Find a session by its number or its id; where it was recovered, as it has been since the last time."""
    column = "id" if isinstance(session, str) else "number"
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM session WHERE {column} = ? ORDER BY added DESC LIMIT 1",  # noqa: S608  # constants
        (session,),
    ).fetchone()
    return None if found is None else Row(*found)


class Reader:
    """Reads what sessions did: in a thread, and for all that are asked for together in one go.

    Args:
        path: The journal.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wanted: list[tuple[Row, asyncio.Future[Told]]] = []
        self._reading: asyncio.Task[None] | None = None

    async def tell(self, row: Row) -> Told:
        """Tell how to rebuild a session.

        Raises:
            SessionLostError: Some of what it did is not in the journal.
            JournalError: The journal can't be read.
        """
        told: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._wanted.append((row, told))
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_wanted())
        return await told

    async def _read_wanted(self) -> None:
        try:
            while self._wanted:
                wanted, self._wanted = self._wanted, []
                await self._read([(row, told) for row, told in wanted if not told.done()])
        finally:
            self._reading = None

    async def _read(self, wanted: "list[tuple[Row, asyncio.Future[Told]]]") -> None:
        try:
            read = await asyncio.to_thread(read_sessions, self._path, [row for row, _ in wanted])
        except (sqlite3.Error, ValueError) as error:
            read = [JournalError(f"The journal {self._path} can't be read: {error}.")] * len(wanted)
        for (_, told), result in zip(wanted, read, strict=True):
            if told.done():  # whoever asked has gone
                continue
            if isinstance(result, Told):
                told.set_result(result)
            else:
                told.set_exception(result)


def read_sessions(path: Path, rows: list[Row]) -> "list[Told | SessionLostError | JournalError]":
    """Read what sessions did, in one pass over the journal.

    Raises:
        sqlite3.Error: It can't be read; or ``ValueError``.
    """
    with closing(open_journal(path)) as connection:
        connection.execute("BEGIN")  # so that the batches fit the rows
        lineages = [_lineage(connection, row) for row in rows]
        numbers = {row.number for lineage in lineages for row in lineage}
        first = min((row.batch for row in rows), default=0)
        notes = _read_notes(connection, numbers, first)
    return [_tell(lineage, notes) for lineage in lineages]


def _lineage(connection: sqlite3.Connection, row: Row) -> list[Row]:
    """The sessions that a session's history runs through, the oldest first."""
    lineage = [row]
    while lineage[0].number != row.start and lineage[0].parent is not None:
        before = find_session(connection, lineage[0].parent)
        if before is None:
            break
        lineage.insert(0, before)
    return lineage


_Note = tuple[int, str, Data, str, bool]


def _read_notes(connection: sqlite3.Connection, numbers: set[int], first: int) -> dict[int, list[_Note]]:
    notes: dict[int, list[_Note]] = defaultdict(list)
    batches: Iterable[tuple[str, str]] = connection.execute(
        "SELECT notes, answers FROM batch WHERE number >= ? ORDER BY number", (first,)
    )
    for written, answers in batches:
        begin = 0
        for number, request_id, kind, data, length in from_json(written):
            if number in numbers:
                notes[number].append((request_id, kind, data, answers[begin : begin + abs(length)], length < 0))
            begin += abs(length)
    return notes


def _tell(lineage: list[Row], notes: dict[int, list[_Note]]) -> Told | SessionLostError:
    row = lineage[-1]
    try:
        recorded = list(_along(lineage, notes))
    except SessionLostError as error:
        return error
    history, answer = History(recorded), None
    if row.snapshot is not None and row.position is not None:
        *position, answer = json.loads(row.position)
        history = History(recorded, Snapshot(row.snapshot), Position(*position))
    last = recorded[-1] if recorded else None
    if row.first_id == 1 and row.start != row.number and not notes[row.number]:  # forked, and did nothing since
        return Told(history, 0)
    if last is not None:
        return Told(history, last.request.id, last.request.type, answer_message(last))
    return Told(history, row.since if row.snapshot is not None else row.first_id - 1, None, answer)


def _along(lineage: list[Row], notes: dict[int, list[_Note]]) -> Iterator[Recorded]:
    """The requests to repeat, along a lineage.

    Raises:
        SessionLostError: One is missing.
    """
    row = lineage[-1]
    if lineage[0].number != row.start:
        raise SessionLostError("the session that it continues is not in the journal any more.")
    for position, part in enumerate(lineage):
        first_id = part.first_id
        if part.number == row.start and row.since > 0:
            first_id = row.since if row.snapshot is None else row.since + 1
        last_id = lineage[position + 1].parent_last_id if part is not row else None
        yield from _without_gaps(part, notes[part.number], first_id, last_id)


def _without_gaps(row: Row, notes: list[_Note], first_id: int, last_id: int | None) -> Iterator[Recorded]:
    expected = first_id
    for request_id, kind, data, answer, failed in notes:
        if request_id < first_id or (last_id is not None and request_id > last_id):
            continue
        if request_id != expected:
            break
        yield Recorded(V1Request(kind, data or {}, request_id, row.id), answer, failed)
        expected += 1
    end = last_id
    if end is None:  # a history that starts with a reset has at least that
        end = notes[-1][0] if notes else first_id - 1 + (row.start == row.number and row.since == first_id)
    if expected <= end:
        raise SessionLostError(
            f"request {expected} is not in the journal: what came so long ago was removed to keep the journal small, "
            "or could not be written."
        )
