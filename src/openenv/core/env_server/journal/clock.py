"""A journal's own time, by which it says how old something is and which servers are there.

It goes on while a server is at it, whatever the machine's clock is set to: between two looks at it no more time passes
than this process has seen pass. Of the time before a server looks for the first time, in which the machine may have
been off or its clock been set, a tenth of the age at most counts after which things are forgotten.
"""

import time

from openenv.core.env_server.journal.store import Connection

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
"""Tables that every store has beside the four others; a journal of an earlier release gets them when it is opened."""

_LARGEST_PART_UNSEEN = 0.1

_BEGIN = "INSERT INTO clock (number, at, wall) VALUES (1, :wall, :wall) ON CONFLICT (number) DO NOTHING"
_GO_ON = """
UPDATE clock SET wall = :wall, at = at + CASE
    WHEN wall > :wall THEN 0 WHEN :wall - wall > :longest THEN :longest ELSE :wall - wall
END
"""
_READ = "SELECT at FROM clock"
_BE_ALIVE = "INSERT INTO alive (run, at) VALUES (:run, :at) ON CONFLICT (run) DO UPDATE SET at = :at"
# Those of an earlier release that writes it too: as far as anybody knows they are there.
_COUNT_IN = "INSERT INTO alive (run, at) SELECT number, :at FROM run WHERE number NOT IN (SELECT run FROM alive)"


class JournalClock:
    """The journal's time, as one process reads it.

    Args:
        max_age_s: Age after which what is in the journal is forgotten.
    """

    def __init__(self, max_age_s: float) -> None:
        self._longest_unseen_s = max_age_s * _LARGEST_PART_UNSEEN
        self._has_begun = False
        # One tuple, since a thread sets it: the journal's time, and when it was read.
        self._read = (time.time(), time.monotonic())

    def now(self) -> float:
        """Return the journal's time, in seconds; it begins like the machine's clock."""
        at, read = self._read
        return at + (time.monotonic() - read)

    def go_on(self, connection: Connection, run: int) -> None:
        """Have the journal's time go on, and a run be there at this time.

        Args:
            connection: To the tables.
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
        """Go by the time of another journal from now on."""
        self._has_begun = False


def journal_time(connection: Connection) -> float:
    """Return the journal's time as of the last look at it."""
    found = connection.execute(_READ).fetchone()
    return time.time() if found is None else float(found[0])
