"""Tables of a file of traces, their version, and what brings the tables of an older version up to date."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from openenv.core.env_server.sqlite_writing import pragma
from openenv.core.exceptions import ConfigurationError

APPLICATION_ID = 0x4F455452  # "OETR"
VERSION = 4

FIRST_WITH_SUMMARIES = 4
"""Earliest version with what ``summaries.fill`` adds to the tables of the ones before."""

_TABLES = """
CREATE TABLE run (
    number INTEGER PRIMARY KEY,         -- one for each time that a process opened the file for writing
    started_at REAL NOT NULL,
    seen_at REAL NOT NULL,              -- when it last wrote
    ended_at REAL                       -- when it ended in order
);
CREATE TABLE episode (
    number INTEGER PRIMARY KEY,         -- the run that recorded it, times 2^32, and a count
    session TEXT NOT NULL,              -- public name of the session
    transport TEXT NOT NULL,
    environment TEXT NOT NULL,
    version TEXT,
    started_at REAL NOT NULL,
    episode_id TEXT,                    -- the arguments of the reset
    seed TEXT,
    split TEXT,
    task_index TEXT,
    parent INTEGER,                     -- a fork continues this episode,
    parent_entries INTEGER NOT NULL,    -- after so many entries of it
    steps INTEGER NOT NULL,
    reward REAL,                        -- sum of the rewards
    ending TEXT,                        -- how it ended; NULL while it runs, or where its server died
    ended_at REAL,
    error TEXT                          -- code of the last error of the environment
);
CREATE INDEX episode_started_at ON episode (started_at);
CREATE INDEX episode_episode_id ON episode (episode_id) WHERE episode_id IS NOT NULL;
CREATE TABLE part (
    episode INTEGER NOT NULL,
    number INTEGER NOT NULL,            -- from 1; a missing number is a part that could not be written
    content BLOB NOT NULL               -- lines of JSON, or columns; see encoding.py and columns.py
);
CREATE INDEX part_episode ON part (episode);
"""

# Tables without what is computed, and indices of columns; comments of earlier versions stand in their statements.
_PLAIN = re.compile(
    r"""CREATE TABLE\s|CREATE (UNIQUE )?INDEX [\w"]+ ON [\w"]+ ?\([\w", ]+\)( WHERE [\w"]+ IS NOT NULL)?\Z"""
)
_CHECK = re.compile(r"\bCHECK\b", re.IGNORECASE)
# What each version adds to the tables of the one before it.
_ADDED = {
    2: """
ALTER TABLE part ADD COLUMN entries INTEGER;  -- number of lines; NULL in parts of version 1
CREATE INDEX episode_environment ON episode (environment, started_at);
CREATE INDEX episode_seed ON episode (seed, started_at) WHERE seed IS NOT NULL;
CREATE INDEX episode_task ON episode (task_index, split, started_at) WHERE task_index IS NOT NULL;
CREATE TABLE blob (
    hash TEXT PRIMARY KEY,              -- SHA-256 of the content
    content BLOB NOT NULL               -- a long value within lines, which stand for it by its hash; see blobs.py
);
CREATE TABLE blob_use (
    episode INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (episode, hash)
) WITHOUT ROWID;
CREATE INDEX blob_use_hash ON blob_use (hash);
CREATE TABLE score (
    episode INTEGER NOT NULL,
    name TEXT NOT NULL,                 -- name of the rubric
    at REAL NOT NULL,
    content BLOB NOT NULL,              -- JSON: the reward, that of each step, and the components
    PRIMARY KEY (episode, name)
) WITHOUT ROWID;
CREATE TABLE conversation (
    episode_id TEXT NOT NULL,           -- the id that the episode's reset names; either may come first
    at REAL NOT NULL,
    model TEXT,
    content BLOB NOT NULL               -- JSON: messages, tools, tokens and what they cost
);
CREATE INDEX conversation_episode_id ON conversation (episode_id);
""",
    3: "",  # the tables stay, and contents of parts may have columns; see columns.py
    4: """
