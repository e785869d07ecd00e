"""The file behind a journal: its tables, and how a process opens it.

One file serves every worker of a server, and the same server started again. What sessions did is appended in batches,
one for whatever is sent in one go, because a row for each request would cost as much as a step does; a session's part
is picked out of them when it is needed, which is seldom.
"""

import sqlite3
from pathlib import Path

from openenv.core.exceptions import ConfigurationError

_APPLICATION_ID = 0x4F454A4C  # "OEJL"
_VERSION = 1
BUSY_TIMEOUT_S = 2.0
"""How long a process waits for another one that writes. None of them holds the file for more than some milliseconds."""

_TABLES = """
CREATE TABLE run (
    number INTEGER PRIMARY KEY,         -- one for each time that a process opened the journal
    started_at REAL NOT NULL
);
CREATE TABLE session (
    number INTEGER PRIMARY KEY,
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
    snapshot,
    position TEXT,              -- where the episode stood, and the answer to that request, where there is a snapshot
    ended TEXT,                 -- why, where it has
    last_batch INTEGER          -- nothing came after this one, where it has ended
);
CREATE INDEX session_id ON session (id);
CREATE TABLE batch (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    notes BLOB NOT NULL,                -- [[session, request, type, data, characters of its answer], ...]
    answers TEXT NOT NULL               -- one right after the other; see journal.Note
);
"""


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


def open_journal(path: Path) -> sqlite3.Connection:
    """Open the file.

    Commits survive the end of the process, though perhaps not that of the machine: they do not wait for the disk.
    Whoever calls this sees to checkpoints.

    Args:
        path: The file.

    Raises:
        sqlite3.Error: It can't be opened.
    """
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _create_or_check(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")  # several workers may come at once
    try:
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
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value
