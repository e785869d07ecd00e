"""Rows of recorded sessions, and which server owns each.

The owner of a session is the run of the server that may write it. To rebuild a session, a run acquires the session
first and so becomes its owner; the former owner reads that with its next commit, before any answer is sent. So a server
that hung, or that its clients can't reach, can't continue a session that another server owns.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from openenv.core.env_server.history.clock import journal_time
from openenv.core.env_server.history.store import Connection

_COLUMNS = (
    "number, id, token, environment, first_id, parent, parent_last_id, start, since, batch, snapshot, position, ended, "
    "owner"
)
_ACQUIRE = "UPDATE session SET owner = :run WHERE number = :number AND owner = :former AND ended IS NULL"
_NOTIFY_FORMER = "INSERT INTO claim (run, session, at) VALUES (:former, :number, :at)"


NUMBER_BITS = 32
"""Lower bits of a session's number, which count the sessions of a run; the upper bits are the run's number."""


class JournalRow(NamedTuple):
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


def run_of(session: int) -> int:
    """Return the run in which a session was added, the upper bits of the session's number."""
    return session >> NUMBER_BITS


def find_session(connection: Connection, session: str | int) -> JournalRow | None:
    """Return a session by its number or id; of a recovered session, the row of the last recovery."""
    column = "id" if isinstance(session, str) else "number"
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM session WHERE {column} = :session ORDER BY added DESC LIMIT 1",  # noqa: S608  # constants
        {"session": session},
    ).fetchone()
    return None if found is None else JournalRow(*found)


def acquire(connection: Connection, rows: Sequence[JournalRow], run: int) -> list[JournalRow | None]:
    """Make a run the owner of sessions; commits of their former owners in progress are complete by then.

    Args:
        connection: Connection to the tables.
        rows: The sessions' rows as they were found.
        run: Number of the run.

    Returns:
        The current row of each session; ``None`` for a session that has ended or changed its owner since it was found.
    """
    with connection.changing():
        connection.lock_runs(sorted({row.owner for row in rows} - {run}))
        owned = {row.number: _acquire(connection, row, run) for row in sorted(rows, key=attrgetter("number"))}
    return [owned[row.number] for row in rows]


def _acquire(connection: Connection, row: JournalRow, run: int) -> JournalRow | None:
    values = {"run": run, "number": row.number, "former": row.owner}
    if connection.execute(_ACQUIRE, values).rowcount == 0:
        return None
    if row.owner != run:
        connection.execute(_NOTIFY_FORMER, {"number": row.number, "former": row.owner, "at": journal_time(connection)})
    return find_session(connection, row.number)
