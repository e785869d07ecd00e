"""Journal in an SQLite file.

One file serves every worker of a server, and the same server started again. Requests are appended in batches, one for
all answers that are sent together, because a row for each request would cost as much as a step does; a session's
requests are selected from the batches when they are needed, which is seldom.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import quote

from openenv.core.documents import folder_lock
from openenv.core.env_server.history.batch import Batch
from openenv.core.env_server.history.clock import CLOCK_TABLES
from openenv.core.env_server.sqlite_writing import pragma, used_bytes, writing
from openenv.core.exceptions import ConfigurationError, JournalError

ResultT = TypeVar("ResultT")

_APPLICATION_ID = 0x4F454A4C  # "OEJL"
_VERSION = 2
BUSY_TIMEOUT_S = 2.0
"""Seconds that a process waits for another writer. A writer locks the file for some milliseconds at most."""
# Size of the write-ahead log, in bytes, from which a checkpoint is made. A larger log takes longer to read after a
# crash; a smaller one costs more waiting for the disk.
_MOST_IN_WAL = 32 * 1024 * 1024
# Size in characters from which a batch is written in the thread: snapshots, mostly.
_MOST_AT_ONCE = 256 * 1024
# Mask of SQLite's primary error code.
_PRIMARY_CODE = 0xFF

_TABLES = """
CREATE TABLE run (
    number INTEGER PRIMARY KEY,         -- one for each time that a process opened the journal
    started_at REAL NOT NULL
);
CREATE TABLE session (
    number INTEGER PRIMARY KEY, -- the run that added it, times 2^32, and a count
    id TEXT NOT NULL,           -- several rows have it where it was recovered; the one that was added last counts
    added INTEGER NOT NULL,     -- with this batch
    opened_at REAL NOT NULL,
    token BLOB NOT NULL,        -- its SHA-256
    environment TEXT NOT NULL,
    first_id INTEGER NOT NULL,  -- the number of its first request
    parent INTEGER,             -- the session that this one continues, after a fork or a recovery,
    parent_last_id INTEGER,     -- from the state after the request of this number
    start INTEGER NOT NULL,     -- to be rebuilt, begin in this session, the same or one before it,
    since INTEGER NOT NULL,     -- with the request of this number; or right after it, where there is a snapshot
    batch INTEGER NOT NULL,     -- look no further back than this
    snapshot BLOB,
    position TEXT,              -- where the episode stood, and the answer to that request, where there is a snapshot
    ended TEXT,                 -- why, where it has
    last_batch INTEGER,         -- nothing came after this one, where it has ended
    owner INTEGER NOT NULL      -- the run that may add to it
);
CREATE INDEX session_id ON session (id);
CREATE TABLE batch (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,               -- that wrote it
    at REAL NOT NULL,
    notes BLOB NOT NULL,                -- [[session, request, type, data, characters of its answer], ...]
    answers TEXT NOT NULL               -- one right after the other; see batch.Note
);
CREATE TABLE claim (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,               -- the former owner,
    session INTEGER NOT NULL,           -- of this session
    at REAL NOT NULL
);
CREATE INDEX claim_run ON claim (run, number);
"""
_ADD_BATCH = "INSERT INTO batch (run, at, notes, answers) VALUES (:run, :at, :notes, :answers)"
_ADD_BATCH_UNLESS_ACQUIRED = """
INSERT INTO batch (run, at, notes, answers) SELECT :run, :at, :notes, :answers
WHERE NOT EXISTS (SELECT 1 FROM claim WHERE run = :run AND number > :known)
"""
_NEWLY_ACQUIRED = "SELECT number, session FROM claim WHERE run = :run AND number > :known ORDER BY number"


class SqliteConnection(sqlite3.Connection):
    """See ``Connection``."""

    piece = 10

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """See ``Connection``."""
        return iter(self.execute(statement, values))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See ``Connection``."""
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """See ``Connection``. No other process writes meanwhile."""
        with writing(self):
            yield

    def lock_runs(self, runs: Iterable[int]) -> None:
        """See ``Connection``. Does nothing: ``changing`` blocks all other writers."""

    def leads(self) -> bool:
        """See ``Connection``. Every process maintains the file, so little is left for each."""
        return True

    def used_bytes(self) -> int:
        """See ``Connection``."""
        return used_bytes(self)

    def delete_batches(self, numbers: list[int]) -> None:
        """See ``Connection``."""
        with self.changing():
            self.executemany("DELETE FROM batch WHERE number = ?", [(number,) for number in numbers])

    def tidy(self) -> None:
        """Checkpoint the write-ahead log, nearly all of it while other processes write.

        Without the second part, the truncation, the log would grow as long as any process writes. Writers wait for the
        truncation; it waits for no process, such as a long reader, and is then left to the next call.
        """
        self.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self.set_patience(0.0)
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.set_patience(BUSY_TIMEOUT_S)

    def set_patience(self, timeout_s: float) -> None:
        """Set the seconds that a statement waits while another process locks the file."""
        self.execute(f"PRAGMA busy_timeout = {timeout_s * 1000:.0f}")


