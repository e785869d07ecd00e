"""The cost of each test: CPU time, of its process and of those that it starts, and wall time.

Each run measures it. ``make test ARGS=--record-costs`` keeps it in ``tests/costs.tsv``, a line a test, which later runs
read: files that take longest are handed out first (``tests/support/order.py``), and ``make check`` chooses by it.
``python -m tests.support.costs`` prints the dearest files, the dearest tests, and the levels.
"""

import gc
import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import pytest
import typer
from tests.support.import_graph import ROOT
from tests.support.levels import LEVELS, read_levels

RECORD = Path("tests", "costs.tsv")
"""The record, in the folder of the repository."""

_PROPERTY = "cost"
_PROCESSES = Path("/proc")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """The cost of one test, or of several.

    Attributes:
        cpu_s: Seconds of CPU time, of the test's process and of the processes that it started.
        wall_s: Seconds from its first fixture to the end of its last.
    """

    cpu_s: float
    wall_s: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu_s + other.cpu_s, self.wall_s + other.wall_s)

    def is_like(self, other: "Cost") -> bool:
        """Whether two measurements differ by no more than two runs of one test do."""
        pairs = ((self.cpu_s, other.cpu_s), (self.wall_s, other.wall_s))
        return all(abs(mine - its) <= max(0.1, 0.5 * its) for mine, its in pairs)


Costs = dict[str, Cost]
"""The cost of each test, by its id."""


def read_costs(root: Path = ROOT) -> Costs:
    """Read the record of a repository; it is empty where there is none yet."""
    record = root / RECORD
    if not record.exists():
        return {}
    rows = (line.split("\t") for line in record.read_text(encoding="utf-8").splitlines())
    return {test: Cost(float(cpu), float(wall)) for cpu, wall, test in rows}


def write_costs(costs: Mapping[str, Cost], root: Path = ROOT) -> None:
    """Write the record of a repository, sorted, a line a test: CPU time, wall time, id."""
    lines = (f"{cost.cpu_s:.2f}\t{cost.wall_s:.2f}\t{test}\n" for test, cost in sorted(costs.items()))
    (root / RECORD).write_text("".join(lines), encoding="utf-8")


def updated(record: Mapping[str, Cost], measured: Mapping[str, Cost], *, whole: bool) -> Costs:
    """Return a record with new measurements.

    A line that is as good as its measurement stays, so that a record changes where costs do.

    Args:
        record: What is on record.
        measured: What a run has measured.
        whole: Whether that were all tests, so that others are gone.
    """
    kept = {} if whole else dict(record)
    return kept | {
        test: record[test] if test in record and cost.is_like(record[test]) else cost for test, cost in measured.items()
    }


def file_of(test: str) -> str:
    """Return the file of a test's id."""
    return test.partition("::")[0]


def name_of(test: str) -> str:
    """Return the function of a test's id, with its class and a dot before it."""
    return test.partition("::")[2].partition("[")[0].replace("::", ".")


def summed(costs: Mapping[str, Cost], keys: Mapping[str, str]) -> Costs:
    """Add up the costs of tests that have the same key.

    Args:
        costs: The cost of each test.
        keys: The key of each test, such as its file.
    """
    sums: defaultdict[str, Cost] = defaultdict(lambda: Cost(0.0, 0.0))
    for test, cost in costs.items():
        sums[keys[test]] += cost
    return dict(sums)


def cpu_time() -> float:
    """Return seconds of CPU time: this process, the children that it has waited for, every descendant that runs.

    Full garbage collections of this process are left out: most of what they look through is of the tests before.
    Where the kernel does not list a process's children (macOS), a descendant counts once it was waited for.
    """
    usages = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages) + _DESCENDANTS.cpu_time() - _COLLECTIONS.cpu_s


