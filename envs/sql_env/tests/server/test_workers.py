"""Processes that run queries: those that hang or die, and those that many ask at once."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread

import psutil
import pytest

from openenv.core.exceptions import ConfigurationError
from sql_env.server.workers import QueryFailedError, Worker, Workers

# Each row takes some 80 ms in one step of SQLite's machine, which nothing interrupts.
HANGING = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
    "SELECT sum(instr(zeroblob(99990), zeroblob(49000) || n)) FROM r"
)
SCRIPT = "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2);"


Children = Callable[[], list[psutil.Process]]


@pytest.fixture
def workers_of_one() -> Iterator[Workers]:
    workers = Workers(1)
    yield workers
    workers.close()


def test_what_hangs_is_ended_and_the_next_query_runs() -> None:
    workers = Workers(1, max_seconds=2)
    image = workers.build(SCRIPT)
    with pytest.raises(QueryFailedError, match="more than 2 s"):
        workers.query(image, HANGING, 10)
    assert workers.query(image, "SELECT sum(a) FROM t", 10).rows == [[3]]
    workers.close()


def test_a_process_that_is_killed_costs_one_query(workers_of_one: Workers, children: Children) -> None:
    workers = workers_of_one
    image = workers.build(SCRIPT)
    (process,) = children()
    process.kill()
    process.wait()
    with pytest.raises(QueryFailedError, match="ended"):
        workers.query(image, "SELECT 1", 10)
    assert workers.query(image, "SELECT sum(a) FROM t", 10).rows == [[3]]


def test_a_process_that_is_killed_in_the_middle_of_a_query_is_replaced(
    workers_of_one: Workers, children: Children
) -> None:
    workers = workers_of_one
    image = workers.build(SCRIPT)
    (process,) = children()
    failed = Event()

    def ask() -> None:
        with pytest.raises(QueryFailedError):
            workers.query(image, HANGING, 10)
        failed.set()

    asking = Thread(target=ask)
    asking.start()
    while process.cpu_times().user < 0.1:
        pass
    process.kill()
    asking.join(60)
    assert failed.is_set()
    assert workers.query(image, "SELECT sum(a) FROM t", 10).rows == [[3]]


def test_many_share_a_few(children: Children) -> None:
    workers = Workers(2)
    images = [workers.build(f"CREATE TABLE t (a); INSERT INTO t VALUES ({number});") for number in range(16)]

    def ask(number: int) -> object:
        return [workers.query(images[number], f"SELECT a, {turn} FROM t", 10).rows for turn in range(20)]

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, range(16)))
    assert answers == [[[[number, turn]] for turn in range(20)] for number in range(16)]
    assert len(children()) == 2
    workers.close()
    assert not children()


@pytest.mark.parametrize(
    "script",
    [
        "ATTACH '/tmp/x.db' AS other",
        "CREATE TABLE t (a); SELECT load_extension('x')",
        "CREATE VIRTUAL TABLE t USING fts5(a)",
        "VACUUM INTO '/tmp/x.db'",
        "CREATE TABLE t (a); INSERT INTO nowhere VALUES (1)",
        "CREATE TABLE t (a); INSERT INTO t SELECT random()",
        "PRAGMA temp_store_directory = '/tmp'",
    ],
)
def test_a_script_makes_tables_and_nothing_else(workers: Workers, script: str) -> None:
    with pytest.raises(ConfigurationError, match="The script makes no database"):
        workers.build(script)


def test_a_dump_is_a_script(workers: Workers) -> None:
    image = workers.build(
        "PRAGMA foreign_keys=OFF; BEGIN TRANSACTION; CREATE TABLE t (a INTEGER PRIMARY KEY AUTOINCREMENT, b REAL);"
        "INSERT INTO t VALUES(1,2.5); CREATE INDEX i ON t (b); CREATE VIEW v AS SELECT b FROM t; ANALYZE; COMMIT;"
    )
    assert workers.query(image, "SELECT b FROM v", 10).rows == [[2.5]]


def test_workers_end_with_whoever_started_them() -> None:
    program = """
import time, psutil
from sql_env.server.workers import shared_workers
shared_workers().build("CREATE TABLE t (a)")
print(psutil.Process().children()[0].pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        assert worker.is_running()
        parent.kill()
        gone, alive = psutil.wait_procs([worker], timeout=60)
    assert (len(gone), alive) == (1, [])


def test_a_forked_process_has_its_own() -> None:
    program = """
import os
from sql_env.server.workers import shared_workers
before = shared_workers()
image = before.build("CREATE TABLE t AS SELECT 5 AS a")
child = os.fork()
if child == 0:
    own = shared_workers()
    os._exit(0 if own is not before and own.query(image, "SELECT a FROM t", 1).rows == [[5]] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), before.query(image, "SELECT a FROM t", 1).rows)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0 [[5]]\n"


def test_a_worker_that_ended_gives_no_answer_and_can_be_ended_again() -> None:
    worker = Worker()
    worker.process.kill()
    worker.process.wait()
    assert worker.ask({"script": SCRIPT}, b"") is None
    worker.end()
