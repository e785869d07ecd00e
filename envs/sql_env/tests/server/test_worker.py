"""What the guard holds, tried by queries that want more than to read."""

import re
import resource
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import IllegalActionError
from sql_env.server.worker import MAX_CELL, MAX_HEAP, MAX_RESULT, Guard
from sql_env.server.workers import QueryFailedError, Workers

COUNTING = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
DOUBLING = [f"a{n} AS (SELECT * FROM a{n - 1} UNION ALL SELECT * FROM a{n - 1})" for n in range(1, 40)]
CROSSING = [f"a{n} AS (SELECT p.x FROM a{n - 1} AS p, a{n - 1} AS q)" for n in range(1, 40)]


@pytest.fixture(scope="module")
def one() -> Iterator[Workers]:
    """Workers with one process: the same for all tests here, whatever came before."""
    workers = Workers(1)
    yield workers
    workers.close()


@pytest.fixture(scope="module")
def image(workers: Workers) -> bytes:
    return workers.build("CREATE TABLE t (a INTEGER, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'O''Brien 日本');")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT * FROM t", [[1, "x"], [2, "O'Brien 日本"]]),
        ("select b from t where a = 1;", [["x"]]),
        ("-- a comment\nSELECT count(*) FROM t -- and another", [[2]]),
        ("WITH u AS (SELECT a FROM t) SELECT sum(a) FROM u", [[3]]),
        ("VALUES (1, 2), (3, 4)", [[1, 2], [3, 4]]),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
            [[1], [2], [3]],
        ),
        ("SELECT a, row_number() OVER (ORDER BY a DESC) FROM t ORDER BY a", [[1, 2], [2, 1]]),
        ("SELECT value FROM json_each('[5, 6]')", [[5], [6]]),
        ("SELECT name FROM pragma_table_info('t')", [["a"], ["b"]]),
        ("PRAGMA table_info(t)", [[0, "a", "INTEGER", 0, None, 0], [1, "b", "TEXT", 0, None, 0]]),
        ("SELECT name FROM sqlite_master", [["t"]]),
        ("SELECT date('2024-02-28', '+2 days'), strftime('%Y', '2024-05-06')", [["2024-03-01", "2024"]]),
        ("SELECT 9e999, -9e999, X'00ff', NULL, 1.5", [["Inf", "-Inf", "X'00FF'", None, 1.5]]),
        ("SELECT 9223372036854775807, 0.1 + 0.2", [[9223372036854775807, 0.30000000000000004]]),
        ("SELECT CAST(X'ff41' AS TEXT)", [["\N{REPLACEMENT CHARACTER}A"]]),
        ("SELECT * FROM t WHERE 0", []),
    ],
)
def test_reading_is_allowed(one: Workers, image: bytes, sql: str, rows: list[list[object]]) -> None:
    table = one.query(image, sql, 10)
    assert (table.rows, table.truncated) == (rows, False)
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_a_plan_can_be_asked_for(one: Workers, image: bytes) -> None:
    assert one.query(image, "EXPLAIN QUERY PLAN SELECT * FROM t", 10).rows[0][-1] == "SCAN t"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("INSERT INTO t VALUES (3, 'y')", "more than that"),
        ("UPDATE t SET a = 5 RETURNING *", "more than that"),
        ("DELETE FROM t RETURNING *", "more than that"),
        ("WITH u AS (SELECT 1) INSERT INTO t SELECT 1, 2 FROM u", "more than that"),
        ("REPLACE INTO t VALUES (3, 'y')", "more than that"),
        ("DROP TABLE t", "more than that"),
        ("CREATE TABLE u (a)", "more than that"),
        ("CREATE TEMP TABLE u (a)", "more than that"),
        ("CREATE TEMP VIEW u AS SELECT 1", "more than that"),
        ("CREATE VIRTUAL TABLE u USING fts5(a)", "more than that"),
        ("CREATE TEMP TRIGGER u AFTER INSERT ON t BEGIN SELECT 1; END", "more than that"),
        ("ALTER TABLE t RENAME TO u", "more than that"),
        ("BEGIN", "more than that"),
        ("SAVEPOINT s", "more than that"),
        ("ANALYZE", "more than that"),
        ("REINDEX", "got none"),
        ("VACUUM", "more than that"),
        ("EXPLAIN DELETE FROM t", "more than that"),
        ("DETACH main", "more than that"),
        ("SELECT * FROM dbstat", "more than that"),
        ("SELECT * FROM sqlite_stmt", "more than that"),
        ("SELECT * FROM pragma_database_list", "more than that"),
        ("SELECT * FROM pragma_compile_options", "more than that"),
        ("PRAGMA journal_mode = DELETE", "PRAGMA journal_mode"),
        ("PRAGMA query_only = OFF", "PRAGMA query_only"),
        ("PRAGMA writable_schema = ON", "PRAGMA writable_schema"),
        ("PRAGMA hard_heap_limit = 0", "PRAGMA hard_heap_limit"),
        ("PRAGMA trusted_schema = ON", "PRAGMA trusted_schema"),
        ("PRAGMA temp_store_directory = '/tmp'", "PRAGMA temp_store_directory"),
        ("PRAGMA database_list", "PRAGMA database_list"),
        ("SELECT load_extension('libc.so.6')", "the function load_extension"),
        ("SELECT fts3_tokenizer('simple')", "the function fts3_tokenizer"),
        ("SELECT random()", "the function random"),
        ("SELECT hex(randomblob(8))", "the function randomblob"),
        ("SELECT CURRENT_TIMESTAMP", "the function current_timestamp"),
        ("SELECT date('now')", "present time"),
        ("SELECT date()", "present time"),
        ("SELECT strftime('%Y', 'n' || 'ow')", "present time"),
        ("SELECT julianday(' NOW ')", "present time"),
        ("SELECT date(X'6e6f77')", "present time"),
        ("SELECT time(CAST('Now' AS BLOB))", "present time"),
        ("SELECT datetime('now' || char(0) || 'x')", "present time"),
        ("SELECT a FROM t ORDER BY unixepoch('now')", "present time"),
        ("SELECT 1; SELECT 2", "got several"),
        ("SELECT 1; DROP TABLE t", "got several"),
        ("SELECT 1;; DELETE FROM t;", "got several"),
        ("", "got none"),
        ("-- nothing", "got none"),
        (";", "got none"),
    ],
)
def test_anything_else_is_refused(one: Workers, image: bytes, sql: str, told: str) -> None:
    with pytest.raises(IllegalActionError, match=f"Expected one statement that reads.*{re.escape(told)}"):
        one.query(image, sql, 10)


