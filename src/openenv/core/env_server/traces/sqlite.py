"""Traces in a file of SQLite."""

import atexit
import math
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openenv.core.documents import folder_lock
from openenv.core.env_server.sqlite_writing import pragma, used_bytes, writing
from openenv.core.env_server.traces.database import NoRoomError, Values
from openenv.core.env_server.traces.summaries import fill
from openenv.core.env_server.traces.tables import FIRST_WITH_SUMMARIES, VERSION, check, create_tables, upgrade_tables
from openenv.core.exceptions import ConfigurationError

BUSY_TIMEOUT_S = 5.0
"""Seconds that a process waits while another one locks the file."""

# Size of the write-ahead log in bytes to which it is cut after a checkpoint; less where what is stored is limited.
_MOST_IN_WAL = 32 * 1024 * 1024
# Shares of a limited size: what is stored, the log after which it is emptied, and the log with what is to be added;
# other processes write it, too.
_STORED, _SHARE_OF_WAL, _LARGEST_SHARE_OF_WAL = 0.95, 0.02, 0.1
# Milliseconds that emptying the log waits for readers.
_PATIENCE_MS = 20
# Seconds between two tries to empty a log without room.
_PAUSE_S = 0.01
# SQLite is built for 999 parameters of a statement or more.
_ROWS_IN_STATEMENT = 50
# Operations of SQLite's machine, some twenty for each row, between two looks at the clock.
_OPERATIONS_BETWEEN_LOOKS = 1000
# Codes of errors where a file, or beside it its log, can't be written.
_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


class FileConnection(sqlite3.Connection):
    """Connection to a file; see ``TraceConnection``."""

    # Set by ``limit``: the largest size in bytes, and the write-ahead log.
    _max_bytes = math.inf
    _log: Path | None = None

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Values], on_conflict: str) -> None:
        """See ``TraceConnection``. A statement has many rows: after each, the thread waits for Python's lock."""
        begin = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "  # noqa: S608  # constants
        row = f"({', '.join('?' * len(columns))})"
        for start in range(0, len(rows), _ROWS_IN_STATEMENT):
            some = rows[start : start + _ROWS_IN_STATEMENT]
            self.execute(f"{begin}{', '.join([row] * len(some))} {on_conflict}", [*chain.from_iterable(some)])

    def stream(self, sql: str, values: Values) -> Iterator[Any]:
        """See ``TraceConnection``."""
        return self.execute(sql, values)

    def rows_within(self, sql: str, values: Values, seconds: float) -> list[Any] | None:
        """See ``TraceConnection``."""
        deadline = time.monotonic() + seconds
        self.set_progress_handler(lambda: time.monotonic() > deadline, _OPERATIONS_BETWEEN_LOOKS)
        try:
            return self.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            return None
        finally:
            self.set_progress_handler(None, 0)

    @contextmanager
    def changing(self, *, removes: bool = False, adds: int = 0) -> Iterator[None]:
        """See ``TraceConnection``. One process writes at a time, so that all of them together keep to the limit."""
        with ExitStack() as transaction:
            self._begin(transaction, adds)
            if adds and used_bytes(self) + adds > self._max_bytes * _STORED:
                raise NoRoomError
            yield
        if self._log_size() > min(_MOST_IN_WAL, self._max_bytes * _SHARE_OF_WAL):
            self._empty_log()

    def _begin(self, transaction: ExitStack, adds: int) -> None:
        """Begin a transaction with a log that has room for it, which may have to be emptied first.

        Raises:
            OperationalError: Another process reads the log, so that it can't be emptied.
        """
        until = time.monotonic() + BUSY_TIMEOUT_S
        while True:
            transaction.enter_context(writing(self))
            if self._log_size() + adds <= self._max_bytes * _LARGEST_SHARE_OF_WAL:
                return
            transaction.close()
            if time.monotonic() > until:
                raise sqlite3.OperationalError("its log can't be emptied, as another process reads it")
            self._empty_log()
            time.sleep(_PAUSE_S)

    def used_bytes(self) -> int:
        """See ``TraceConnection``. The file itself keeps the space of removed episodes for new ones."""
        return used_bytes(self)

    def limit(self, max_bytes: float) -> None:
        """See ``TraceConnection``. A transaction is in the log as a whole, before it is in the file."""
        (_, _, path) = self.execute("PRAGMA database_list").fetchone()
        self._log = _log_of(Path(path))
        self._max_bytes = max_bytes

    def _log_size(self) -> int:
        """Return the size of the log of a limited file."""
        try:
            return 0 if self._log is None else self._log.stat().st_size
        except FileNotFoundError:
            return 0

    def _empty_log(self) -> None:
        """Write the log into the file, and cut it; not while another connection reads it, which the next try does."""
        self.execute(f"PRAGMA busy_timeout = {_PATIENCE_MS}")
        try:
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self.execute(f"PRAGMA busy_timeout = {round(1000 * BUSY_TIMEOUT_S)}")

    def now(self) -> float:
        """See ``TraceConnection``. Who writes the file shares its memory, and so runs on this machine."""
        return time.time()


