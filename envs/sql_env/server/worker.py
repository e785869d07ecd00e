"""The process that runs queries: a guard around SQLite that lets a query read its database and nothing else.

It is a program of its own that needs the standard library alone, so that it starts in some 30 ms and holds nothing of
the server: no token, no journal, no other session. ``workers.py`` starts it and talks to it by pipes. Each request gets
a fresh connection, so that nothing is left of one query when the next one comes.

What holds, from the outside in:

- The process may write no file and take so much memory; who started it ends it where it takes too long.
- The database is an image in memory, or a file that is opened for reading only.
- The authorizer lets a statement select, read columns, recurse, and call the functions of a list. All else is refused
  when the statement is prepared, ``ATTACH`` and ``VACUUM INTO`` among it.
- SQLite's own limits bound texts, statements and expressions, its heap has a hard limit, and a count of its machine's
  steps ends what would run on.
"""

import json
import resource
import sqlite3
import struct
import sys
from functools import cached_property
from pathlib import Path
from typing import IO, Any

LENGTHS = struct.Struct(">II")
"""Prefix of a message: the bytes of its JSON, and those of the database's image after it."""

MAX_TEXT = 100_000
"""Bytes of any text or blob that a query makes: with 1,000,000, one call of ``instr`` takes 10 s."""
MAX_STEPS = 50_000_000
"""Steps of SQLite's machine for one query: a second or so."""
MAX_HEAP = 64 * 2**20
"""Bytes that SQLite may take, the image of the database included."""
MAX_CELL = 1_000
"""Characters of one value in a result."""
MAX_RESULT = 100_000
"""Characters of a whole result."""

_STEPS_AT_ONCE = 10_000
_LENGTH_OF_NUMBER = 20
_MAX_MEMORY = 1024 * 2**20
_LIMITS = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COLUMN: 500,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 50,
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_TEXT,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 50_000,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READING = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_BUILDING = _READING | {
    sqlite3.SQLITE_ANALYZE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_TRIGGER,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_REINDEX,
    sqlite3.SQLITE_SAVEPOINT,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_UPDATE,
}
_DESCRIBING = frozenset({"foreign_key_list", "index_info", "index_list", "table_info", "table_list", "table_xinfo"})
_OF_DUMPS = _DESCRIBING | {"defer_foreign_keys", "encoding", "foreign_keys", "user_version"}
_CLOCK = ("date", "datetime", "julianday", "strftime", "time", "unixepoch")
_PRESENT = ("now", "subsec", "subsecond")
# Functions of their arguments: neither random() nor current_date is among them.
# fmt: off
_FUNCTIONS = frozenset({
    "->", "->>", "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "avg", "bm25", "ceil",
    "ceiling", "char", "coalesce", "concat", "concat_ws", "cos", "cosh", "count", "cume_dist", "date", "datetime",
    "degrees", "dense_rank", "exp", "first_value", "floor", "format", "glob", "group_concat", "hex", "highlight",
    "ifnull", "iif", "instr", "json", "json_array", "json_array_length", "json_each", "json_extract",
    "json_group_array", "json_group_object", "json_insert", "json_object", "json_patch", "json_quote",
    "json_remove", "json_replace", "json_set", "json_tree", "json_type", "json_valid", "julianday", "lag",
    "last_value", "lead", "length", "like", "likelihood", "likely", "ln", "log", "log10", "log2", "lower", "ltrim",
    "match", "max", "min", "mod", "nth_value", "ntile", "nullif", "octet_length", "percent_rank", "pi", "pow",
    "power", "printf", "quote", "radians", "rank", "replace", "round", "row_number", "rtrim", "sign", "sin", "sinh",
    "snippet", "soundex", "sqlite_version", "sqrt", "strftime", "string_agg", "substr", "substring", "sum", "tan",
    "tanh", "time", "total", "trim", "trunc", "typeof", "unhex", "unicode", "unixepoch", "unlikely", "upper",
    "zeroblob",
})
# fmt: on
# Tables that are functions, which a connection has to meet before it may do no more than read.
_TABLES = ("json_each('[]')", "json_tree('[]')", "pragma_table_info('')")
_EXPECTED = "Expected one statement that reads, such as SELECT, WITH, EXPLAIN or PRAGMA table_info"


