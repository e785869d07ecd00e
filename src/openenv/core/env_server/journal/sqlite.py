"""A journal in a file of SQLite.

One file serves every worker of a server, and the same server started again. What sessions did is appended in batches,
one for whatever is sent in one go, because a row for each request would cost as much as a step does; a session's part
is picked out of them when it is needed, which is seldom.
"""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openenv.core.env_server.journal.batch import Batch
from openenv.core.env_server.journal.clock import CLOCK_TABLES
from openenv.core.exceptions import ConfigurationError, JournalError

_APPLICATION_ID = 0x4F454A4C  # "OEJL"
_VERSION = 2
BUSY_TIMEOUT_S = 2.0
"""How long a process waits for another one that writes. None of them holds the file for more than some milliseconds."""
# Bytes from which what was appended is moved to where it belongs. To move it later makes for more of it after a crash;
# to move it sooner costs more waiting for the disk.
_MOST_IN_WAL = 32 * 1024 * 1024

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
_ADD_BATCH_UNLESS_TAKEN = """
INSERT INTO batch (run, at, notes, answers) SELECT :run, :at, :notes, :answers
WHERE NOT EXISTS (SELECT 1 FROM claim WHERE run = :run AND number > :known)
"""
_NEWLY_TAKEN = "SELECT number, session FROM claim WHERE run = :run AND number > :known ORDER BY number"


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
        """See ``Connection``. Nobody else writes meanwhile."""
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            if self.in_transaction:
                self.execute("ROLLBACK")
            raise

    def hold_back(self, runs: Iterable[int]) -> None:
        """See ``Connection``; ``changing`` holds back everybody."""

    def leads(self) -> bool:
        """See ``Connection``. Every process looks after the file, as the others do: little is left to do for each."""
        return True

    def used_bytes(self) -> int:
        """See ``Connection``."""
        pages, free, size = (
            self.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def delete_batches(self, numbers: list[int]) -> None:
        """See ``Connection``."""
        with self.changing():
            self.executemany("DELETE FROM batch WHERE number = ?", [(number,) for number in numbers])

    def tidy(self) -> None:
        """Move what was appended to where it belongs, nearly all of it while others go on writing.

        Without the second part the file would grow for as long as somebody writes. Others that write wait for it; it
        waits for nobody, such as one that reads what came long ago, and is left to the next time then.
        """
        self.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self.execute("PRAGMA busy_timeout = 0")
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000:.0f}")


