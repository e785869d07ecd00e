"""File of traces: an SQLite database with a row for each episode and the parts of its entries."""

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from urllib.parse import quote

from openenv.core.env_server.traces.blobs import Blobs
from openenv.core.env_server.traces.tables import VERSION, check, create_tables, pragma, upgrade_tables
from openenv.core.exceptions import ConfigurationError

BUSY_TIMEOUT_S = 5.0
"""Seconds that a process waits while another one locks the file."""
ALIVE_S = 60.0
"""Seconds since it last wrote after which a server that has not ended in order counts as dead."""

_RUN_BITS = 32
# Size of the write-ahead log in bytes to which it is cut after a checkpoint.
_MOST_IN_WAL = 32 * 1024 * 1024
# Episodes that one transaction removes, so that writers do not wait long.
_PIECE = 500


@dataclass(slots=True)
class EpisodeRow:
    """Row of an episode; the table has a column for each field.

    Attributes:
        number: Number of the episode within its run.
    """

    number: int
    session: str
    transport: str
    environment: str
    version: str | None
    started_at: float
    episode_id: str | None = None
    seed: str | None = None
    split: str | None = None
    task_index: str | None = None
    parent: int | None = None
    parent_entries: int = 0
    steps: int = 0
    reward: float | None = None
    ending: str | None = None
    ended_at: float | None = None
    error: str | None = None

    def copy(self) -> "EpisodeRow":
        """Return a copy, which does not change any more."""
        return replace(self)

    def fork_of(self, original: "EpisodeRow", entry_count: int) -> None:
        """Record that the episode continues another one, after so many of its entries."""
        self.parent, self.parent_entries = original.number, entry_count
        self.episode_id, self.seed = original.episode_id, original.seed
        self.split, self.task_index = original.split, original.task_index
        self.steps, self.reward = original.steps, original.reward


COLUMNS = tuple(each.name for each in fields(EpisodeRow))
"""Columns of the table ``episode``, in the order of ``EpisodeRow``."""

_CHANGING = ("steps", "reward", "ending", "ended_at", "error")
_WRITE_EPISODE = f"""
INSERT INTO episode ({", ".join(COLUMNS)}) VALUES ({", ".join("?" * len(COLUMNS))})
ON CONFLICT (number) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _CHANGING)}
"""  # noqa: S608  # constants
_WRITE_PART = "INSERT INTO part (episode, number, entries, content) VALUES (?, ?, ?, ?)"
_WRITE_BLOB = "INSERT INTO blob (hash, content) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING"
_WRITE_BLOB_USE = "INSERT INTO blob_use (episode, hash) VALUES (?, ?) ON CONFLICT DO NOTHING"
_REMOVE_CONVERSATION = """
DELETE FROM conversation WHERE episode_id = (SELECT episode_id FROM episode WHERE number = ?)
"""
_BLOBS_OF = "SELECT hash FROM blob_use WHERE episode = ?"
_REMOVE_BLOB = "DELETE FROM blob WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE hash = ?1)"


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """Part of an episode's trace, ready to be written.

    Attributes:
        row: Row of the episode.
        number: Number of the part, from 1.
        content: The encoded entries; empty where only the row has changed.
        entries: Number of the entries.
        blobs: Long values that the entries name by their hashes.
    """

    row: EpisodeRow
    number: int
    content: bytes
    entries: int
    blobs: Blobs = field(default_factory=dict)


def prepare(path: Path) -> None:
    """Create the file, or check the existing file.

    Raises:
        ConfigurationError: The file can't be opened, has no traces, or is of another version.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # the file contains observations
        with connected(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            with changing(connection):
                _create_or_upgrade(connection, path)
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"The traces {path} can't be opened: {error}. Give another path.") from error


def upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables of an open file up to date.

    Raises:
        ConfigurationError: The file has no traces, or traces of a later version; the message says what it is.
        sqlite3.Error: The file is no SQLite database, is truncated, or can't be written.
    """
    if check(connection, path) < VERSION:
        with changing(connection):
            upgrade_tables(connection, path)


@contextmanager
def connected(path: Path, *, read_only: bool = False) -> Iterator[sqlite3.Connection]:
    """Open an existing file, and close it after the block."""
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_MOST_IN_WAL}")
        yield connection
    finally:
        connection.close()