class RefusedError(Exception):
    """The guard does not let a statement run."""


class FailedError(Exception):
    """SQLite does not run a statement, or not to its end."""


class Guard:
    """Permissions of the statements of one connection.

    Args:
        actions: The kinds of things, by SQLite's codes.
        pragmas: The pragmas, by their names.

    Attributes:
        refusal: The first refused action of a statement; ``None`` without one.
    """

    def __init__(self, actions: frozenset[int] = _READING, pragmas: frozenset[str] = _DESCRIBING) -> None:
        self._actions = actions
        self._pragmas = pragmas
        self._steps = 0
        self.refusal: str | None = None

    @property
    def used_up(self) -> bool:
        """Return whether its statements took more steps than they may."""
        return self._steps > MAX_STEPS

    def authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Answer SQLite's question whether a statement may do something."""
        if action in self._actions:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            return self._allow(str(second).lower() in _FUNCTIONS, f"would call the function {second}")
        if action == sqlite3.SQLITE_PRAGMA:
            return self._allow(str(first).lower() in self._pragmas, f"is PRAGMA {first}")
        return self._allow(False, "would do more than that")

    def count_steps(self) -> bool:
        """Count steps of SQLite's machine; ``True`` ends the statement."""
        self._steps += _STEPS_AT_ONCE
        return self.used_up

    def meaning(self, error: Exception) -> RefusedError | FailedError:
        """Return the meaning of an error of SQLite for the author of the statement."""
        if self.refusal is not None:
            return RefusedError(f"{_EXPECTED}; got one that {self.refusal}.")
        if self.used_up:
            return FailedError(f"It was ended after {MAX_STEPS:,} steps of SQLite's machine; ask for less at once.")
        if isinstance(error, MemoryError):
            return FailedError(f"It needs more than the {MAX_HEAP >> 20} MiB of memory that a query may take.")
        if isinstance(error, sqlite3.Warning) or "one statement at a time" in str(error):
            return RefusedError(f"{_EXPECTED}; got several.")
        if isinstance(error, sqlite3.DataError):
            return FailedError(f"{error}: a text or blob may have {MAX_TEXT:,} bytes.")
        return FailedError(str(error))

    def _allow(self, allowed: bool, refusal: str) -> int:
        if not allowed:
            self.refusal = self.refusal or refusal
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


class Clock:
    """Replaces one of SQLite's functions of time, which would give the present: same query, same result.

    Args:
        function: Name of the function.
        guard: Notified where the present was requested.
    """

    def __init__(self, function: str, guard: Guard) -> None:
        self._function = function
        self._guard = guard

    @cached_property
    def _sqlite(self) -> sqlite3.Connection:
        return sqlite3.connect(":memory:")

    def __call__(self, *arguments: Any) -> Any:
        """Call the function, unless that would look at the clock."""
        times = arguments[1:] if self._function == "strftime" else arguments
        if not times or _as_sqlite_reads(times[0]) in _PRESENT:
            self._guard.refusal = f"asks {self._function}() for the present time, which the databases do not know"
            raise ValueError(self._guard.refusal)
        marks = ", ".join("?" * len(arguments))
        return self._sqlite.execute(f"SELECT {self._function}({marks})", arguments).fetchone()[0]


def _as_sqlite_reads(time: Any) -> str:
    """Return the word that a value is for SQLite: a blob's bytes too, up to the first NUL."""
    text = time.decode(errors="replace") if isinstance(time, bytes) else str(time)
    return text.partition("\0")[0].strip().lower()


def query(request: dict[str, Any], image: bytes) -> dict[str, Any]:
    """Run one statement that reads.

    Args:
        request: The statement as ``sql``, the most rows to give as ``max_rows``, the database's file as ``path``.
        image: The database, where there is no file.

    Returns:
        ``columns``, ``rows``, and whether anything was left out as ``truncated``.

    Raises:
        RefusedError: It is not one statement that reads.
        FailedError: SQLite does not run it, or not to its end.
    """
    guard = Guard()
    try:
        connection = _open(request["path"], image)
        _bind(connection, guard)
        cursor = connection.execute(request["sql"])
        if cursor.description is None:
            raise RefusedError(f"{_EXPECTED}; got none.")
        rows, truncated = _bounded(cursor, request["max_rows"])
    except (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError) as error:
        raise guard.meaning(error) from error
    return {"columns": [str(column[0]) for column in cursor.description], "rows": rows, "truncated": truncated}


