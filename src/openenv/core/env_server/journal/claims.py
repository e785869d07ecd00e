"""Who holds a session: whichever run of a server has taken it up last.

Each session on record has an owner, the run that may write it. To rebuild a session a run takes it up first, which
makes it the owner and is written down for the former one: that one learns of it from its next commit, before any answer
leaves. So a server that hung, or that its clients can't reach, can't go on with what another server holds.
"""

from collections.abc import Sequence
from operator import attrgetter

from openenv.core.env_server.journal.clock import journal_time
from openenv.core.env_server.journal.history import Row, find_session
from openenv.core.env_server.journal.store import Connection

_TAKE_UP = "UPDATE session SET owner = :run WHERE number = :number AND owner = :former AND ended IS NULL"
_TELL_FORMER = "INSERT INTO claim (run, session, at) VALUES (:former, :number, :at)"


def take_up(connection: Connection, rows: Sequence[Row], run: int) -> list[Row | None]:
    """Make a run the owner of sessions; what their former owners are committing is on record by then.

    Args:
        connection: To the tables.
        rows: The sessions as they were found.
        run: Number of the run.

    Returns:
        Each session as it is now; ``None`` for one that has ended or got another owner since it was found.
    """
    with connection.changing():
        connection.hold_back(sorted({row.owner for row in rows} - {run}))
        owned = {row.number: _take_up(connection, row, run) for row in sorted(rows, key=attrgetter("number"))}
    return [owned[row.number] for row in rows]


def _take_up(connection: Connection, row: Row, run: int) -> Row | None:
    values = {"run": run, "number": row.number, "former": row.owner}
    if connection.execute(_TAKE_UP, values).rowcount == 0:
        return None
    if row.owner != run:
        connection.execute(_TELL_FORMER, {"number": row.number, "former": row.owner, "at": journal_time(connection)})
    return find_session(connection, row.number)
