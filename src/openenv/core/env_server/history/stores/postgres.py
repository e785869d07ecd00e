"""Journal in a PostgreSQL database, which servers on several machines share.

A commit takes a round trip over the network, during which the event loop runs: answers of that time are sent with the
next commit. The connection of a commit in progress carries no other statement.
"""

import asyncio
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Any, TypeVar

import psycopg

from openenv.core.env_server.history.batch import Batch
from openenv.core.env_server.history.store import Rows
from openenv.core.env_server.history.stores.postgres_schema import (
    ACQUIRED,
    IDENTITY,
    LEAD,
    LOCK_RUN,
    SCHEMA,
    add_run,
    prepare_tables,
)
from openenv.core.env_server.postgres_address import PostgresAddress
from openenv.core.exceptions import ConfigurationError, JournalError

AnswerT = TypeVar("AnswerT")

# Seconds that answers wait for a lost database, as in a restart, or for a commit, until they are sent without it.
_PATIENCE_S = 2.0
_LONGEST_COMMIT_S = 5.0
_PAUSE_S = 0.05
# A server that vanished during a commit, or while it acquired sessions, must not block others for long.
_SET_UP = f"SET search_path = {SCHEMA}; SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '10s'"

_APPEND = """
SELECT append(%(run)s::integer, %(known)s::bigint, %(sequence)s::bigint, %(at)s::double precision,
    %(notes)b, %(answers)b)
"""
_NEWLY_ACQUIRED = "SELECT number, session FROM claim WHERE run = %s AND number > %s ORDER BY number"
_LOOKED_AFTER = """
UPDATE journal SET looked_after_at = now() WHERE looked_after_at < now() - interval '30 seconds'
"""
_PARAMETER = re.compile(r"(?<!:):(\w+)")
# Errors of the connection rather than of a statement.
_LOST = (psycopg.OperationalError, psycopg.InterfaceError)


class PostgresConnection:
    """See ``Connection``.

    Args:
        connection: The psycopg connection.
    """

    piece = 100

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        self._used_bytes: int | None = None

    def execute(self, statement: str, values: Mapping[str, Any] | None = None, /) -> Rows:
        """See ``Connection``."""
        return self._connection.execute(_for_psycopg(statement), values)

    def stream(self, statement: str, values: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
        """See ``Connection``."""
        with self._connection.cursor(name="stream", binary=True) as cursor:
            cursor.execute(_for_psycopg(statement), values)
            yield from cursor

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See ``Connection``."""
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    @contextmanager
    def changing(self) -> Iterator[None]:
        """See ``Connection``. Durable in a crash of the database, whatever its default for commits is."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL synchronous_commit = on")
            yield

    def lock_runs(self, runs: Iterable[int]) -> None:
        """See ``Connection``."""
        for run in runs:
            self.execute(LOCK_RUN, {"run": run})

    def leads(self) -> bool:
        """See ``Connection``. Holds for one server at a time, not always the same."""
        (leads,) = self.execute(LEAD).fetchone()
        return bool(leads) and self.execute(_LOOKED_AFTER).rowcount == 1

    def used_bytes(self) -> int:
        """See ``Connection``. The files are larger: they keep the space of deleted rows, which is used again."""
        if self._used_bytes is None:
            (self._used_bytes,) = self.execute("SELECT coalesce(sum(size), 0)::bigint FROM batch").fetchone()
        return self._used_bytes

    def delete_batches(self, numbers: list[int]) -> None:
        """See ``Connection``."""
        deleted = self.execute("DELETE FROM batch WHERE number = ANY(:numbers) RETURNING size", {"numbers": numbers})
        self._used_bytes = self.used_bytes() - sum(size for (size,) in deleted.fetchall())

    def tidy(self) -> None:
        """See ``Connection``. Does nothing: the database maintains itself."""


