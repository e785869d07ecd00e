"""Retention of a journal: a thread deletes old batches and does the store's regular maintenance."""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event, Thread

from pydantic_core import from_json

from openenv.core.env_server.history.clock import JournalClock, journal_time
from openenv.core.env_server.history.store import Connection, Store
from openenv.core.exceptions import JournalError

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
# Sessions to delete at a time: other writers of a file wait meanwhile.
_PIECE_OF_SESSIONS = 100
# Pause between deletions for other writers, which retry after some milliseconds.
_PAUSE_S = 0.01
# Seconds that the server's shutdown waits for a disk that does not answer.
_CLOSE_TIMEOUT_S = 5.0

# Fraction of the maximum age between searches, each of which reads all old batches.
_SEARCH_EVERY = 0.01

# A live session has not ended, and the server that owns it was alive at ``seen`` or later.
_LIVE = "ended IS NULL AND owner IN (SELECT run FROM alive WHERE at >= :seen)"
_NEEDED = f"""
WITH RECURSIVE needed (number, parent, start, batch) AS (
    SELECT number, parent, start, batch FROM session WHERE {_LIVE}
    UNION
    SELECT before.number, before.parent, needed.start, needed.batch
    FROM needed JOIN session AS before ON before.number = needed.parent
    WHERE needed.number <> needed.start
)
"""  # noqa: S608  # constants
_NEEDED_FROM = f"{_NEEDED} SELECT number, min(batch) FROM needed GROUP BY number"  # noqa: S608  # a constant
_FIRST_YOUNG = (
    "SELECT min(number) FROM (SELECT number FROM batch WHERE at >= :oldest ORDER BY number LIMIT 1) AS oldest"
)
_FIRST_OF_LIVE = f"SELECT min(batch) FROM session WHERE {_LIVE}"  # noqa: S608  # constants
_WITHOUT_BEGINNING = """
SELECT number FROM session WHERE ended IS NULL AND owner = :run AND batch < (SELECT min(number) FROM batch)
"""
_FORGOTTEN = f"""
SELECT number FROM session WHERE (
    last_batch < (SELECT min(number) FROM batch)
    OR (NOT ({_LIVE}) AND opened_at < :seen AND batch < (SELECT min(number) FROM batch))
) AND number NOT IN ({_NEEDED} SELECT number FROM needed WHERE batch >= (SELECT min(number) FROM batch))
"""  # noqa: S608  # constants

# The newest run stays: SQLite would reuse its number.
_GONE = """
number < (SELECT max(number) FROM run) AND number IN (SELECT run FROM alive WHERE at < :oldest)
AND number NOT IN (SELECT owner FROM session)
"""


