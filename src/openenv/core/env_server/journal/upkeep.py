"""What a journal needs beside being written: room, and whatever else its store wants. A thread sees to it."""

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Event, Thread

from pydantic_core import from_json

from openenv.core.env_server.journal.clock import JournalClock, journal_time
from openenv.core.env_server.journal.store import Connection, Store
from openenv.core.exceptions import JournalError

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
# Sessions that are deleted in one go: others that write to a file wait meanwhile.
_PIECE_OF_SESSIONS = 100
# Then they get a turn: a writer that waits looks again after some milliseconds.
_PAUSE_S = 0.01
# How long the end of the server waits for a disk that does not answer.
_CLOSE_TIMEOUT_S = 5.0

# What is old is searched for what live sessions need, which is to read all of it, once in this part of the age.
_SEARCH_EVERY = 0.01

# A session has ended, or the server that held it has not been there for so long.
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


class Upkeep:
    """Looks after a journal, in a thread with a connection of its own.

    Args:
        store: Where the journal is kept.
        clock: The journal's time.
        run: Number of the run.
        max_age_s: Age from which what sessions did is forgotten.
        max_bytes: Bytes that may be in use; beyond that, what ended sessions did is forgotten first.
        on_beginnings_lost: Called, in the thread, with the numbers of those sessions of the run that can't be rebuilt
            any more, since what they need was removed; whenever it has looked for what can be.
        is_failing: Says whether the journal can't be written now. It is tidied up then, which may make room.
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
        self._thread = Thread(target=self._work, name="journal-upkeep", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, after it has tidied up once more. This may wait for the disk."""
        self.stop()
        self._thread.join(_CLOSE_TIMEOUT_S)

    def stop(self) -> None:
        """Have the thread end, without waiting for it."""
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
        with suppress(JournalError), self._store.connect() as connection:  # those who write say what is wrong with it
            self._clock.go_on(connection, self._run)

    def _prune(self, connection: Connection) -> None:
        searches = time.monotonic() >= self._search_at
        if searches:
            self._search_at = time.monotonic() + self._max_age_s * _SEARCH_EVERY
        prune(connection, self._max_age_s, self._max_bytes, self._stop, searches=searches)


def without_beginning(connection: Connection, run: int) -> frozenset[int]:
    """Return the numbers of a run's sessions which have not ended and that can't be rebuilt any more."""
    found = connection.execute(_WITHOUT_BEGINNING, {"run": run}).fetchall()
    return frozenset(number for (number,) in found)


def prune(connection: Connection, max_age_s: float, max_bytes: int, stop: Event, *, searches: bool = True) -> None:
    """Forget what is too old; then, while there is too much, what ended sessions did; then the oldest.

    What live sessions need is never too old. A session is live until it ends, or until its server has not been there
    for so long.

    It looks for what to delete without keeping others from writing, deletes little at a time, and pauses after it.

    Args:
        connection: To the journal.
        max_age_s: Age from which everything is forgotten.
        max_bytes: Bytes that may be in use.
        stop: Ends it early.
        searches: Whether to search what is too old for what live sessions don't need, among what they do.
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


def _newest(connection: Connection) -> int:
    """Number of the newest batch, which is never deleted: its number must not be given again."""
    (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM batch").fetchone()
    return int(number)


def _first_batch(connection: Connection, query: str, **values: float) -> int:
    """Number of the first batch to keep."""
    (number,) = connection.execute(query, values).fetchone()
    newest = _newest(connection)
    return newest if number is None else min(number, newest)


def _delete(connection: Connection, before: int, max_bytes: int, stop: Event) -> None:
    """Delete the batches below a number, from the oldest on, for as long as more than so many bytes are in use."""
    piece = "SELECT number FROM batch WHERE number < :before ORDER BY number LIMIT :piece"
    while connection.used_bytes() > max_bytes and not stop.is_set():
        found = connection.execute(piece, {"before": before, "piece": connection.piece}).fetchall()
        if not found:
            return
        connection.delete_batches([number for (number,) in found])
        stop.wait(_PAUSE_S)


def _delete_ended_among_others(connection: Connection, before: int, seen: float, max_bytes: int, stop: Event) -> None:
    """Delete the batches in which only ended sessions did something, though some before them are still needed.

    Args:
        connection: To the journal.
        before: Number of a batch that was there before the sessions are listed, since those that come meanwhile have
            later ones only.
        seen: A session is live whose server was there then or later.
        max_bytes: Bytes that may be in use.
        stop: Ends it early.
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
    """Delete the sessions of which nothing is left; one that has not ended may tell for a while why it is lost."""
    forgotten = connection.execute(_FORGOTTEN, {"seen": oldest}).fetchall()
    # One that lives may have begun anew since they were listed.
    statement = "DELETE FROM session WHERE number = :number AND batch < (SELECT min(number) FROM batch)"
    for first in range(0, len(forgotten), _PIECE_OF_SESSIONS):
        if stop.is_set():
            return
        with connection.changing():
            for (number,) in forgotten[first : first + _PIECE_OF_SESSIONS]:
                connection.execute(statement, {"number": number})
        stop.wait(_PAUSE_S)


def _forget_claims(connection: Connection, oldest: float) -> None:
    """Delete what former owners should have heard long ago."""
    values = {"oldest": oldest}
    if connection.execute("SELECT 1 FROM claim WHERE at < :oldest LIMIT 1", values).fetchone() is not None:
        connection.execute("DELETE FROM claim WHERE at < :oldest", values)