class PostgresStore:
    """Store in a database; see ``Store``.

    Args:
        address: Address of the database, ``postgresql://USER@HOST/DATABASE``. The password may be part of it, or be
            where the tools of PostgreSQL look for one.

    """

    prune_every_s = 60.0

    def __init__(self, address: str) -> None:
        self._address = PostgresAddress(address, "journal", JournalError)
        self.name = self._address.name
        self._writer: psycopg.AsyncConnection[Any] | None = None
        self._others: set[psycopg.Connection[Any]] = set()
        self._known = 0
        self._is_closed = False
        self._next_run: int | None = None

    def prepare(self) -> None:
        """See ``Store``."""
        if self._next_run is not None:
            return
        try:
            self._next_run = self._new_run()
        except psycopg.Error as error:
            raise ConfigurationError(
                f"The journal {self.name} can't be used: {self._address.message_of(error)} Give the address of a "
                "database that answers and that its user may create a schema in."
            ) from None

    async def start(self) -> int:
        """See ``Store``."""
        run, self._next_run = self._next_run, None
        try:
            self._run = await asyncio.to_thread(self._new_run) if run is None else run
        except psycopg.Error as error:
            raise JournalError(self._address.message_of(error)) from None
        except ConfigurationError as error:
            raise JournalError(f"{error}") from error
        self._known = 0
        self._is_closed = False
        return self._run

    async def is_current(self) -> bool:
        """See ``Store``. Compares the identity of the tables with that of the opened tables."""
        return bool(await self._patiently(self._read_identity) == self._identity)

    def write_at_once(self, batch: Batch) -> frozenset[int] | None:
        """See ``Store``. A commit is a round trip over the network."""
        return None

    async def write(self, batch: Batch) -> frozenset[int]:
        """See ``Store``."""
        return await self._patiently(partial(self._write, batch))

    async def newly_acquired(self) -> frozenset[int]:
        """See ``Store``."""
        return await self._patiently(self._read_newly_acquired)

    @contextmanager
    def connect(self) -> Iterator[PostgresConnection]:
        """See ``Store``."""
        try:
            with psycopg.connect(self._address.conninfo, autocommit=True) as connection:
                self._others.add(connection)
                try:
                    connection.execute(_SET_UP)
                    yield PostgresConnection(connection)
                finally:
                    self._others.discard(connection)
        except psycopg.Error as error:
            raise JournalError(self._address.message_of(error)) from None

    def needs_tidying(self) -> bool:
        """See ``Store``."""
        return False

    async def close(self) -> None:
        """See ``Store``."""
        self._is_closed = True
        if self._writer is not None:
            await self._writer.close()
            self._writer = None

    def cut(self) -> None:
        """See ``Store``."""
        for connection in list(self._others):
            _cut(connection)

    async def _patiently(self, ask: Callable[["psycopg.AsyncConnection[Any]"], Awaitable[AnswerT]]) -> AnswerT:
        """Run a query, repeatedly for some seconds if the connection is lost."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                connection = await self._connected()
                with _cut_late(connection):
                    return await ask(connection)
            except psycopg.Error as error:
                self._drop_writer()
                if not isinstance(error, _LOST) or self._is_closed or time.monotonic() >= deadline:
                    raise JournalError(self._address.message_of(error)) from None
            await asyncio.sleep(_PAUSE_S)

    async def _write(self, batch: Batch, connection: "psycopg.AsyncConnection[Any]") -> frozenset[int]:
        try:
            await self._append(connection, batch)
        except psycopg.Error as error:
            if error.sqlstate != ACQUIRED:
                raise
        else:
            return frozenset()
        await connection.rollback()
        return await self._read_newly_acquired(connection)

    async def _append(self, connection: "psycopg.AsyncConnection[Any]", batch: Batch) -> None:
        values = {
            "run": self._run,
            "known": self._known,
            "sequence": batch.sequence,
            "at": batch.at,
            "notes": batch.notes,
            "answers": batch.answers.encode(errors="replace"),
        }
        if not batch.changes:
            await connection.execute(_APPEND, values)
            return
        async with connection.pipeline():
            await connection.execute("BEGIN")
            await connection.execute(_APPEND, values)
            for statement, changed in batch.changes:
                await connection.execute(_for_psycopg(statement), changed)
            await connection.execute("COMMIT")

    async def _read_newly_acquired(self, connection: "psycopg.AsyncConnection[Any]") -> frozenset[int]:
        rows = await (await connection.execute(_NEWLY_ACQUIRED, (self._run, self._known))).fetchall()
        if rows:
            self._known = rows[-1][0]
        return frozenset(session for _, session in rows)

    async def _connected(self) -> "psycopg.AsyncConnection[Any]":
        if self._writer is None:
            self._writer = await psycopg.AsyncConnection.connect(self._address.conninfo, autocommit=True)
            with _cut_late(self._writer):
                await self._writer.execute(_SET_UP)
        return self._writer

    async def _read_identity(self, connection: "psycopg.AsyncConnection[Any]") -> Any:
        return await (await connection.execute(IDENTITY)).fetchone()

    def _new_run(self) -> int:
        """Create the tables where there are none, and add a run for this process."""
        with psycopg.connect(self._address.conninfo, autocommit=True) as connection:
            prepare_tables(connection, self.name)
            self._identity = connection.execute(IDENTITY).fetchone()
            return add_run(connection)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.pgconn.finish()
            self._writer = None


@cache
def _for_psycopg(statement: str) -> str:
    """Convert parameters to psycopg's form; the batch's number is where ``append`` has stored it."""
    statement = statement.replace(":batch", "current_setting('openenv.batch')::bigint")
    return _PARAMETER.sub(r"%(\1)s", statement)


@contextmanager
def _cut_late(connection: "psycopg.AsyncConnection[Any]") -> Iterator[None]:
    """Cut the connection where a statement takes too long, which ends the wait for its result."""
    timer = asyncio.get_running_loop().call_later(_LONGEST_COMMIT_S, _cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: "psycopg.AsyncConnection[Any] | psycopg.Connection[Any]") -> None:
    """Shut down a connection's socket, which wakes its waiting task or thread; ``close`` would not."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as its_socket:
        its_socket.shutdown(socket.SHUT_RDWR)
