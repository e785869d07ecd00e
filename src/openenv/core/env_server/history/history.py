"""Histories of sessions, read from a journal in any store."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic_core import from_json

from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.history.entries import Data, History, HistoryEntry, Position, answer_message
from openenv.core.env_server.history.store import Connection
from openenv.core.exceptions import SessionLostError
from openenv.core.wire.messages import V1Request

_COLUMNS = (
    "number, id, token, environment, first_id, parent, parent_last_id, start, since, batch, snapshot, position, ended, "
    "owner"
)

NUMBER_BITS = 32
"""Lower bits of a session's number, which count the sessions of a run; the upper bits are the run's number."""


class Row(NamedTuple):
    """Row of a session, see ``sqlite.py``."""

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
    snapshot: bytes | None
    position: str | None
    ended: str | None
    owner: int


@dataclass(frozen=True)
class Told:
    """Session as read from a journal.

    Attributes:
        history: History that brings a new environment to the session's state.
        last_id: Number of the last request; 0 without any request.
        last_type: Type of the last request; ``None`` where only the answer is on record.
        last_answer: Answer to the last request, a whole message.
    """

    history: History
    last_id: int
    last_type: str | None = None
    last_answer: str | None = None


def run_of(session: int) -> int:
    """Return the run in which a session was added, the upper bits of the session's number."""
    return session >> NUMBER_BITS


def find_session(connection: Connection, session: str | int) -> Row | None:
    """Return a session by its number or id; of a recovered session, the row of the last recovery."""
    column = "id" if isinstance(session, str) else "number"
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM session WHERE {column} = :session ORDER BY added DESC LIMIT 1",  # noqa: S608  # constants
        {"session": session},
    ).fetchone()
    return None if found is None else Row(*found)


def read_sessions(connection: Connection, rows: Sequence[Row]) -> list[Told | SessionLostError]:
    """Read the histories of sessions, in one pass over the journal.

    Raises:
        ValueError: The journal is corrupt.
    """
    if not rows:
        return []
    with connection.reading():  # so that batches and rows are of the same moment
        lineages = [_lineage(connection, row) for row in rows]
        numbers = {row.number for lineage in lineages for row in lineage}
        first = min(row.batch for row in rows)
        notes = _read_notes(connection, numbers, first)
    return [_tell(lineage, notes) for lineage in lineages]


def _lineage(connection: Connection, row: Row) -> list[Row]:
    """Return the ancestors in a session's history, oldest first, and the session itself."""
    lineage = [row]
    while lineage[0].number != row.start and lineage[0].parent is not None:
        before = find_session(connection, lineage[0].parent)
        if before is None:
            break
        lineage.insert(0, before)
    return lineage


_Note = tuple[int, str, Data, str, bool]


def _read_notes(connection: Connection, numbers: set[int], first: int) -> dict[int, list[_Note]]:
    notes: dict[int, list[_Note]] = defaultdict(list)
    runs = ", ".join(str(run) for run in sorted({run_of(number) for number in numbers}))
    batches = connection.stream(
        f"SELECT notes, answers FROM batch WHERE number >= :first AND run IN ({runs}) ORDER BY number",  # noqa: S608  # numbers
        {"first": first},
    )
    for written, answers in batches:
        text = answers if isinstance(answers, str) else answers.decode()
        begin = 0
        for number, request_id, kind, data, length in from_json(written):
            if number in numbers:
                notes[number].append((request_id, kind, data, text[begin : begin + abs(length)], length < 0))
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
        history = History(recorded, Snapshot.from_bytes(row.snapshot), Position(*position))
    last = recorded[-1] if recorded else None
    if row.first_id == 1 and row.start != row.number and not notes[row.number]:  # forked, and without a request since
        return Told(history, 0)
    if last is not None:
        return Told(history, last.request.id, last.request.type, answer_message(last))
    return Told(history, row.since if row.snapshot is not None else row.first_id - 1, None, answer)


def _along(lineage: list[Row], notes: dict[int, list[_Note]]) -> Iterator[HistoryEntry]:
    """Iterate over the requests to replay, along a lineage.

    Raises:
        SessionLostError: A request is missing.
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


def _without_gaps(row: Row, notes: list[_Note], first_id: int, last_id: int | None) -> Iterator[HistoryEntry]:
    expected = first_id
    for request_id, kind, data, answer, failed in notes:
        if request_id < first_id or (last_id is not None and request_id > last_id):
            continue
        if request_id != expected:
            break
        yield HistoryEntry(V1Request(kind, data or {}, request_id, row.id), answer, failed)
        expected += 1
    end = last_id
    if end is None:  # a history that starts with a reset has at least that request
        end = notes[-1][0] if notes else first_id - 1 + (row.start == row.number and row.since == first_id)
    if expected <= end:
        raise SessionLostError(
            f"request {expected} is not in the journal: what came so long ago was removed to keep the journal small, "
            "or could not be written."
        )
