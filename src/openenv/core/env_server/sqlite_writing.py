"""What the journal and the traces share of SQLite: a transaction for changes, and the size of what is stored."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Open a transaction for changes, which is rolled back on an exception; no other process writes meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a setting or a count that is a number."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of what is stored; the file itself keeps the space of removed rows for new ones."""
    pages, free, size = (pragma(connection, name) for name in ("page_count", "freelist_count", "page_size"))
    return (pages - free) * size
