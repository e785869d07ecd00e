"""What a journal needs beside being written: checkpoints, and room. A thread sees to it."""

import logging
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread

from pydantic_core import from_json

from openenv.core.env_server.journal_file import BUSY_TIMEOUT_S, open_journal

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_PRUNE_EVERY_S = 10.0
# Bytes from which what was appended is moved to where it belongs. To move it later makes for more of it after a crash;
# to move it sooner costs more waiting for the disk.
_MOST_IN_WAL = 32 * 1024 * 1024
# Batches, or sessions, that are deleted in one go: others that write wait meanwhile.
_PIECE = 10
_PIECE_OF_SESSIONS = 100
# Then they get a turn: a writer that waits looks again after some milliseconds.
_PAUSE_S = 0.01
# How long the end of the server waits for a disk that does not answer.
_CLOSE_TIMEOUT_S = 5.0

_NEEDED = """
WITH RECURSIVE needed (number, parent, start, batch) AS (
    SELECT number, parent, start, batch FROM session WHERE ended IS NULL
    UNION
    SELECT before.number, before.parent, needed.start, needed.batch
    FROM needed JOIN session AS before ON before.number = needed.parent
    WHERE needed.number <> needed.start
)
"""
_NEEDED_FROM = f"{_NEEDED} SELECT number, min(batch) FROM needed GROUP BY number"  # noqa: S608  # a constant
_FIRST_YOUNG = "SELECT min(number) FROM (SELECT number FROM batch WHERE at >= ? ORDER BY number LIMIT 1)"
_FIRST_OF_LIVE = "SELECT min(batch) FROM session WHERE ended IS NULL"
_FORGOTTEN = f"""
SELECT number FROM session WHERE (
    last_batch < (SELECT min(number) FROM batch)
    OR (ended IS NULL AND opened_at < ? AND batch < (SELECT min(number) FROM batch))
) AND number NOT IN ({_NEEDED} SELECT number FROM needed WHERE batch >= (SELECT min(number) FROM batch))
"""  # noqa: S608  # constants