@pytest.mark.parametrize("sql", ["ATTACH '{}' AS other", "ATTACH 'file:{}?mode=rwc' AS other", "VACUUM INTO '{}'"])
def test_no_file_is_made(one: Workers, image: bytes, tmp_path: Path, sql: str) -> None:
    with pytest.raises(IllegalActionError):
        one.query(image, sql.format(tmp_path / "made.db"), 10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function", ["readfile('/etc/passwd')", "writefile('x', 'y')", "edit('x')", "fsdir('/')"])
def test_functions_of_the_command_line_are_not_there(one: Workers, image: bytes, function: str) -> None:
    with pytest.raises(QueryFailedError, match="no such function"):
        one.query(image, f"SELECT {function}", 10)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT zeroblob(1000000000)", "100,000 bytes"),
        ("SELECT replace(hex(zeroblob(40000)), '0', 'aaaaaaaa')", "100,000 bytes"),
        (COUNTING + "SELECT group_concat(hex(zeroblob(40000))) FROM (SELECT n FROM r LIMIT 9)", "100,000 bytes"),
        (COUNTING + "SELECT n FROM r ORDER BY hex(zeroblob(20000)) || n", "MiB"),
        (COUNTING + "SELECT DISTINCT hex(zeroblob(20000)) || n AS x FROM r ORDER BY x", "MiB"),
        (
            "WITH RECURSIVE r(x) AS (SELECT hex(zeroblob(20000)) UNION SELECT x || '1' FROM r) SELECT count(*) FROM r",
            "MiB",
        ),
        (f"WITH a0 AS (SELECT 1 AS x), {', '.join(DOUBLING)} SELECT count(*) FROM a39", "MiB"),
        (f"WITH a0 AS (SELECT 1 AS x), {', '.join(CROSSING)} SELECT count(*) FROM a39", "MiB"),
        (COUNTING + "SELECT count(*) FROM r", "50,000,000 steps"),
        ("SELECT " + "(" * 5_000 + "1" + ")" * 5_000, "overflow"),
        ("SELECT " + "1 + " * 5_000 + "1", "maximum depth"),
        ("SELECT " + "1, " * 2_000 + "1", "too many columns"),
        (" UNION ".join(["SELECT 1"] * 400), "too many terms"),
        ("SELECT 1 WHERE 'x' LIKE '" + "%a" * 300 + "'", "LIKE or GLOB pattern too complex"),
        ("SELECT * FROM " + ", ".join(f"t AS t{n}" for n in range(65)), "at most 64 tables"),
        ("SELECT ?", "variables"),
        ("SELECT 1\x00; DROP TABLE t", "null character"),
        ("SELECT '\ud800'", "surrogates"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("SELEC 1", "syntax error"),
    ],
)
def test_what_takes_too_much_or_makes_no_sense_fails(one: Workers, image: bytes, sql: str, told: str) -> None:
    with pytest.raises(QueryFailedError, match=re.escape(told)):
        one.query(image, sql, 10)
    assert one.query(image, "SELECT count(*) FROM t", 10).rows == [[2]]


