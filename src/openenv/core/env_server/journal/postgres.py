"""A journal in a database of PostgreSQL, which servers on several machines share.

A commit takes a way over the network, in which the event loop goes on: what is answered meanwhile leaves with the next
one. While it is under way, nothing else is asked over its connection.
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
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from openenv.core.env_server.journal.batch import Batch
from openenv.core.env_server.journal.postgres_schema import (
    HOLD_BACK,
    IDENTITY,
    LEAD,
    SCHEMA,
    TAKEN,
    add_run,
    prepare_tables,
)
from openenv.core.env_server.journal.store import Rows
from openenv.core.exceptions import ConfigurationError, JournalError

AnswerT = TypeVar("AnswerT")

# How long answers wait for a database that has just gone away, as when it is restarted, until they leave without it;
# and for a commit that is neither done nor refused.
_PATIENCE_S = 2.0
_LONGEST_COMMIT_S = 5.0
_PAUSE_S = 0.05
# What the address says goes before these.
_DEFAULTS = {
    "connect_timeout": "3",
    "application_name": "openenv",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
# A server that vanished amid a commit, or while it took up sessions, must not hold others back for long.
_SET_UP = f"SET search_path = {SCHEMA}; SET idle_in_transaction_session_timeout = '5s'; SET lock_timeout = '10s'"

_APPEND = """
SELECT append(%(run)s::integer, %(known)s::bigint, %(sequence)s::bigint, %(at)s::double precision,
    %(notes)b, %(answers)b)
