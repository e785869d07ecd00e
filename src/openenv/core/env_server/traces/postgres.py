"""Traces in a PostgreSQL database, which many servers write at once.

The tables are those of a file (``tables.py``) in a schema of their own. Who writes holds a lock that all writers share;
who removes episodes holds it alone, so that no value goes that an episode is about to refer to.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Any

import psycopg

from openenv.core.env_server.postgres_address import PostgresAddress
from openenv.core.env_server.traces.database import TraceStoreError, TraceValueError, Values
from openenv.core.env_server.traces.summaries import fill
from openenv.core.env_server.traces.tables import FIRST_WITH_SUMMARIES, VERSION, upgrade_statements
from openenv.core.exceptions import ConfigurationError

SCHEMA = "openenv_traces"
_FIRST_VERSION = 2
# Key of advisory locks, "OETR", and of the one under which tables are made.
_LOCK, _MAKING = 0x4F455452, 1
_WRITING = 2
_SET_UP = f"SET search_path = {SCHEMA}; SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '30s'"
_TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}
_PARAMETER = re.compile(r"(?<!:):(\w+)")

# What SQLite brings along: a search in bytes, and the size of what is stored. Changes of the size are added up from
# time to time, rather than in one row that all writers would wait for.
_MORE = f"""
CREATE UNIQUE INDEX part_number ON part (episode, number);
CREATE FUNCTION instr(content BYTEA, wanted BYTEA) RETURNS INTEGER LANGUAGE SQL IMMUTABLE
    AS $body$ SELECT position(wanted IN content) $body$;
CREATE TABLE size_change (bytes BIGINT NOT NULL);
CREATE FUNCTION note_size() RETURNS TRIGGER LANGUAGE plpgsql SET search_path = {SCHEMA} AS $body$
BEGIN
    INSERT INTO size_change
        SELECT CASE TG_OP WHEN 'DELETE' THEN -1 ELSE 1 END * coalesce(sum(length(content)), 0) FROM changed;
    RETURN NULL;
END
$body$;
CREATE TRIGGER part_added AFTER INSERT ON part
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_size();
CREATE TRIGGER part_removed AFTER DELETE ON part
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_size();
CREATE TRIGGER blob_added AFTER INSERT ON blob
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_size();
CREATE TRIGGER blob_removed AFTER DELETE ON blob
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_size();
CREATE TABLE traces (version INTEGER NOT NULL);
INSERT INTO traces VALUES ({VERSION});
"""  # noqa: S608  # constants
_ADD_UP = """
WITH noted AS (DELETE FROM size_change RETURNING bytes)
INSERT INTO size_change SELECT coalesce(sum(bytes), 0) FROM noted RETURNING bytes
"""
_NOW = "SELECT extract(epoch FROM clock_timestamp())::double precision"
_names = count(1)


class PostgresConnection:
    """Connection to a database; see ``TraceConnection``.

    Args:
        connection: The psycopg connection.
        address: Names errors without the password.
    """

    def __init__(self, connection: "psycopg.Connection[Any]", address: PostgresAddress) -> None:
        self._connection = connection
        self._address = address

    def execute(self, sql: str, values: Values = (), /) -> "psycopg.Cursor[Any]":
        """See ``TraceConnection``."""
        with self._address.errors():
            return self._connection.execute(_translated(sql), _fitted(values) if values else None, binary=True)

    def executemany(self, sql: str, values: Iterable[Values], /) -> "psycopg.Cursor[Any]":
        """See ``TraceConnection``."""
        with self._address.errors():
            cursor = self._connection.cursor()
            cursor.executemany(_translated(sql), [_fitted(each) for each in values])
            return cursor

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Values], on_conflict: str) -> None:
        """See ``TraceConnection``."""
        names, values = ", ".join(columns), ", ".join("?" * len(columns))
        self.executemany(f"INSERT INTO {table} ({names}) VALUES ({values}) {on_conflict}", rows)  # noqa: S608

    def stream(self, sql: str, values: Values) -> Iterator[Any]:
        """See ``TraceConnection``."""
        with (
            self._address.errors(),
            self._connection.cursor(name=f"stream_{next(_names)}", withhold=True) as cursor,
        ):
            cursor.execute(_translated(sql), _fitted(values), binary=True)
            yield from cursor

    def rows_within(self, sql: str, values: Values, seconds: float) -> list[Any] | None:
        """See ``TraceConnection``."""
        with self._address.errors(), self._connection.transaction():
            self._connection.execute(f"SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}")
            try:
                with self._connection.transaction():
                    return self._connection.execute(_translated(sql), _fitted(values), binary=True).fetchall()
            except psycopg.errors.QueryCanceled:
                return None

    @contextmanager
    def changing(self, *, removes: bool = False, adds: int = 0) -> Iterator[None]:
        """See ``TraceConnection``. Never lacks room: adding up takes a lock that all writers wait for."""
        lock = "pg_advisory_xact_lock" if removes else "pg_advisory_xact_lock_shared"
        with self._address.errors(), self._connection.transaction():
            self._connection.execute(f"SELECT {lock}(%s, %s)", (_LOCK, _WRITING))
            yield

    def used_bytes(self) -> int:
        """See ``TraceConnection``. Counts contents alone; the tables take more, and keep the space of removed rows."""
        with self.changing(removes=True):
            ((size,),) = self.execute(_ADD_UP).fetchall()
        return int(size)

    def limit(self, max_bytes: float) -> None:
        """See ``TraceConnection``. Only the removal of old episodes limits it."""

    def now(self) -> float:
        """See ``TraceConnection``. The clock is that of the database's machine."""
        ((now,),) = self.execute(_NOW).fetchall()
        return float(now)