@contextmanager
def changing(connection: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction for changes, which is rolled back on an exception."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def add_run(connection: sqlite3.Connection) -> int:
    """Add a run of a process that records; return its number."""
    now = time.time()
    with changing(connection):
        added = connection.execute("INSERT INTO run (started_at, seen_at) VALUES (?, ?)", (now, now))
    return added.lastrowid or 0


def end_run(connection: sqlite3.Connection, run: int) -> None:
    """Record that a run has ended in order."""
    with changing(connection):
        connection.execute("UPDATE run SET ended_at = ? WHERE number = ?", (time.time(), run))


def write(connection: sqlite3.Connection, run: int, parts: Sequence[EncodedPart]) -> None:
    """Write parts, all or none; without any, only that the run is alive.

    Args:
        connection: Connection to the file.
        run: Number of the run that recorded the parts.
        parts: The parts.
    """
    with changing(connection):
        write_parts(connection, run, parts)
        connection.execute("UPDATE run SET seen_at = ? WHERE number = ?", (time.time(), run))


def write_parts(connection: sqlite3.Connection, run: int, parts: Sequence[EncodedPart]) -> None:
    """Write parts within a transaction.

    Args:
        connection: Connection to the file.
        run: Number of the run that recorded the parts.
        parts: The parts.
    """
    connection.executemany(_WRITE_EPISODE, [_values(run, part.row) for part in parts])
    filled = [(number_in(run, part.row.number), part) for part in parts if part.content]
    connection.executemany(
        _WRITE_PART, [(episode, part.number, part.entries, part.content) for episode, part in filled]
    )
    for episode, part in filled:
        if part.blobs:
            connection.executemany(_WRITE_BLOB, part.blobs.items())
            connection.executemany(_WRITE_BLOB_USE, [(episode, name) for name in part.blobs])


def remove(connection: sqlite3.Connection, numbers: Iterable[int]) -> int:
    """Remove episodes by their numbers; return how many there were."""
    keys = [(number,) for number in numbers]
    with changing(connection):
        connection.executemany("DELETE FROM part WHERE episode = ?", keys)
        connection.executemany("DELETE FROM score WHERE episode = ?", keys)
        connection.executemany(_REMOVE_CONVERSATION, keys)
        used = [name for key in keys for name in connection.execute(_BLOBS_OF, key)]
        connection.executemany("DELETE FROM blob_use WHERE episode = ?", keys)
        connection.executemany(_REMOVE_BLOB, used)
        return connection.executemany("DELETE FROM episode WHERE number = ?", keys).rowcount


def prune(connection: sqlite3.Connection, *, before: float | None, max_bytes: float | None) -> int:
    """Remove the oldest episodes, but for those that run now.

    Args:
        connection: Connection to the file.
        before: Remove what began before this time, in seconds since 1970.
        max_bytes: Remove until the file's contents are no larger.

    Returns:
        The number of removed episodes.
    """
    removed = 0
    while (numbers := _oldest(connection, before)) if before is not None else ():
        removed += remove(connection, numbers)
    while max_bytes is not None and used_bytes(connection) > max_bytes and (numbers := _oldest(connection, None)):
        removed += remove(connection, numbers)
    return removed


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of the file's contents; the file itself keeps the space of removed episodes for new ones."""
    pages, free, size = (pragma(connection, name) for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size


def number_in(run: int, count: int) -> int:
    """Return the number of an episode in the file."""
    return (run << _RUN_BITS) + count


def name_of(number: int) -> str:
    """Return an episode's id, for people: its run and its count in the run.

    Example:
        >>> name_of(number_in(2, 17))
        '2-17'
    """
    return f"{number >> _RUN_BITS}-{number & ((1 << _RUN_BITS) - 1)}"


def number_of(name: str) -> int | None:
    """Return the number of an episode by its id, as from ``name_of``; ``None`` for another text."""
    run, dash, count = name.partition("-")
    if not dash or not (run.isascii() and run.isdigit() and count.isascii() and count.isdigit()):
        return None
    number = number_in(int(run[:10]), int(count[:10]))
    return number if number < 2**63 else None


def _oldest(connection: sqlite3.Connection, before: float | None) -> list[int]:
    """Return the numbers of the oldest episodes that do not run now."""
    found = connection.execute(
        f"""
        SELECT episode.number FROM episode LEFT JOIN run ON run.number = episode.number >> {_RUN_BITS}
        WHERE (:before IS NULL OR episode.started_at < :before)
            AND (episode.ending IS NOT NULL OR run.ended_at IS NOT NULL OR coalesce(run.seen_at, 0) < :alive)
        ORDER BY episode.started_at LIMIT {_PIECE}
        """,  # noqa: S608  # constants
        {"before": before, "alive": time.time() - ALIVE_S},
    )
    return [number for (number,) in found]


def _values(run: int, row: EpisodeRow) -> tuple[object, ...]:
    parent = None if row.parent is None else number_in(run, row.parent)
    return (
        number_in(run, row.number),
        row.session,
        row.transport,
        row.environment,
        row.version,
        row.started_at,
        row.episode_id,
        row.seed,
        row.split,
        row.task_index,
        parent,
        row.parent_entries,
        row.steps,
        row.reward,
        row.ending,
        row.ended_at,
        row.error,
    )


def _create_or_upgrade(connection: sqlite3.Connection, path: Path) -> None:
    is_new = pragma(connection, "application_id") == 0
    if is_new and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        create_tables(connection)
    else:
        upgrade_tables(connection, path)
