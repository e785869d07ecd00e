"""What a journal needs beside being written: checkpoints, and room. A thread sees to it."""

import logging
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from threading import Event, Thread

from pydantic_core import from_json

from openenv.core.env_server.journal_file import open_journal

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_PRUNE_EVERY_S = 10.0
# Bytes from which what was appended is moved to where it belongs. To move it later makes for more of it after a crash;
# to move it sooner costs more waiting for the disk.
_MOST_IN_WAL = 32 * 1024 * 1024
# Batches that are deleted, or looked at, in one go: others that write wait meanwhile.
_PIECE = 10

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
_FORGET_SESSIONS = f"""
DELETE FROM session WHERE (
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
        """End the thread, after a last checkpoint."""
        self._stop.set()
        self._thread.join()

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
                prune(connection, self._max_age_s, self._max_bytes)
            if is_long or finally_:
                checkpoint(connection)
        finally:
            connection.close()


def checkpoint(connection: sqlite3.Connection) -> None:
    """Move what was appended to where it belongs, nearly all of it while others go on writing."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    # Others wait for this one, without which the file would grow for as long as somebody writes.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def prune(connection: sqlite3.Connection, max_age_s: float, max_bytes: int) -> None:
    """Forget what is too old; then, while there is too much, what ended sessions did; then the oldest.

    Args:
        connection: To the file.
        max_age_s: Age from which everything is forgotten.
        max_bytes: Bytes that may be in use.
    """
    oldest = time.time() - max_age_s
    _delete(connection, "at < ?", (oldest,), max_bytes=0)
    if _used_bytes(connection) > max_bytes:
        (needed_from,) = connection.execute("SELECT min(batch) FROM session WHERE ended IS NULL").fetchone()
        _delete(connection, "number < coalesce(?, number + 1)", (needed_from,), max_bytes)
    if _used_bytes(connection) > max_bytes:
        _delete_ended_among_others(connection, max_bytes)
    if _used_bytes(connection) > max_bytes:
        _delete(connection, "TRUE", (), max_bytes)
    _forget_sessions(connection, oldest)


def _delete(connection: sqlite3.Connection, condition: str, values: tuple[float, ...], max_bytes: int) -> None:
    """Delete batches, from the oldest on but never the newest, whose number must not be given again."""
    statement = (
        f"DELETE FROM batch WHERE number IN (SELECT number FROM batch WHERE {condition} "  # noqa: S608  # constants
        "AND number < (SELECT max(number) FROM batch) ORDER BY number LIMIT ?)"
    )
    while not max_bytes or _used_bytes(connection) > max_bytes:
        if connection.execute(statement, (*values, _PIECE)).rowcount == 0:
            return


def _delete_ended_among_others(connection: sqlite3.Connection, max_bytes: int) -> None:
    """Delete the batches in which only ended sessions did something, though some before them are still needed."""
    needed = dict(connection.execute(_NEEDED_FROM))
    last = 0
    while _used_bytes(connection) > max_bytes:
        piece = connection.execute(
            "SELECT number, notes FROM batch WHERE number > ? AND number < (SELECT max(number) FROM batch) "
            "ORDER BY number LIMIT ?",
            (last, _PIECE),
        ).fetchall()
        if not piece:
            return
        last = piece[-1][0]
        dead = [(number,) for number, notes in piece if not _is_needed(number, from_json(notes), needed)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("DELETE FROM batch WHERE number = ?", dead)
        connection.execute("COMMIT")


def _is_needed(batch: int, notes: Iterable[list[int]], needed: dict[int, int]) -> bool:
    return any(note[0] in needed and needed[note[0]] <= batch for note in notes)


def _forget_sessions(connection: sqlite3.Connection, oldest: float) -> None:
    """Delete the sessions of which nothing is left; one that has not ended may tell for a while why it is lost."""
    connection.execute(_FORGET_SESSIONS, (oldest,))


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
