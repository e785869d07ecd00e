"""Ownership of a recorded session: the run of a server that acquired the session last.

Each recorded session has an owner, the run that may write the session. To rebuild a session, a run acquires the session
first and so becomes its owner; the former owner reads that with its next commit, before any answer is sent. So a server
that hung, or that its clients can't reach, can't continue a session that another server owns.
"""

from collections.abc import Sequence
from operator import attrgetter

from openenv.core.env_server.history.clock import journal_time
from openenv.core.env_server.history.history import Row, find_session
from openenv.core.env_server.history.store import Connection

_ACQUIRE = "UPDATE session SET owner = :run WHERE number = :number AND owner = :former AND ended IS NULL"
_TELL_FORMER = "INSERT INTO claim (run, session, at) VALUES (:former, :number, :at)"


def acquire(connection: Connection, rows: Sequence[Row], run: int) -> list[Row | None]:
    """Make a run the owner of sessions; commits of their former owners in progress are complete by then.

    Args:
        connection: Connection to the tables.
        rows: The sessions' rows as they were found.
        run: Number of the run.

    Returns:
        The current row of each session; ``None`` for a session that has ended or changed its owner since it was found.
    """
    with connection.changing():
        connection.hold_back(sorted({row.owner for row in rows} - {run}))
        owned = {row.number: _acquire(connection, row, run) for row in sorted(rows, key=attrgetter("number"))}
    return [owned[row.number] for row in rows]


def _acquire(connection: Connection, row: Row, run: int) -> Row | None:
    values = {"run": run, "number": row.number, "former": row.owner}
    if connection.execute(_ACQUIRE, values).rowcount == 0:
        return None
    if row.owner != run:
        connection.execute(_TELL_FORMER, {"number": row.number, "former": row.owner, "at": journal_time(connection)})
    return find_session(connection, row.number)