class PostgresDatabase:
    """PostgreSQL database; see ``TraceDatabase``.

    Args:
        address: Its address, ``postgresql://USER@HOST/DATABASE``.

    Raises:
        ConfigurationError: It is none.
    """

    def __init__(self, address: str) -> None:
        self._address = PostgresAddress(address, "traces", TraceStoreError, TraceValueError)
        self.name = self._address.name

    def prepare(self) -> None:
        """See ``TraceDatabase``."""
        try:
            with self._connected() as connection:
                self._prepare_tables(connection)
        except TraceStoreError as error:
            raise ConfigurationError(
                f"The traces {self.name} can't be used: {error} Give the address of a database that answers and that "
                "its user may create a schema in."
            ) from None

    @contextmanager
    def connect(self) -> Iterator[PostgresConnection]:
        """See ``TraceDatabase``."""
        with self._connected() as connection:
            yield PostgresConnection(connection, self._address)

    @contextmanager
    def open(self) -> Iterator[PostgresConnection]:
        """See ``TraceDatabase``."""
        with self._connected() as connection:
            version = _version_of(connection, self.name)
            if version is None:
                raise ConfigurationError(f"Expected a database with traces at {self.name}, found no traces.")
            if version < VERSION:
                self._prepare_tables(connection)
            yield PostgresConnection(connection, self._address)

    def identity(self) -> object:
        """See ``TraceDatabase``. Other tables are noticed when statements fail, and by their runs."""
        return self.name

    def _prepare_tables(self, connection: "psycopg.Connection[Any]") -> None:
        """Create the tables, or bring them up to date."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCK, _MAKING))  # against a race
            version = _version_of(connection, self.name)
            if version is None:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
            for statement in upgrade_statements(version or 0):
                connection.execute(_as_table(statement))
            if version is None:
                connection.execute(_MORE)
            elif version < VERSION:
                connection.execute("UPDATE traces SET version = %s", (VERSION,))
            if version is not None and version < FIRST_WITH_SUMMARIES:
                fill(PostgresConnection(connection, self._address))

    @contextmanager
    def _connected(self) -> Iterator["psycopg.Connection[Any]"]:
        with self._address.errors(), psycopg.connect(self._address.conninfo, autocommit=True) as connection:
            connection.execute(_SET_UP)
            yield connection


def _version_of(connection: "psycopg.Connection[Any]", name: str) -> int | None:
    """Return the version of the tables; ``None`` if there are none.

    Raises:
        ConfigurationError: It is that of a later release, or none.
    """
    found = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{SCHEMA}.traces",)).fetchone()
    if found != (True,):
        return None
    (version,) = connection.execute("SELECT version FROM traces").fetchone() or (None,)
    if version is None or not _FIRST_VERSION <= version <= VERSION:
        raise ConfigurationError(
            f"Expected the traces {name} to have version {_FIRST_VERSION} to {VERSION}, got {version}: another release "
            "of OpenEnv has made them. Use that release, give another database, or drop the schema "
            f"{SCHEMA} with its episodes."
        )
    return int(version)


def _as_table(statement: str) -> str:
    for theirs, ours in _TYPES.items():
        statement = re.sub(rf"\b{theirs}\b", ours, statement)
    if statement.startswith("CREATE TABLE run "):
        statement = statement.replace("BIGINT PRIMARY KEY", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
    return statement.replace("WITHOUT ROWID", "")


@cache
def _translated(sql: str) -> str:
    """Convert parameters to psycopg's form."""
    return _PARAMETER.sub(r"%(\1)s", sql).replace("?", "%s")


def _fitted(values: Values) -> Values:
    """Return parameters without the character 0, which no text of PostgreSQL can have."""
    if isinstance(values, Mapping):
        return {name: _fitted_value(value) for name, value in values.items()}
    return [_fitted_value(value) for value in values]


def _fitted_value(value: Any) -> Any:
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
