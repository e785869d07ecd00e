"""Clock of a journal, which measures the age of its batches and which servers are alive.

The clock advances while a server runs, whatever the machine's clock is set to: between two readings no more time passes
than on this process's monotonic clock. Of the time before a server's first reading, in which the machine may have been
off or its clock been set, at most a tenth of the maximum age counts.
"""

import time

from openenv.core.env_server.history.store import Connection

CLOCK_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS clock (
        number INTEGER PRIMARY KEY,             -- there is one, 1
        at DOUBLE PRECISION NOT NULL,           -- the journal's time,
        wall DOUBLE PRECISION NOT NULL          -- when a machine's clock said this
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS alive (
        run INTEGER PRIMARY KEY,
        at DOUBLE PRECISION NOT NULL            -- when it was last at it, in the journal's time
    )
    """,
)
"""Tables that every store has beside the four others; a journal of an earlier release gets these when it is opened."""

_LARGEST_PART_UNSEEN = 0.1

_BEGIN = "INSERT INTO clock (number, at, wall) VALUES (1, :wall, :wall) ON CONFLICT (number) DO NOTHING"
_GO_ON = """
UPDATE clock SET wall = :wall, at = at + CASE
    WHEN wall > :wall THEN 0 WHEN :wall - wall > :longest THEN :longest ELSE :wall - wall
END
"""
_READ = "SELECT at FROM clock"
_BE_ALIVE = "INSERT INTO alive (run, at) VALUES (:run, :at) ON CONFLICT (run) DO UPDATE SET at = :at"
# Runs of servers of an earlier release, which do not write this table, count as alive.
_COUNT_IN = "INSERT INTO alive (run, at) SELECT number, :at FROM run WHERE number NOT IN (SELECT run FROM alive)"


class JournalClock:
    """Clock of a journal, as one process reads it.

    Args:
        max_age_s: Age in seconds after which the journal's batches are deleted.
    """

    def __init__(self, max_age_s: float) -> None:
        self._longest_unseen_s = max_age_s * _LARGEST_PART_UNSEEN
        self._has_begun = False
        # A single tuple, since a thread sets it: the journal's time, and the monotonic time then.
        self._read = (time.time(), time.monotonic())

    def now(self) -> float:
        """Return the journal's time, in seconds; it starts at the machine's clock."""
        at, read = self._read
        return at + (time.monotonic() - read)

    def go_on(self, connection: Connection, run: int) -> None:
        """Advance the journal's time, and mark a run as alive at that time.

        Args:
            connection: Connection to the tables.
            run: Number of the run.
        """
        longest = time.monotonic() - self._read[1] if self._has_begun else self._longest_unseen_s
        with connection.changing():
            wall = {"wall": time.time()}
            connection.execute(_BEGIN, wall)
            connection.execute(_GO_ON, {**wall, "longest": longest})
            at = journal_time(connection)
            connection.execute(_BE_ALIVE, {"run": run, "at": at})
            connection.execute(_COUNT_IN, {"at": at})
        self._read = (at, time.monotonic())
        self._has_begun = True

    def begin_anew(self) -> None:
        """Follow the time of another journal from now on."""
        self._has_begun = False


def journal_time(connection: Connection) -> float:
    """Return the journal's time at the last reading."""
    found = connection.execute(_READ).fetchone()
    return time.time() if found is None else float(found[0])