"""
_NEWLY_TAKEN = "SELECT number, session FROM claim WHERE run = %s AND number > %s ORDER BY number"
_LOOKED_AFTER = """
UPDATE journal SET looked_after_at = now() WHERE looked_after_at < now() - interval '30 seconds'
"""
_PARAMETER = re.compile(r"(?<!:):(\w+)")
# What went wrong with the connection and not with what was asked.
_LOST = (psycopg.OperationalError, psycopg.InterfaceError)


class PostgresConnection:
    """See ``Connection``.

    Args:
        connection: The library's.
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
        """See ``Connection``. Survives the end of the database's process, whatever its commits do by default."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL synchronous_commit = on")
            yield

    def hold_back(self, runs: Iterable[int]) -> None:
        """See ``Connection``."""
        for run in runs:
            self.execute(HOLD_BACK, {"run": run})

    def leads(self) -> bool:
        """See ``Connection``. One server at a time, which need not always be the same."""
        (leads,) = self.execute(LEAD).fetchone()
        return bool(leads) and self.execute(_LOOKED_AFTER).rowcount == 1

    def used_bytes(self) -> int:
        """See ``Connection``. The files are larger: what was deleted leaves room in them, which is used again."""
        if self._used_bytes is None:
            (self._used_bytes,) = self.execute("SELECT coalesce(sum(size), 0)::bigint FROM batch").fetchone()
        return self._used_bytes

    def delete_batches(self, numbers: list[int]) -> None:
        """See ``Connection``."""
        deleted = self.execute("DELETE FROM batch WHERE number = ANY(:numbers) RETURNING size", {"numbers": numbers})
        self._used_bytes = self.used_bytes() - sum(size for (size,) in deleted.fetchall())

    def tidy(self) -> None:
        """See ``Connection``; the database does it by itself."""


class PostgresStore:
    """A database; see ``Store``.

    Args:
        address: Where it is, as ``postgresql://USER@HOST/DATABASE``. The password may stand in it, or where else the
            tools of PostgreSQL look for one.

    Raises:
        ConfigurationError: There is no such database, it can't be reached, or its journal is of another version.
    """

    writes_at_once = False
    prune_every_s = 60.0

    def __init__(self, address: str) -> None:
        parts = _parts_of(address)
        self.name = _name_of(parts)
        self._secret = str(parts.get("password") or "")
        self._conninfo = make_conninfo(**{**_DEFAULTS, **parts})
        self._writer: psycopg.AsyncConnection[Any] | None = None
        self._others: set[psycopg.Connection[Any]] = set()
        self._known = 0
        self._is_patient = True
        self._is_closed = False
        try:
            self._next_run: int | None = self._new_run()
        except psycopg.Error as error:
            raise ConfigurationError(
                f"The journal {self.name} can't be used: {self._told(error)} Give the address of a database that "
                "answers and that its user may create a schema in."
            ) from None

    async def start(self) -> int:
        """See ``Store``."""
        run, self._next_run = self._next_run, None
        try:
            self._run = await asyncio.to_thread(self._new_run) if run is None else run
        except psycopg.Error as error:
            raise JournalError(self._told(error)) from None
        except ConfigurationError as error:
            raise JournalError(f"{error}") from error
        self._known = 0
        self._is_closed = False
        return self._run

    async def is_in_place(self) -> bool:
        """See ``Store``: whether its tables are still those that were opened."""
        return bool(await self._patiently(self._read_identity) == self._identity)

    async def write(self, batch: Batch) -> frozenset[int]:
        """See ``Store``."""
        return await self._patiently(partial(self._write, batch))

    async def newly_taken(self) -> frozenset[int]:
        """See ``Store``."""
        return await self._patiently(self._read_newly_taken)

    def set_patient(self, *, is_patient: bool) -> None:
        """See ``Store``."""
        self._is_patient = is_patient

    @contextmanager
    def connect(self) -> Iterator[PostgresConnection]:
        """See ``Store``."""
        try:
            with psycopg.connect(self._conninfo, autocommit=True) as connection:
                self._others.add(connection)
                try:
                    connection.execute(_SET_UP)
                    yield PostgresConnection(connection)
                finally:
                    self._others.discard(connection)
        except psycopg.Error as error:
            raise JournalError(self._told(error)) from None

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
        """Ask something of the database, again and again for a while if the connection is lost."""
        deadline = time.monotonic() + (_PATIENCE_S if self._is_patient else 0.0)
        while True:
            try:
                connection = await self._connected()
                with _cut_late(connection):
                    return await ask(connection)
            except psycopg.Error as error:
                self._drop_writer()
                if not isinstance(error, _LOST) or self._is_closed or time.monotonic() >= deadline:
                    raise JournalError(self._told(error)) from None
            await asyncio.sleep(_PAUSE_S)

    async def _write(self, batch: Batch, connection: "psycopg.AsyncConnection[Any]") -> frozenset[int]:
        try:
            await self._append(connection, batch)
        except psycopg.Error as error:
            if error.sqlstate != TAKEN:
                raise
        else:
            return frozenset()
        await connection.rollback()
        return await self._read_newly_taken(connection)

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

    async def _read_newly_taken(self, connection: "psycopg.AsyncConnection[Any]") -> frozenset[int]:
        claims = await (await connection.execute(_NEWLY_TAKEN, (self._run, self._known))).fetchall()
        if claims:
            self._known = claims[-1][0]
        return frozenset(session for _, session in claims)

    async def _connected(self) -> "psycopg.AsyncConnection[Any]":
        if self._writer is None:
            self._writer = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
            with _cut_late(self._writer):
                await self._writer.execute(_SET_UP)
        return self._writer

    async def _read_identity(self, connection: "psycopg.AsyncConnection[Any]") -> Any:
        return await (await connection.execute(IDENTITY)).fetchone()

    def _new_run(self) -> int:
        """Make the tables where there are none, and take down that this process uses them."""
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            prepare_tables(connection, self.name)
            self._identity = connection.execute(IDENTITY).fetchone()
            return add_run(connection)

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.pgconn.finish()
            self._writer = None

    def _told(self, error: psycopg.Error) -> str:
        """Say what went wrong, without the password."""
        told = " ".join(f"{error}".split()) or type(error).__name__
        told = told.replace(self._secret, "***") if self._secret else told
        return told if told.endswith(".") else f"{told}."


@cache
def _for_psycopg(statement: str) -> str:
    """Write a statement's parameters as the library wants them; the batch's number is where ``append`` has left it."""
    statement = statement.replace(":batch", "current_setting('openenv.batch')::bigint")
    return _PARAMETER.sub(r"%(\1)s", statement)


def _parts_of(address: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(address))
    except psycopg.Error:  # whose message quotes the address, and with it the password
        raise ConfigurationError(
            "Expected the journal's address to be like postgresql://USER@HOST:PORT/DATABASE, with % codes for "
            "characters that have a meaning there; got one that PostgreSQL can't read."
        ) from None


def _name_of(parts: Mapping[str, Any]) -> str:
    user, host = parts.get("user"), parts.get("host") or parts.get("hostaddr") or ""
    port, database = parts.get("port"), parts.get("dbname") or ""
    return f"postgresql://{f'{user}@' if user else ''}{host}{f':{port}' if port else ''}/{database}"


@contextmanager
def _cut_late(connection: "psycopg.AsyncConnection[Any]") -> Iterator[None]:
    """End the connection where what is asked of it takes too long, which ends the wait for it."""
    timer = asyncio.get_running_loop().call_later(_LONGEST_COMMIT_S, _cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: "psycopg.AsyncConnection[Any] | psycopg.Connection[Any]") -> None:
    """End a connection from outside of what waits for it: closing it would not wake that up."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as its_socket:
        its_socket.shutdown(socket.SHUT_RDWR)