class FileDatabase:
    """File of SQLite; see ``TraceDatabase``.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)

    def prepare(self) -> None:
        """See ``TraceDatabase``."""
        path = self._path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)  # the file contains observations
            # The folder is locked, since two processes can't set the mode of a new file at once.
            with folder_lock(path.parent), connected(path) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                with connection.changing():
                    _create_or_upgrade(connection, path)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"The traces {path} can't be opened: {error}. Give another path.") from error

    @contextmanager
    def connect(self) -> Iterator[FileConnection]:
        """See ``TraceDatabase``."""
        with connected(self._path) as connection:
            yield connection

    @contextmanager
    def open(self) -> Iterator[FileConnection]:
        """See ``TraceDatabase``. Of a file that can't be written, a copy is read."""
        if not self._path.is_file():
            raise ConfigurationError(f"Expected a file of traces at {self._path}, found none.")
        with ExitStack() as opened:
            try:
                connection = opened.enter_context(_up_to_date(self._path, self._path))
            except sqlite3.OperationalError as error:
                if _primary_code(error) not in _NOT_WRITABLE:
                    raise
                connection = opened.enter_context(_up_to_date(_copies.copy_of(self._path), self._path))
                connection.execute("PRAGMA query_only = ON")  # changes of a copy would be lost
            yield connection

    def identity(self) -> object:
        """See ``TraceDatabase``. The file that has this path now."""
        try:
            about = self._path.stat()
        except FileNotFoundError:
            return None
        return about.st_dev, about.st_ino


@contextmanager
def connected(path: Path) -> Iterator[FileConnection]:
    """Open an existing file, and close it after the block."""
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode=rw",
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
        factory=FileConnection,
    )
    # A file of other programs may have text that is no UTF-8.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {_MOST_IN_WAL}")
        connection.execute("PRAGMA secure_delete = FAST")  # zeros in place of what is removed would all be in the log
        yield connection
    finally:
        connection.close()


def is_damage(error: Exception) -> bool:
    """Return whether an error says that a file is damaged, as one that was cut off."""
    return _primary_code(error) == sqlite3.SQLITE_CORRUPT


class _Copies:
    """Copies of files that can't be written, each until its original has changed, or the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By their originals: what these were like, and where the copies are.
        self._made: dict[Path, tuple[list[object], Path]] = {}
        self._folder: Path | None = None  # made with the first copy

    def copy_of(self, path: Path) -> Path:
        """Return the copy of a file as it is now, with its write-ahead log.

        Raises:
            ConfigurationError: The file can't be read, or there is no room for a copy.
        """
        try:
            with self._lock:
                now = [_size_and_time(path), _size_and_time(_log_of(path))]
                was, copy = self._made.get(path, (None, path))
                if was != now or not copy.exists():
                    copy = self._copy(path)
                    self._made[path] = now, copy
                return copy
        except OSError as error:
            raise ConfigurationError(
                f"The traces {path} can't be written, nor copied to be read: {error}. Copy them to a folder that can "
                "be written."
            ) from error

    def _copy(self, path: Path) -> Path:
        if self._folder is None or not self._folder.exists():
            self._folder = Path(tempfile.mkdtemp(prefix="openenv-traces-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        if path in self._made:
            shutil.rmtree(self._made[path][1].parent, ignore_errors=True)
        copy = Path(tempfile.mkdtemp(dir=self._folder), path.name)
        if _log_of(path).exists():
            shutil.copyfile(_log_of(path), _log_of(copy))
        shutil.copyfile(path, copy)
        return copy


_copies = _Copies()


@contextmanager
def _up_to_date(path: Path, original: Path) -> Iterator[FileConnection]:
    """Open a file, whose tables are of this version then; messages name the original of a copy."""
    with connected(path) as connection:
        if check(connection, original) < VERSION:
            with connection.changing():
                _upgrade(connection, original)
        yield connection


def _log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def _size_and_time(path: Path) -> object:
    """Return what differs of a file after a change; ``None`` if there is none."""
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _primary_code(error: Exception) -> int:
    """Return the code of an error; of the module's own, which have none, that of no error."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & 0xFF  # extended codes have more above the lowest eight bits


def _create_or_upgrade(connection: FileConnection, path: Path) -> None:
    is_new = pragma(connection, "application_id") == 0
    if is_new and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        create_tables(connection)
    else:
        _upgrade(connection, path)


def _upgrade(connection: FileConnection, path: Path) -> None:
    if upgrade_tables(connection, path) < FIRST_WITH_SUMMARIES:
        fill(connection)
