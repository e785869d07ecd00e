"""What each test costs is measured with the processes that it starts, kept, and printed."""

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.costs import RECORD, Cost, cpu_time, file_of, name_of, read_costs, summed, updated
from tests.support.import_graph import ROOT
from tests.support.levels import LIMITS_S, read_levels

BURN = "import time\nend = time.process_time() + {}\nwhile time.process_time() < end: pass\n"
SUITE = f"""
import subprocess, sys, time
import pytest

BURN = {BURN!r}

@pytest.fixture
def burnt():
    exec(BURN.format(0.2))
    yield
    exec(BURN.format(0.2))

def test_cheap(): ...
def test_fixture(burnt): ...
def test_process(): subprocess.run([sys.executable, "-c", BURN.format(0.5)])
def test_wait(): time.sleep(0.3)
@pytest.mark.parametrize("case", ["a", "b"])
def test_cases(case): ...
@pytest.mark.skip
def test_skipped(): ...
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_suite.py").write_text(SUITE)
    return tmp_path


def run(suite: Path, *options: str) -> None:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin -p tests.support.costs"}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options],
        cwd=suite,
        env={**variables, **plugins, "PYTHONPATH": str(ROOT)},
        check=True,
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_records_what_its_tests_cost(suite: Path, processes: str) -> None:
    run(suite, "--record-costs", f"--numprocesses={processes}")
    costs = {test.partition("::")[2]: cost for test, cost in read_costs(suite).items()}
    assert costs.keys() == {
        *("test_cheap", "test_fixture", "test_process", "test_wait", "test_cases[a]", "test_cases[b]", "test_skipped"),
    }
    assert costs["test_fixture"].cpu_s >= 0.4
    assert costs["test_process"].cpu_s >= 0.5
    assert costs["test_wait"].wall_s >= 0.3
    assert costs["test_cheap"].cpu_s < costs["test_fixture"].cpu_s


def test_without_the_option_nothing_is_kept(suite: Path) -> None:
    run(suite)
    assert not (suite / RECORD).exists()
    assert read_costs(suite) == {}


@pytest.mark.level("files")
def test_what_earlier_tests_have_left_in_memory_does_not_count() -> None:
    left = [[number] for number in range(400_000)]
    before, started = cpu_time(), time.thread_time()
    for _ in range(20):
        gc.collect()
    took = time.thread_time() - started
    assert cpu_time() - before < took / 2, f"{len(left)} lists were looked through"


@pytest.mark.level("process")
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are counted when they are waited for")
def test_processes_count_while_they_run_also_those_whose_parent_has_ended() -> None:
    before = cpu_time()
    forking = f"import os, time\nchild = os.fork()\n{BURN.format(0.3)}if child: os._exit(0)\ntime.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", forking], start_new_session=True)
    deadline = time.monotonic() + 60
    while cpu_time() - before < 0.4:  # more than the child has used
        assert time.monotonic() < deadline
    child.wait()
    while (used := cpu_time() - before) < 0.6:
        assert time.monotonic() < deadline
    os.killpg(child.pid, 9)
    assert used < 60


def test_a_record_changes_where_costs_do() -> None:
    record = {"a.py::same": Cost(1.0, 2.0), "a.py::other": Cost(1.0, 1.0)}
    measured = {"a.py::same": Cost(1.2, 2.5), "a.py::new": Cost(0.5, 0.6)}
    kept = {"a.py::same": Cost(1.0, 2.0), "a.py::new": Cost(0.5, 0.6)}
    assert updated(record, measured, whole=True) == kept
    assert updated(record, measured, whole=False) == {**kept, "a.py::other": Cost(1.0, 1.0)}
    dearer = {"a.py::same": Cost(3.0, 2.5)}
    assert updated(record, dearer, whole=False)["a.py::same"] == Cost(3.0, 2.5)


@pytest.mark.parametrize(("options", "left"), [([], False), (["-k", "cheap"], True), (["tests/test_suite.py"], True)])
def test_only_a_run_of_all_tests_forgets_those_that_it_did_not_run(suite: Path, options: list[str], left: bool) -> None:
    (suite / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    (suite / RECORD).write_text("1.00\t1.00\ttests/test_old.py::test_old\n")
    (suite / "tests" / "test_suite.py").write_text("def test_cheap(): ...\n")
    run(suite, "--record-costs", *options)
    assert ("tests/test_old.py::test_old" in read_costs(suite)) == left
    assert "tests/test_suite.py::test_cheap" in read_costs(suite)


def test_costs_add_up_by_key() -> None:
    costs = {"a": Cost(1.0, 2.0), "b": Cost(0.5, 0.5), "c": Cost(4.0, 4.0)}
    assert summed(costs, {"a": "x", "b": "x", "c": "y"}) == {"x": Cost(1.5, 2.5), "y": Cost(4.0, 4.0)}


def test_the_dearest_files_tests_and_levels_are_printed() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "tests.support.costs", "-n", "3"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    tables = [table.splitlines() for table in printed.strip().split("\n\n")]
    assert [table[0].split() for table in tables] == [
        ["CPU", "s", "wall", "s", kind] for kind in ("file", "test", "level")
    ]
    files = [float(line.split()[0]) for line in tables[0][1:-1]]
    assert files == sorted(files, reverse=True)
    assert len(files) == 3
    assert {line.split()[2] for line in tables[2][1:-1]} >= {"memory", "training"}


def test_most_tests_of_this_repository_are_on_record() -> None:
    files = {test.partition("::")[0] for test in read_costs()}
    there = {str(path.relative_to(ROOT)) for folder in ("tests", "envs") for path in (ROOT / folder).rglob("test_*.py")}
    assert len(files & there) > 0.9 * len(there)


# The levels of all files may not have been read since the last edit.
@pytest.mark.level("process")
def test_no_test_costs_so_much_that_a_slow_moment_takes_it_above_what_its_level_allows() -> None:
    levels = read_levels(ROOT)
    limits = {
        test: LIMITS_S[levels[file_of(test)][name_of(test)]]
        for test in read_costs()
        if name_of(test) in levels.get(file_of(test), {})
    }
    assert len(limits) > 0.9 * len(read_costs())
    assert [(test, cost.cpu_s) for test, cost in read_costs().items() if cost.cpu_s > 0.7 * limits.get(test, 150)] == []
