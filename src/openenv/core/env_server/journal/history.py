"""What a journal tells of a session, in whatever store it is kept."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic_core import from_json

from openenv.core.env_server.journal.store import Connection
from openenv.core.env_server.protocol import V1Request
from openenv.core.env_server.records import Data, History, Position, Recorded, answer_message
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.exceptions import SessionLostError

_COLUMNS = (
    "number, id, token, environment, first_id, parent, parent_last_id, start, since, batch, snapshot, position, ended, "
    "owner"
)

NUMBER_BITS = 32
"""The lower bits of a session's number count the sessions of a run; the upper ones are the run's number."""


class Row(NamedTuple):
    """A session's row, see ``sqlite.py``."""

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


def run_of(session: int) -> int:
    """Return the run in which a session was added, of which its number tells."""
    return session >> NUMBER_BITS


def find_session(connection: Connection, session: str | int) -> Row | None:
    """Find a session by its number or its id; where it was recovered, as it has been since the last time."""
    column = "id" if isinstance(session, str) else "number"
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM session WHERE {column} = :session ORDER BY added DESC LIMIT 1",  # noqa: S608  # constants
        {"session": session},
    ).fetchone()
    return None if found is None else Row(*found)


def read_sessions(connection: Connection, rows: Sequence[Row]) -> list[Told | SessionLostError]:
    """Read what sessions did, in one pass over the journal.

    Raises:
        ValueError: It holds what nobody has written.
    """
    if not rows:
        return []
    with connection.reading():  # so that the batches fit the rows
        lineages = [_lineage(connection, row) for row in rows]
        numbers = {row.number for lineage in lineages for row in lineage}
        first = min(row.batch for row in rows)
        notes = _read_notes(connection, numbers, first)
    return [_tell(lineage, notes) for lineage in lineages]


def _lineage(connection: Connection, row: Row) -> list[Row]:
    """The sessions that a session's history runs through, the oldest first."""
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
