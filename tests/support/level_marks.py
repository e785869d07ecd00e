"""Levels as marks of tests: chosen with ``--level``, and held to.

Each test is marked with its level (``tests/support/levels.py``). With ``--level=memory,files`` no other test is run,
and a file without a test of these levels is not imported. A test fails that takes more CPU time than its level allows,
or that opens a socket or starts a process where its level excludes that.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from tests.support.costs import cost_of, file_of, name_of
from tests.support.levels import LEVELS, LIMITS_S, Levels, higher, read_levels

_EXCLUDED = {
    "socket.bind": ("memory", "files"),
    "socket.connect": ("memory", "files"),
    "os.fork": ("memory", "files", "socket"),
    "os.posix_spawn": ("memory", "files", "socket"),
    "subprocess.Popen": ("memory", "files", "socket"),
}
"""The levels that exclude an event, by its name for ``sys.addaudithook``."""

_S_OF_LOOP = 0.008
"""CPU time of ``_loop_time`` on the machine that the limits were set on."""

_BESIDE_OTHERS = 2
"""CPU time of a test beside four others, to that of the test alone, at most: they share caches and memory.

Measured: most stay below 1.5, and on a machine whose memory others use, some take 2 to 3 without a slower loop.

Costs on record are held to the limits themselves (``tests/test_costs.py``).
"""


class _Watch:
    """What the running test does that levels exclude, in the main thread and outside of imports."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self._thread = 0
        self._watching = False
        sys.addaudithook(self._see)

    def begin(self) -> None:
        self.seen.clear()
        self._thread = threading.get_ident()
        self._watching = True

    def end(self) -> None:
        self._watching = False

    def _see(self, event: str, _: tuple[Any, ...]) -> None:
        if self._watching and event in _EXCLUDED and threading.get_ident() == self._thread and not _is_importing():
            self.seen.add(event)


def _is_importing() -> bool:
    """Whether a library is being imported, which may look around on the machine."""
    frames = (frame for frame, _ in traceback.walk_stack(None))
    return any(frame.f_code.co_filename == "<frozen importlib._bootstrap>" for frame in frames)


_LEVEL = pytest.StashKey[str]()
_CHOSEN = pytest.StashKey[frozenset[str]]()
_READ = pytest.StashKey[Levels]()
_TOO_DEAR = pytest.StashKey[bool]()
_WATCH = pytest.StashKey[_Watch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--level", default="", help=f"run tests of these levels only, such as {','.join(LEVELS[:3])}")


def pytest_configure(config: pytest.Config) -> None:
    """Read the levels of all tests, for a choice before anything is imported."""
    for level in LEVELS:
        config.addinivalue_line("markers", f"{level}: a level of tests, by what they use")
    config.addinivalue_line("markers", "level(name): the level of a test that uses or costs more than source shows")
    chosen = frozenset(filter(None, config.getoption("--level").split(",")))
    if unknown := chosen - set(LEVELS):
        raise pytest.UsageError(f"--level: expected some of {', '.join(LEVELS)}; got {', '.join(sorted(unknown))}")
    config.stash[_CHOSEN] = chosen
    if chosen or config.getoption("numprocesses", default=None) or "PYTEST_XDIST_WORKER" in os.environ:
        config.stash[_READ] = read_levels(config.rootpath)  # by the first of several processes, for all of them
    config.stash[_WATCH] = _Watch()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files, and whole folders with their ``conftest.py``, that have no test of the chosen levels."""
    chosen = config.stash[_CHOSEN]
    if not chosen or not collection_path.is_relative_to(config.rootpath):
        return None
    path = collection_path.relative_to(config.rootpath)
    read = config.stash[_READ]
    files = [str(path)] if collection_path.is_file() else [file for file in read if Path(file).is_relative_to(path)]
    return None if any(chosen & set(read.get(file, {}).values()) for file in files) else True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its level, and deselect those of other levels."""
    files = {file_of(item.nodeid) for item in items}
    read = config.stash.get(_READ, None) or read_levels(config.rootpath, files)
    for item in items:
        level = _level_of(item, read)
        item.stash[_LEVEL] = level
        item.add_marker(level)
    chosen = config.stash[_CHOSEN] or set(LEVELS)
    if others := [item for item in items if item.stash[_LEVEL] not in chosen]:
        items[:] = [item for item in items if item.stash[_LEVEL] in chosen]
        config.hook.pytest_deselected(items=others)


def _level_of(item: pytest.Item, read: Levels) -> str:
    """Return the level of a test; where it is not defined in its file, but inherited there, the highest of the file."""
    levels = read.get(file_of(item.nodeid), {})
    return levels.get(name_of(item.nodeid), higher(levels.values()))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Watch from the first fixture on."""
    item.config.stash[_WATCH].begin()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, and once more if it was too dear: its process may have been the first to import what it uses."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if item.stash.get(_TOO_DEAR, False):
        assert isinstance(item, pytest.Function)
        item._initrequest()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that does not keep to its level."""
    report = yield
    watch = item.config.stash[_WATCH]
    if call.when == "call":
        watch.end()
    cost = cost_of(report)
    if cost is not None and report.passed:
        level = item.stash[_LEVEL]
        excluded, too_dear = _excluded(level, watch), _too_dear(level, cost.cpu_s)
        item.stash[_TOO_DEAR] = bool(too_dear)
        if excluded or too_dear:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid}: {excluded or too_dear}"
    return report


def _excluded(level: str, watch: _Watch) -> str:
    events = sorted(event for event in watch.seen if level in _EXCLUDED[event])
    if not events:
        return ""
    return (
        f"a test of the level {level!r} does without {', '.join(events)}. Mark it with "
        f'@pytest.mark.level("..."), or have tests/support/levels.py see what it uses.'
    )


def _too_dear(level: str, cpu_s: float) -> str:
    limit = LIMITS_S[level]
    allowed = limit * _BESIDE_OTHERS
    if cpu_s <= allowed or cpu_s <= allowed * _loop_time() / _S_OF_LOOP:
        return ""
    return (
        f"it took {cpu_s:.2f} s of CPU time, and a test of the level {level!r} may take {limit} s. Make it cheaper, or "
        f'mark it with @pytest.mark.level("...") of a level that allows this.'
    )


def _loop_time() -> float:
    """Return the CPU time of a loop, which says how fast this machine is now."""
    times = []
    for _ in range(5):
        started = time.process_time()
        sum(number * number for number in range(200_000))
        times.append(time.process_time() - started)
    return min(times)