class Retention:
    """Retention of a journal, in a thread with a connection of its own.

    Args:
        store: The store of the journal.
        clock: Clock of the journal.
        run: Number of the run.
        max_age_s: Age in seconds from which batches are deleted.
        max_bytes: Bytes that may be in use; beyond that, batches of ended sessions are deleted first.
        on_beginnings_lost: Called, in the thread, every ``prune_every_s``, with the numbers of the run's sessions
            that can't be rebuilt any more, since batches that they need were deleted.
        is_failing: Returns whether the journal can't be written now. Then ``tidy`` is called, which may free space.
    """

    def __init__(
        self,
        store: Store,
        clock: JournalClock,
        run: int,
        max_age_s: float,
        max_bytes: int,
        on_beginnings_lost: Callable[[frozenset[int]], object],
        is_failing: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._run = run
        self._max_age_s = max_age_s
        self._max_bytes = max_bytes
        self._on_beginnings_lost = on_beginnings_lost
        self._cannot_be_written = is_failing
        self._stop = Event()
        self._prune_at = 0.0
        self._search_at = 0.0
        self._is_failing = False
        self._thread = Thread(target=self._work, name="journal-retention", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after a last round, and wait for it, perhaps for the disk."""
        self.stop()
        self._thread.join(_CLOSE_TIMEOUT_S)

    def stop(self) -> None:
        """Stop the thread, without waiting for it."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            self._look_after()
        self._look_after(finally_=True)

    def _look_after(self, *, finally_: bool = False) -> None:
        try:
            self._look(finally_)
            self._is_failing = False
        except (JournalError, OSError) as error:
            if not self._is_failing:
                logger.error("the journal %s can't be looked after: %s", self._store.name, error)
            self._is_failing = True

    def _look(self, finally_: bool) -> None:
        needs_tidying = finally_ or self._cannot_be_written() or self._store.needs_tidying()
        is_time = time.monotonic() >= self._prune_at
        if not (needs_tidying or is_time):
            return
        self._go_on()
        with self._store.connect() as connection:
            if is_time:
                self._prune_at = time.monotonic() + self._store.prune_every_s
                if connection.leads():
                    self._prune(connection)
                self._on_beginnings_lost(without_beginning(connection, self._run))
            if needs_tidying:
                connection.tidy()

    def _go_on(self) -> None:
        with suppress(JournalError), self._store.connect() as connection:  # the writer reports the error
            self._clock.go_on(connection, self._run)

    def _prune(self, connection: Connection) -> None:
        searches = time.monotonic() >= self._search_at
        if searches:
            self._search_at = time.monotonic() + self._max_age_s * _SEARCH_EVERY
        prune(connection, self._max_age_s, self._max_bytes, self._stop, searches=searches)


def without_beginning(connection: Connection, run: int) -> frozenset[int]:
    """Return the numbers of a run's sessions that have not ended and can't be rebuilt any more."""
    found = connection.execute(_WITHOUT_BEGINNING, {"run": run}).fetchall()
    return frozenset(number for (number,) in found)


def prune(connection: Connection, max_age_s: float, max_bytes: int, stop: Event, *, searches: bool = True) -> None:
    """Delete old batches; then, while too many bytes are in use, those of ended sessions; then the oldest.

    Batches that live sessions need are never too old. A session is live until it ends, or until its server has not
    been alive for ``max_age_s``.

    The search does not block writers; the deletion takes little at a time, with pauses.

    Args:
        connection: Connection to the journal.
        max_age_s: Age in seconds from which batches are deleted.
        max_bytes: Bytes that may be in use.
        stop: Event that ends the deletion early.
        searches: Whether to search the old batches for those that no live session needs.
    """
    oldest = journal_time(connection) - max_age_s
    first_young = _first_batch(connection, _FIRST_YOUNG, oldest=oldest)
    _delete(connection, min(first_young, _first_batch(connection, _FIRST_OF_LIVE, seen=oldest)), 0, stop)
    if searches:
        _delete_ended_among_others(connection, first_young, oldest, 0, stop)
    _delete(connection, _first_batch(connection, _FIRST_OF_LIVE, seen=0.0), max_bytes, stop)
    _delete_ended_among_others(connection, _newest(connection), 0.0, max_bytes, stop)
    _delete(connection, _newest(connection), max_bytes, stop)
    _forget_sessions(connection, oldest, stop)
    _forget_claims(connection, oldest)
    _forget_runs(connection, oldest)


def _newest(connection: Connection) -> int:
    """Return the number of the newest batch, which is never deleted: its number must not be used again."""
    (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM batch").fetchone()
    return int(number)


def _first_batch(connection: Connection, query: str, **values: float) -> int:
    """Return the number of the first batch to keep."""
    (number,) = connection.execute(query, values).fetchone()
    newest = _newest(connection)
    return newest if number is None else min(number, newest)


def _delete(connection: Connection, before: int, max_bytes: int, stop: Event) -> None:
    """Delete the batches below a number, oldest first, while more than ``max_bytes`` are in use."""
    piece = "SELECT number FROM batch WHERE number < :before ORDER BY number LIMIT :piece"
    while connection.used_bytes() > max_bytes and not stop.is_set():
        found = connection.execute(piece, {"before": before, "piece": connection.piece}).fetchall()
        if not found:
            return
        connection.delete_batches([number for (number,) in found])
        stop.wait(_PAUSE_S)


def _delete_ended_among_others(connection: Connection, before: int, seen: float, max_bytes: int, stop: Event) -> None:
    """Delete the batches of ended sessions only, though live sessions still need older batches.

    Args:
        connection: Connection to the journal.
        before: Number of a batch older than the list of sessions: sessions that are added meanwhile have later batches
            only.
        seen: A session is live whose server was alive at this time or later.
        max_bytes: Bytes that may be in use.
        stop: Event that ends the deletion early.
    """
    if connection.used_bytes() <= max_bytes:
        return
    needed = dict(connection.execute(_NEEDED_FROM, {"seen": seen}).fetchall())
    query = "SELECT number, notes FROM batch WHERE number > :last AND number < :before ORDER BY number LIMIT :piece"
    last = 0
    while connection.used_bytes() > max_bytes and not stop.is_set():
        values = {"last": last, "before": before, "piece": connection.piece}
        piece = connection.execute(query, values).fetchall()
        if not piece:
            return
        last = piece[-1][0]
        dead = [number for number, notes in piece if not _is_needed(number, from_json(notes), needed)]
        if dead:
            connection.delete_batches(dead)
            stop.wait(_PAUSE_S)


def _is_needed(batch: int, notes: Iterable[list[int]], needed: dict[int, int]) -> bool:
    return any(note[0] in needed and needed[note[0]] <= batch for note in notes)


def _forget_sessions(connection: Connection, oldest: float, stop: Event) -> None:
    """Delete sessions without any batch; those that have not ended stay for a while, to tell why they are lost."""
    forgotten = connection.execute(_FORGOTTEN, {"seen": oldest}).fetchall()
    # A live session may have got a new starting point since the list was read.
    statement = "DELETE FROM session WHERE number = :number AND batch < (SELECT min(number) FROM batch)"
    for first in range(0, len(forgotten), _PIECE_OF_SESSIONS):
        if stop.is_set():
            return
        with connection.changing():
            for (number,) in forgotten[first : first + _PIECE_OF_SESSIONS]:
                connection.execute(statement, {"number": number})
        stop.wait(_PAUSE_S)


def _forget_claims(connection: Connection, oldest: float) -> None:
    """Delete old notices to former owners of acquired sessions."""
    values = {"oldest": oldest}
    if connection.execute("SELECT 1 FROM claim WHERE at < :oldest LIMIT 1", values).fetchone() is not None:
        connection.execute("DELETE FROM claim WHERE at < :oldest", values)


def _forget_runs(connection: Connection, oldest: float) -> None:
    """Delete the runs that were last alive long ago and own no session."""
    values = {"oldest": oldest}
    if connection.execute(f"SELECT 1 FROM run WHERE {_GONE} LIMIT 1", values).fetchone() is None:  # noqa: S608  # a constant
        return
    with connection.changing():
        connection.execute(f"DELETE FROM run WHERE {_GONE}", values)  # noqa: S608  # a constant
        connection.execute("DELETE FROM alive WHERE at < :oldest AND run NOT IN (SELECT number FROM run)", values)