class SqliteStore:
    """Store in an SQLite file; see ``Store``.

    A batch is written on the event loop where the file is not locked, as is nearly always so: to pass the batch to a
    thread costs more than the write. The thread waits while another process locks the file, and writes large batches.

    Args:
        path: Path of the file, which is created if missing. SQLite adds two more files, ``-wal`` and ``-shm``.
    """

    prune_every_s = 10.0

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._connection: SqliteConnection | None = None
        self._files: list[_File | None] = []
        # Held while files are opened or closed, so that no thread opens a file that another thread is about to replace.
        # The folder is locked against other processes, since SQLite removes logs by their name.
        self._opening = Lock()
        self._replaced: list[SqliteConnection] = []
        self._run = 0
        self._known = 0
        self._thread = ThreadPoolExecutor(1, "journal-writer")

    def prepare(self) -> None:
        """See ``Store``."""
        prepare_journal(self._path)

    async def start(self) -> int:
        """See ``Store``."""
        return await self._in_thread(self._start)

    async def is_current(self) -> bool:
        """See ``Store``. Compares the files with the opened files."""
        return await self._in_thread(lambda: self._connection is not None and self._files == self._files_there())

    def write_at_once(self, batch: Batch) -> frozenset[int] | None:
        """See ``Store``."""
        connection = self._connection
        if connection is None or batch.size > _MOST_AT_ONCE:
            return None
        try:
            return self._write(connection, batch)
        except sqlite3.Error as error:
            if error.sqlite_errorcode & _PRIMARY_CODE == sqlite3.SQLITE_BUSY:
                return None
            raise JournalError(f"{error}.") from error

    async def write(self, batch: Batch) -> frozenset[int]:
        """See ``Store``."""
        acquired = self.write_at_once(batch)
        return await self._in_thread(self._patiently, self._write, batch) if acquired is None else acquired

    async def newly_acquired(self) -> frozenset[int]:
        """See ``Store``."""
        return await self._in_thread(self._patiently, self._newly_acquired)

    async def close(self) -> None:
        """See ``Store``."""
        await self._in_thread(self._close)

    @contextmanager
    def connect(self) -> Iterator[SqliteConnection]:
        """See ``Store``."""
        try:
            with self._opening:
                self._check_files()
                # Checked again when the file is open and not read yet: another process may have replaced it.
                connection = open_journal(self._path, self._check_files)
            with closing(connection):
                yield connection
        except sqlite3.Error as error:
            raise JournalError(f"{error}.") from error

    def _check_files(self) -> None:
        # Also without a connection, where the file could not be opened again: ``-wal`` may belong to the old file.
        if self._files and self._files != self._files_there():
            raise JournalError("it was removed or replaced.")  # SQLite would mix the old and the new file

    def needs_tidying(self) -> bool:
        """See ``Store``."""
        return self._wal.exists() and self._wal.stat().st_size > _MOST_IN_WAL

    def cut(self) -> None:
        """See ``Store``. End the thread; the next ``start`` uses another one."""
        self._thread.shutdown(wait=False)
        self._thread = ThreadPoolExecutor(1, "journal-writer")

    async def _in_thread(self, call: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Call a function in the thread of this store."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
        except (OSError, sqlite3.Error, ConfigurationError) as error:
            raise JournalError(f"{error}".removesuffix(".") + ".") from error

    def _patiently(self, call: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """Call a function with the connection, which waits while another process locks the file."""
        connection = self._connection
        if connection is None:
            raise JournalError("it is closed.")
        connection.set_patience(BUSY_TIMEOUT_S)
        try:
            return call(connection, *arguments)
        finally:
            connection.set_patience(0.0)

    def _start(self) -> int:
        self._close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._opening, folder_lock(self._path.parent):
            self._remove_leftovers()
            _prepare(self._path)
            connection = open_journal(self._path)
            try:
                added = connection.execute("INSERT INTO run (started_at) VALUES (?)", (time.time(),))
            except sqlite3.Error:
                connection.close()
                raise
            connection.set_patience(0.0)
            self._connection, self._files = connection, self._files_there()
        self._run, self._known = added.lastrowid or 0, 0
        return self._run

    def _close(self) -> None:
        with self._opening, folder_lock(self._path.parent):
            connection, self._connection = self._connection, None
            if connection is None:
                return
            path, wal = self._files_there()
            if path != self._files[0] or wal not in (None, self._files[1]):
                # To close it would remove the log of another file, and free its files' identity for those of another.
                self._replaced.append(connection)
                return
            connection.close()
            self._files = []  # closed in order: the file is complete

    def _write(self, connection: SqliteConnection, batch: Batch) -> frozenset[int]:
        values = {
            "run": self._run,
            "known": self._known,
            "at": batch.at,
            "notes": batch.notes,
            "answers": batch.answers,
        }
        if not batch.changes:
            added = connection.execute(_ADD_BATCH_UNLESS_ACQUIRED, values).rowcount
            return frozenset() if added else self._newly_acquired(connection)
        with connection.changing():
            acquired = self._newly_acquired(connection)
            if not acquired:
                number = connection.execute(_ADD_BATCH, values).lastrowid
                for statement, changed in batch.changes:
                    connection.execute(statement, {**changed, "batch": number})
            return acquired

    def _newly_acquired(self, connection: SqliteConnection) -> frozenset[int]:
        rows = connection.execute(_NEWLY_ACQUIRED, {"run": self._run, "known": self._known}).fetchall()
        if rows:
            self._known = rows[-1][0]
        return frozenset(session for _, session in rows)

    def _remove_leftovers(self) -> None:
        """Remove the log of a file that was removed; SQLite would apply that log to the new file."""
        path, wal = self._files_there()
        if path is None or (self._files and path != self._files[0] and wal == self._files[1]):
            self._wal.unlink(missing_ok=True)
        if not self._wal.exists():
            self._path.with_name(f"{self._path.name}-shm").unlink(missing_ok=True)

    def _files_there(self) -> "list[_File | None]":
        return [_file_at(self._path), _file_at(self._wal)]


_File = tuple[int, int]


def _file_at(path: Path) -> _File | None:
    """Return the identity of the file at a path; ``None`` where no file can be reached."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino


def prepare_journal(path: Path) -> None:
    """Create the file, or check the existing file.

    Raises:
        ConfigurationError: The file can't be opened, is no journal, or is a journal of another version.
    """
    with folder_lock(path.parent):
        _prepare(path)


def _prepare(path: Path) -> None:
    """See ``prepare_journal``. The folder is locked: two processes can't set the mode of a new file at once."""
    try:
        path.touch(mode=0o600)  # the file contains observations
        connection = open_journal(path)
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"The journal {path} can't be opened: {error}. Give another path.") from error
    try:
        _create_or_check(connection, path)
    except sqlite3.Error as error:
        raise ConfigurationError(f"The journal {path} can't be used: {error}. Give another path.") from error
    finally:
        connection.close()


def _accept() -> None:
    """Accept any file."""


def open_journal(path: Path, check: Callable[[], None] = _accept) -> SqliteConnection:
    """Open the file.

    Commits survive a crash of the process, though perhaps not of the machine: they do not wait for the disk. The caller
    makes the checkpoints.

    Args:
        path: The file.
        check: Called once the file is open, before it is read; an exception closes the file again.

    Raises:
        sqlite3.Error: The file can't be opened.
    """
    existing = f"file:{quote(str(path.absolute()))}?mode=rw"  # a removed journal must not be created by a reader
    connection = sqlite3.connect(
        existing,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,  # the writer is used on the loop and in a thread, never at the same time
        factory=SqliteConnection,
        uri=True,
    )
    try:
        check()
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _create_or_check(connection: SqliteConnection, path: Path) -> None:
    with connection.changing():  # several workers may create it at once
        application = pragma(connection, "application_id")
        if application == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _TABLES.split(";\n")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif application != _APPLICATION_ID:
            raise ConfigurationError(f"Expected {path} to be a journal or not to exist, got another SQLite database.")
        elif (version := pragma(connection, "user_version")) != _VERSION:
            raise ConfigurationError(
                f"Expected the journal {path} to have version {_VERSION}, got {version}: another release of OpenEnv "
                "has written it. Give another path, or remove the file with the sessions that it holds."
            )
        for statement in CLOCK_TABLES:
            connection.execute(statement)