ALTER TABLE episode ADD COLUMN token_name TEXT;  -- name of the token that its client showed
CREATE INDEX episode_token_name ON episode (token_name, started_at) WHERE token_name IS NOT NULL;
ALTER TABLE episode ADD COLUMN label TEXT;  -- what a person calls it, such as good or bad
ALTER TABLE episode ADD COLUMN note TEXT;  -- what a person says of it
CREATE INDEX episode_label ON episode (label, started_at) WHERE label IS NOT NULL;
CREATE TABLE component (
    episode INTEGER NOT NULL,
    name TEXT NOT NULL,                 -- name of a component of the rewards
    total REAL NOT NULL,                -- sum of its scores over the steps
    PRIMARY KEY (episode, name)
) WITHOUT ROWID;
ALTER TABLE conversation ADD COLUMN rollout_group TEXT;  -- of a rollout, its group in the training
ALTER TABLE conversation ADD COLUMN reward REAL;         -- its reward there
ALTER TABLE conversation ADD COLUMN cut_by TEXT;         -- the limit of the model's side that cut it off
CREATE INDEX conversation_rollout_group ON conversation (rollout_group) WHERE rollout_group IS NOT NULL;
CREATE INDEX conversation_model ON conversation (model, episode_id) WHERE model IS NOT NULL;
""",
}


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty database, within a transaction."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    _upgrade(connection, 0)


def upgrade_tables(connection: sqlite3.Connection, path: Path) -> int:
    """Bring the tables of an older version up to date, within a transaction.

    Args:
        connection: Connection to the file.
        path: The file, for messages.

    Returns:
        The version that they had.

    Raises:
        ConfigurationError: The file has no traces, or traces of a later version; the message says what it is.
        sqlite3.Error: The file is no SQLite database, or is truncated.
    """
    found = check(connection, path)
    if found < VERSION:
        _upgrade(connection, found)
    return found


def check(connection: sqlite3.Connection, path: Path) -> int:
    """Check that an open file has traces that this release can read, and return their version.

    Raises:
        ConfigurationError: It has not; the message says what it is.
        sqlite3.Error: The file is no SQLite database, or is truncated.
    """
    if pragma(connection, "application_id") != APPLICATION_ID:
        raise ConfigurationError(f"Expected {path} to be a file of traces, got another SQLite database.")
    version = pragma(connection, "user_version")
    if not 1 <= version <= VERSION:
        raise ConfigurationError(
            f"Expected the traces {path} to have version {VERSION} or an earlier one, got {version}: a later release "
            "of OpenEnv has written them. Read them with that release, or give another path."
        )
    _check_statements(connection, path)
    return version


def _check_statements(connection: sqlite3.Connection, path: Path) -> None:
    """Check that a file has nothing that runs where it is read or written: no view, trigger or computed column."""
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall():
        columns = connection.execute("SELECT hidden, dflt_value FROM pragma_table_xinfo(?)", (name,))
        if not _PLAIN.match(str(sql)) or _CHECK.search(str(sql)) or any(hidden or given for hidden, given in columns):
            raise ConfigurationError(
                f"Expected the traces {path} to have plain tables, got {name!r:.100} made by {sql!r:.100}: another "
                "program has written them. Export their episodes with that program, and import them."
            )


def _upgrade(connection: sqlite3.Connection, found: int) -> None:
    # Not executescript(), which commits the transaction first.
    for statement in upgrade_statements(found):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def upgrade_statements(found: int) -> Iterator[str]:
    """Yield the statements that bring the tables of an earlier version up to date; without tables, from version 0."""
    if found == 0:
        yield from _statements(_TABLES)
    for version in range(max(found, 1) + 1, VERSION + 1):
        yield from _statements(_ADDED[version])


def _statements(text: str) -> Iterator[str]:
    text = "\n".join(line.partition("--")[0].rstrip() for line in text.splitlines())
    yield from filter(None, map(str.strip, text.split(";")))