def test_memory_has_a_bound(image: bytes, children: Callable[[], list[psutil.Process]]) -> None:
    workers = Workers(1)
    for sql in (
        COUNTING + "SELECT n FROM r ORDER BY hex(zeroblob(20000)) || n",
        COUNTING + "SELECT DISTINCT n || hex(zeroblob(20000)) AS x FROM r ORDER BY n",
        f"WITH a0 AS (SELECT 1 AS x), {', '.join(CROSSING)} SELECT count(*) FROM a39",
    ):
        with pytest.raises(QueryFailedError, match="MiB"):
            workers.query(image, sql, 10)
    (process,) = children()
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    assert int(peak[1]) * 1024 < MAX_HEAP + 64 * 2**20
    workers.close()


@pytest.mark.parametrize("width", ["%1000000000d", "%.1000000000f", "%01000000000x"])
def test_a_width_beyond_bounds_gives_nothing(one: Workers, image: bytes, width: str) -> None:
    assert one.query(image, f"SELECT printf('{width}', 1)", 10).rows in ([[None]], [[""]])


def test_results_are_bounded(one: Workers, image: bytes) -> None:
    endless = one.query(image, COUNTING + "SELECT n FROM r", 7)
    assert (endless.rows, endless.truncated) == ([[n] for n in range(1, 8)], True)
    exact = one.query(image, "VALUES (1), (2)", 2)
    assert (len(exact.rows), exact.truncated) == (2, False)
    long = one.query(image, "SELECT hex(zeroblob(40000)), zeroblob(40000)", 10)
    assert ([len(str(value)) for value in long.rows[0]], long.truncated) == ([MAX_CELL, MAX_CELL], True)
    many = one.query(image, COUNTING + "SELECT hex(zeroblob(400)) FROM r", 10**6)
    assert (len(many.rows), many.truncated) == (MAX_RESULT // 800, True)


@given(st.text(max_size=200))
def test_any_text_is_answered(image: bytes, workers: Workers, text: str) -> None:
    try:
        table = workers.query(image, text, 10)
        assert len(table.rows) <= 10
    except (IllegalActionError, QueryFailedError) as error:
        assert str(error)  # noqa: PT017  # any of the two, or none
    assert workers.query(image, "SELECT count(*) FROM t", 10).rows == [[2]]


def test_a_file_is_read_and_stays_as_it_is(one: Workers, tmp_path: Path) -> None:
    file = tmp_path / "it's 50% ä?.db"
    with sqlite3.connect(file) as made:
        made.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7);")
    made.close()
    before = file.read_bytes()
    assert one.query(file, "SELECT a FROM t", 10).rows == [[7]]
    for sql in ("INSERT INTO t VALUES (8)", "PRAGMA wal_checkpoint", "VACUUM"):
        with pytest.raises(IllegalActionError):
            one.query(file, sql, 10)
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (before, [file])


def test_what_is_no_database_fails(one: Workers, tmp_path: Path) -> None:
    file = tmp_path / "text.db"
    file.write_text("not a database" * 1_000)
    for database in (file, tmp_path / "nothing.db", b"not a database" * 1_000):
        with pytest.raises(QueryFailedError, match=r"not a database|unable to open"):
            one.query(database, "SELECT 1 FROM sqlite_master", 10)


def test_what_a_schema_hides_is_guarded_too(one: Workers, tmp_path: Path) -> None:
    file = tmp_path / "views.db"
    with sqlite3.connect(file) as made:
        made.execute("CREATE VIEW extension AS SELECT load_extension('libc.so.6')")
        made.execute("CREATE VIRTUAL TABLE words USING fts5(word)")
    made.close()
    for table in ("extension", "words"):
        with pytest.raises(
            (IllegalActionError, QueryFailedError), match=r"unsafe use of load_extension|more than that"
        ):
            one.query(file, f"SELECT * FROM {table}", 10)


def test_the_process_holds_no_secret_and_can_write_nothing(
    image: bytes, monkeypatch: pytest.MonkeyPatch, children: Callable[[], list[psutil.Process]]
) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "a secret")
    workers = Workers(1)
    workers.query(image, "SELECT 1", 1)
    (process,) = children()
    assert set(process.environ()) <= {"TZ", "LD_LIBRARY_PATH", "LC_CTYPE"}
    assert process.rlimit(resource.RLIMIT_FSIZE) == (0, 0)
    assert process.open_files() == []
    workers.close()
    assert not children()


def test_codes_that_nobody_knows_are_denied() -> None:
    guard = Guard()
    assert guard.authorize(9_999, None, None, None, None) == sqlite3.SQLITE_DENY
    assert guard.authorize(sqlite3.SQLITE_READ, "t", "a", "main", None) == sqlite3.SQLITE_OK