def build(script: str) -> bytes:
    """Make the image of a database.

    Args:
        script: Statements that make tables, indices and views and fill them, as ``.dump`` writes them.

    Raises:
        RefusedError: It would do something else.
        FailedError: SQLite does not run it, or not to its end.
    """
    guard = Guard(_BUILDING, _OF_DUMPS)
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.set_authorizer(guard.authorize)
    connection.set_progress_handler(guard.count_steps, _STEPS_AT_ONCE)
    try:
        connection.executescript(script)
        connection.set_authorizer(None)  # what follows is Python's own
        return connection.serialize()
    except (sqlite3.Error, sqlite3.Warning, MemoryError, ValueError) as error:
        raise guard.meaning(error) from error


def _open(path: str | None, image: bytes) -> sqlite3.Connection:
    if path is None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.deserialize(image)
        return connection
    # Immutable: nothing changes it meanwhile, so that no lock and no other file beside it is asked for.
    return sqlite3.connect(f"{Path(path).as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)


def _bind(connection: sqlite3.Connection, guard: Guard) -> None:
    """Let a connection do only what a guard allows."""
    connection.text_factory = _decoded
    for pragma in ("trusted_schema = OFF", "temp_store = MEMORY", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")
    for table in ("sqlite_master", *_TABLES):
        connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608  # reads the schema, whose texts may be longer
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    for function in _CLOCK:
        connection.create_function(function, -1, Clock(function, guard), deterministic=True)
    connection.set_authorizer(guard.authorize)
    connection.set_progress_handler(guard.count_steps, _STEPS_AT_ONCE)


def _bounded(cursor: sqlite3.Cursor, max_rows: int) -> tuple[list[list[Any]], bool]:
    """Take rows while they are neither too many nor too long."""
    rows: list[list[Any]] = []
    room, truncated = MAX_RESULT, False
    for row in cursor:
        values = [_shown(value) for value in row]
        cut = [value[:MAX_CELL] if isinstance(value, str) else value for value in values]
        room -= sum(len(value) if isinstance(value, str) else _LENGTH_OF_NUMBER for value in cut)
        if len(rows) == max_rows or room < 0:
            return rows, True
        truncated = truncated or cut != values
        rows.append(cut)
    return rows, truncated


def _shown(value: Any) -> Any:
    """Make a value one of JSON: a blob and what is no number of JSON are written as SQLite writes them."""
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "Inf" if value > 0 else "-Inf"
    return value


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


def answer(request: dict[str, Any], image: bytes) -> tuple[dict[str, Any], bytes]:
    """Answer one request.

    Args:
        request: A ``script``, for the image that it makes; or what ``query`` takes.
        image: The database of a query.

    Returns:
        What ``query`` gives, or why not as ``refused`` or ``failed``; and an image.
    """
    try:
        if "script" in request:
            return {}, build(request["script"])
        return query(request, image), b""
    except RefusedError as error:
        return {"refused": str(error)}, b""
    except FailedError as error:
        return {"failed": str(error)}, b""


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Read a message; ``None`` at the end of the stream."""
    lengths = stream.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    text, image = LENGTHS.unpack(lengths)
    return json.loads(stream.read(text)), stream.read(image)


def write_message(stream: IO[bytes], fields: dict[str, Any], image: bytes) -> None:
    """Write a message."""
    text = json.dumps(fields).encode()
    stream.write(LENGTHS.pack(len(text), len(image)) + text + image)
    stream.flush()


def confine() -> None:
    """Give up, for this whole process, what no query needs."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
    sqlite3.connect(":memory:").execute(f"PRAGMA hard_heap_limit = {MAX_HEAP}")  # that of the process


def main() -> None:
    """Answer requests until there are no more."""
    confine()
    while (message := read_message(sys.stdin.buffer)) is not None:
        write_message(sys.stdout.buffer, *answer(*message))


if __name__ == "__main__":
    main()