class _Collections:
    """The CPU time of full garbage collections in this process.

    Attributes:
        cpu_s: Seconds of those that have ended.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._started = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._started = time.thread_time()
        else:
            self.cpu_s += time.thread_time() - self._started


_COLLECTIONS = _Collections()


class _Descendants:
    """The descendants of this process, as far as they are known.

    The kernel's list of a process's children lacks some of them while others end, so one that was seen counts until it
    has ended, also where its parent has ended before it.
    """

    def __init__(self) -> None:
        self._started: dict[int, int] = {}  # when each known descendant started, as its id may be another's later

    def cpu_time(self) -> float:
        """Return the seconds that they, and the children that they have waited for, have used."""
        waiting = [os.getpid(), *self._started]
        found: dict[int, int] = {}
        ticks = 0
        while waiting:
            for child in _children(waiting.pop()):
                if child not in self._started:
                    self._started[child] = -1
                    waiting.append(child)
        for process, started in self._started.items():
            stat = _stat(process)
            if stat is not None and started in (-1, stat.started):
                found[process] = stat.started
                ticks += stat.ticks
        self._started = found
        return ticks / _TICKS_PER_SECOND


_DESCENDANTS = _Descendants()


class _Stat(NamedTuple):
    ticks: int
    started: int


def _children(process: int) -> list[int]:
    """List the children of every thread of a process; none where it has just ended."""
    children: list[int] = []
    try:
        for task in (_PROCESSES / str(process) / "task").iterdir():
            children += map(int, (task / "children").read_bytes().split())
    except (FileNotFoundError, ProcessLookupError):
        return []
    return children


def _stat(process: int) -> _Stat | None:
    """Return the CPU time of a process with the children that it has waited for, and its start; none after its end."""
    try:
        stat = (_PROCESSES / str(process) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program, in brackets, may hold anything.
    fields = stat.rpartition(b")")[2].split()
    return _Stat(sum(map(int, fields[11:15])), int(fields[19]))


class _Measured:
    """The costs that the processes of a run report, in the process that gathers them."""

    def __init__(self) -> None:
        self.costs: Costs = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the cost of a test that has ended."""
        if (cost := cost_of(report)) is not None:
            self.costs[report.nodeid] = cost

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep what was measured."""
        if session.config.getoption("--record-costs"):
            root = session.config.rootpath
            write_costs(updated(read_costs(root), self.costs, whole=_runs_all(session.config)), root)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-costs", action="store_true", help=f"keep what each test costs in {RECORD}")


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(_Measured())


def _runs_all(config: pytest.Config) -> bool:
    """Whether a run leaves no test out."""
    chosen = ("keyword", "markexpr", "deselect", "level", "ignore", "ignore_glob", "lf", "maxfail")
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(
        config.getoption(name, default=None) for name in chosen
    )


_STARTED = pytest.StashKey[Cost]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Note the time before the first fixture of a test."""
    item.stash[_STARTED] = Cost(cpu_time(), time.perf_counter())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have the last report of a test, which may come from another process, say its cost."""
    report = yield
    if call.when == "teardown":
        started = item.stash[_STARTED]
        cost = Cost(max(0.0, cpu_time() - started.cpu_s), time.perf_counter() - started.wall_s)
        report.user_properties.append((_PROPERTY, (cost.cpu_s, cost.wall_s)))
    return report


def cost_of(report: pytest.TestReport) -> Cost | None:
    """Return the cost of a test by its last report; ``None`` from the others."""
    return next((Cost(*cost) for name, cost in report.user_properties if name == _PROPERTY), None)  # type: ignore[misc]


def main(count: Annotated[int, typer.Option("-n", help="Files and tests to print.")] = 20) -> None:
    """Print the dearest files, the dearest tests, and all levels, by CPU time."""
    costs = read_costs()
    levels = read_levels()
    level_of = {test: levels.get(file_of(test), {}).get(name_of(test), "pages") for test in costs}
    _print("file", summed(costs, {test: file_of(test) for test in costs}), count)
    _print("test", costs, count)
    _print("level", summed(costs, level_of), len(LEVELS) + 1)


def _print(kind: str, costs: Mapping[str, Cost], count: int) -> None:
    dearest = sorted(costs.items(), key=lambda item: item[1].cpu_s, reverse=True)[:count]
    typer.echo(f"{'CPU s':>8} {'wall s':>8}  {kind}")
    for name, cost in dearest:
        typer.echo(f"{cost.cpu_s:8.1f} {cost.wall_s:8.1f}  {name}")
    total = sum(costs.values(), Cost(0.0, 0.0))
    typer.echo(f"{total.cpu_s:8.1f} {total.wall_s:8.1f}  all {len(costs)}\n")


if __name__ == "__main__":
    typer.run(main)
