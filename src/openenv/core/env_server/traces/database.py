"""What traces need of a database: a file of SQLite, or PostgreSQL for many servers."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

Values = Sequence[Any] | Mapping[str, Any]
"""Parameters of a statement: ``?`` in their order, or ``:name``."""


class TraceStoreError(Exception):
    """A database did not carry out a statement, or can't be reached; the message has no password."""


class TraceValueError(TraceStoreError):
    """A database refuses a value, and would refuse it again."""


class NoRoomError(Exception):
    """No room: the size that a connection is limited to would be exceeded."""


STORE_ERRORS = (sqlite3.Error, TraceStoreError)
"""Errors of both kinds of databases."""

REFUSALS = (
    TraceValueError,
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    ValueError,
    TypeError,
    OverflowError,
)
"""Errors of a value that a database can't hold, and would refuse again."""


class Cursor(Protocol):
    """Rows of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of rows that the statement changed."""

    def fetchone(self) -> Any:
        """Return the next row; ``None`` at the end."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows."""


class TraceConnection(Protocol):
    """Connection to the tables of traces. Statements are the same for all databases."""

    def execute(self, sql: str, values: Values = (), /) -> Cursor:
        """Carry out a statement."""

    def executemany(self, sql: str, values: Iterable[Values], /) -> Cursor:
        """Carry out a statement for each of several values."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Values], on_conflict: str) -> None:
        """Insert rows.

        Args:
            table: Name of the table.
            columns: Names of its columns.
            rows: The values of each row, in their order.
            on_conflict: What is done where a row is there: the clause ``ON CONFLICT`` of SQL.
        """

    def stream(self, sql: str, values: Values) -> Iterator[Any]:
        """Iterate over rows without holding all of them; other statements may be carried out meanwhile."""

    def rows_within(self, sql: str, values: Values, seconds: float) -> list[Any] | None:
        """Return rows; ``None`` if finding them takes longer."""

    def changing(self, *, removes: bool = False, adds: int = 0) -> AbstractContextManager[None]:
        """Open a transaction for changes, which is rolled back on an exception.

        Args:
            removes: Whether rows are removed that other processes might refer to meanwhile.
            adds: Bytes that it adds.

        Raises:
            NoRoomError: They would exceed the size of ``limit``, as far as that can be found out many times a second.
        """

    def used_bytes(self) -> int:
        """Return the size of what is stored."""

    def limit(self, max_bytes: float) -> None:
        """Keep what is stored within a size, and a log of changes beside it within a tenth of that."""

    def now(self) -> float:
        """Return the time in seconds since 1970, by the clock that is the same for all who write the tables."""


class TraceDatabase(Protocol):
    """Where traces are kept."""

    @property
    def name(self) -> str:
        """Path or address, without a password."""

    def prepare(self) -> None:
        """Create the tables, or check those that are there. Blocks.

        Raises:
            ConfigurationError: The database can't be used.
        """

    def connect(self) -> AbstractContextManager[TraceConnection]:
        """Connect to tables that exist."""

    def open(self) -> AbstractContextManager[TraceConnection]:
        """Connect to tables that exist, and add what those of an older version lack.

        Raises:
            ConfigurationError: There are none, or they are of a later version.
        """

    def identity(self) -> object:
        """Return what tells these tables from others that take their place; ``None`` if there are none."""