class Upkeep:
    """Looks after the file of a journal, in a thread with a connection of its own.

    Args:
        path: The file.
        max_age_s: Age from which what sessions did is forgotten.
        max_bytes: Bytes that the file may have; beyond that, what ended sessions did is forgotten first.
    """

    def __init__(self, path: Path, max_age_s: float, max_bytes: int) -> None:
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._max_age_s = max_age_s
        self._max_bytes = max_bytes
        self._stop = Event()
        self._prune_at = 0.0
        self._is_failing = False
        self._thread = Thread(target=self._work, name="journal-upkeep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after a last checkpoint. This may wait for the disk."""
        self._stop.set()
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            self._look_after()
        self._look_after(finally_=True)

    def _look_after(self, *, finally_: bool = False) -> None:
        try:
            self._look(finally_)
            self._is_failing = False
        except (sqlite3.Error, OSError) as error:
            if not self._is_failing:
                logger.error("the journal %s can't be looked after: %s", self._path, error)
            self._is_failing = True

    def _look(self, finally_: bool) -> None:
        is_long = self._wal.stat().st_size > _MOST_IN_WAL if self._wal.exists() else False
        is_time = time.monotonic() >= self._prune_at
        if not (is_long or is_time or finally_):
            return
        connection = open_journal(self._path)
        try:
            if is_time:
                self._prune_at = time.monotonic() + _PRUNE_EVERY_S
                prune(connection, self._max_age_s, self._max_bytes, self._stop)
            if is_long or finally_:
                checkpoint(connection)
        finally:
            connection.close()


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move what was appended to where it belongs, nearly all of it while others go on writing.

    Without the second part the file would grow for as long as somebody writes. Others that write wait for it; it waits
    for nobody, such as one that reads what came long ago, and is left to the next time then.
    """
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    connection.execute("PRAGMA busy_timeout = 0")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")


def prune(connection: sqlite3.Connection, max_age_s: float, max_bytes: int, stop: Event) -> None:
    """Forget what is too old; then, while there is too much, what ended sessions did; then the oldest.

    It looks for what to delete without keeping others from writing, deletes little at a time, and pauses after it.

    Args:
        connection: To the file.
        max_age_s: Age from which everything is forgotten.
        max_bytes: Bytes that may be in use.
        stop: Ends it early.
    """
    oldest = time.time() - max_age_s
    _delete(connection, _first_batch(connection, _FIRST_YOUNG, oldest), 0, stop)
    _delete(connection, _first_batch(connection, _FIRST_OF_LIVE), max_bytes, stop)
    _delete_ended_among_others(connection, max_bytes, stop)
    _delete(connection, _newest(connection), max_bytes, stop)
    _forget_sessions(connection, oldest, stop)


def _newest(connection: sqlite3.Connection) -> int:
    """Number of the newest batch, which is never deleted: its number must not be given again."""
    (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM batch").fetchone()
    return int(number)


def _first_batch(connection: sqlite3.Connection, query: str, *values: float) -> int:
    """Number of the first batch to keep."""
    (number,) = connection.execute(query, values).fetchone()
    newest = _newest(connection)
    return newest if number is None else min(number, newest)


def _delete(connection: sqlite3.Connection, before: int, max_bytes: int, stop: Event) -> None:
    """Delete the batches below a number, from the oldest on, for as long as more than so many bytes are in use."""
    while _used_bytes(connection) > max_bytes and not stop.is_set():
        piece = "SELECT number FROM batch WHERE number < ? ORDER BY number LIMIT ?"
        numbers = connection.execute(piece, (before, _PIECE)).fetchall()
        if not numbers:
            return
        _delete_rows(connection, "DELETE FROM batch WHERE number = ?", numbers, stop)


def _delete_rows(connection: sqlite3.Connection, statement: str, rows: list[tuple[int]], stop: Event) -> None:
    """Delete a few rows in one go; then give others that write a turn."""
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(statement, rows)
    connection.execute("COMMIT")
    stop.wait(_PAUSE_S)


def _delete_ended_among_others(connection: sqlite3.Connection, max_bytes: int, stop: Event) -> None:
    """Delete the batches in which only ended sessions did something, though some before them are still needed."""
    if _used_bytes(connection) <= max_bytes:
        return
    newest = _newest(connection)  # before the sessions are listed: those that come meanwhile have later ones only
    needed = dict(connection.execute(_NEEDED_FROM))
    last = 0
    while _used_bytes(connection) > max_bytes and not stop.is_set():
        piece = connection.execute(
            "SELECT number, notes FROM batch WHERE number > ? AND number < ? ORDER BY number LIMIT ?",
            (last, newest, _PIECE),
        ).fetchall()
        if not piece:
            return
        last = piece[-1][0]
        dead = [(number,) for number, notes in piece if not _is_needed(number, from_json(notes), needed)]
        if dead:
            _delete_rows(connection, "DELETE FROM batch WHERE number = ?", dead, stop)


def _is_needed(batch: int, notes: Iterable[list[int]], needed: dict[int, int]) -> bool:
    return any(note[0] in needed and needed[note[0]] <= batch for note in notes)


def _forget_sessions(connection: sqlite3.Connection, oldest: float, stop: Event) -> None:
    """Delete the sessions of which nothing is left; one that has not ended may tell for a while why it is lost."""
    forgotten = connection.execute(_FORGOTTEN, (oldest,)).fetchall()
    # One that lives may have begun anew since they were listed.
    statement = "DELETE FROM session WHERE number = ? AND batch < (SELECT min(number) FROM batch)"
    for first in range(0, len(forgotten), _PIECE_OF_SESSIONS):
        if stop.is_set():
            return
        _delete_rows(connection, statement, forgotten[first : first + _PIECE_OF_SESSIONS], stop)


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