class SqliteStore:
    """A file of SQLite; see ``Store``.

    Args:
        path: The file, which is made where there is none. Beside it there will be two more, ``-wal`` and ``-shm``.

    Raises:
        ConfigurationError: The file can't be opened, is no journal, or is one of another version.
    """

    writes_at_once = True
    prune_every_s = 10.0

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._wal = path.with_name(f"{path.name}-wal")
        self._connection: SqliteConnection | None = None
        self._files: list[_File | None] = []
        self._replaced: list[SqliteConnection] = []
        self._run = 0
        self._known = 0
        prepare_journal(path)

    async def start(self) -> int:
        """See ``Store``. Only the thread that calls this may write."""
        await self.close()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
            prepare_journal(self._path)
            self._connection = open_journal(self._path)
            added = self._connection.execute("INSERT INTO run (started_at) VALUES (?)", (time.time(),))
            self._files = [_file_at(self._path), _file_at(self._wal)]
        except (OSError, sqlite3.Error, ConfigurationError) as error:
            await self.close()
            raise JournalError(f"{error}".removesuffix(".") + ".") from error
        self._run, self._known = added.lastrowid or 0, 0
        return self._run

    async def is_in_place(self) -> bool:
        """See ``Store``: whether its files are still those that were opened."""
        return self._connection is not None and self._files == [_file_at(self._path), _file_at(self._wal)]

    async def write(self, batch: Batch) -> frozenset[int]:
        """See ``Store``."""
        values = {
            "run": self._run,
            "known": self._known,
            "at": batch.at,
            "notes": batch.notes,
            "answers": batch.answers,
        }
        try:
            if not batch.changes:
                added = self._writer.execute(_ADD_BATCH_UNLESS_TAKEN, values).rowcount
                return frozenset() if added else self._newly_taken()
            with self._writer.changing():
                taken = self._newly_taken()
                if not taken:
                    number = self._writer.execute(_ADD_BATCH, values).lastrowid
                    for statement, changed in batch.changes:
                        self._writer.execute(statement, {**changed, "batch": number})
                return taken
        except sqlite3.Error as error:
            raise JournalError(f"{error}.") from error

    async def newly_taken(self) -> frozenset[int]:
        """See ``Store``."""
        try:
            return self._newly_taken()
        except sqlite3.Error as error:
            raise JournalError(f"{error}.") from error

    def set_patient(self, *, is_patient: bool) -> None:
        """See ``Store``."""
        if self._connection is not None:
            self._connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000 if is_patient else 0:.0f}")

    @contextmanager
    def connect(self) -> Iterator[SqliteConnection]:
        """See ``Store``."""
        self._check_files()
        try:
            # Once more when the file is open and nothing of it is read: another one may have had its name by then.
            with closing(open_journal(self._path, self._check_files)) as connection:
                yield connection
        except sqlite3.Error as error:
            raise JournalError(f"{error}.") from error

    def _check_files(self) -> None:
        # Also while the store is opened anew, without a connection: what is beside the file may be of the old one.
        if self._files and self._files != [_file_at(self._path), _file_at(self._wal)]:
            raise JournalError("it was removed or replaced.")  # SQLite would mix what is there with what was

    def needs_tidying(self) -> bool:
        """See ``Store``."""
        return self._wal.exists() and self._wal.stat().st_size > _MOST_IN_WAL

    async def close(self) -> None:
        """See ``Store``."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if _file_at(self._wal) in (None, *self._files[1:]):
            connection.close()
            if self._files and _file_at(self._path) == self._files[0]:
                self._files = []  # it was closed in order: whoever opens it next finds it whole
        else:  # which would remove the file that is there now
            self._replaced.append(connection)

    def cut(self) -> None:
        """See ``Store``; nobody waits for a file for long."""

    def _remove_leftovers(self) -> None:
        """Remove what belongs to a file that is not there any more; SQLite would take it for that of the new one."""
        there = [_file_at(self._path), _file_at(self._wal)]
        if there[0] is None or (self._files and there[0] != self._files[0] and there[1] == self._files[1]):
            self._wal.unlink(missing_ok=True)
        if not self._wal.exists():
            self._path.with_name(f"{self._path.name}-shm").unlink(missing_ok=True)

    @property
    def _writer(self) -> SqliteConnection:
        if self._connection is None:
            raise JournalError("it is closed.")
        return self._connection

    def _newly_taken(self) -> frozenset[int]:
        claims = self._writer.execute(_NEWLY_TAKEN, {"run": self._run, "known": self._known}).fetchall()
        if claims:
            self._known = claims[-1][0]
        return frozenset(session for _, session in claims)


_File = tuple[int, int]


def _file_at(path: Path) -> _File | None:
    """Say which file a path leads to; ``None`` where there is none, or none that can be reached."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino


def prepare_journal(path: Path) -> None:
    """Make the file, or check the one that is there.

    Raises:
        ConfigurationError: It can't be opened, is no journal, or is one of another version.
    """
    try:
        path.touch(mode=0o600)  # it holds what was observed
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

    Commits survive the end of the process, though perhaps not that of the machine: they do not wait for the disk.
    Whoever calls this sees to checkpoints.

    Args:
        path: The file.
        check: Called once the file is open, before it is read; what it raises closes the file again.

    Raises:
        sqlite3.Error: It can't be opened.
    """
    existing = f"file:{quote(str(path.absolute()))}?mode=rw"  # a journal that was removed is not made by looking
    connection = sqlite3.connect(
        existing, timeout=BUSY_TIMEOUT_S, isolation_level=None, factory=SqliteConnection, uri=True
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
    with connection.changing():  # several workers may come at once
        application = _pragma(connection, "application_id")
        if application == 0 and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            for statement in _TABLES.split(";\n")[:-1]:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif application != _APPLICATION_ID:
            raise ConfigurationError(f"Expected {path} to be a journal or not to exist, got another SQLite database.")
        elif (version := _pragma(connection, "user_version")) != _VERSION:
            raise ConfigurationError(
                f"Expected the journal {path} to have version {_VERSION}, got {version}: another release of OpenEnv "
                "has written it. Give another path, or remove the file with the sessions that it holds."
            )
        for statement in CLOCK_TABLES:
            connection.execute(statement)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
