"""``python -m tests.support.rerun``: run tests, and what failed once more, alone; name what passes only then.

Among thousands of tests beside each other, one may fail for what another does to the machine. Such a test is
*unsteady*. A few are let pass, each with its name, at the end of the output, where nobody overlooks it. The run fails

- when a test fails again, in a process of its own with nothing beside it,
- when more than ``MOST_UNSTEADY`` tests are unsteady,
- when a test was skipped, in either run,
- at once, without a second try, when anything else went wrong: a process that crashed, a file that could not be
  collected, an internal error, an interrupt.

Arguments are pytest's options, each a word of its own (``--name=value``); what is run is all that pytest finds. The
last line says how many tests passed and failed in the end; what else is wrong counts as an error there. The module is
also the plugin that notes how each test ended.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

MOST_UNSTEADY = 3
_MOST_RERUN = 20
"""More are not worth the time of a second run: its verdict is known, and something is broken for all of them."""
_TESTS_FAILED = int(pytest.ExitCode.TESTS_FAILED)


@dataclass
class Outcomes:
    """How the tests of one run of pytest ended.

    Attributes:
        code: The exit status.
        passed: Those that passed, by their ids.
        failed: Those that failed, or whose fixtures did.
        skipped: What was skipped, files included.
        broken: What else went wrong, in words.
    """

    code: int = 0
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class Recorder:
    """Notes, in the process that gathers the reports of all others, how each test ended.

    Args:
        file: Where it is written when the run ends.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._noted = Outcomes()
        self._ended: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the worst of a test's three phases; one that is expected to fail counts as passed."""
        outcome = "passed" if hasattr(report, "wasxfail") else report.outcome
        worst = ("failed", "skipped", "passed")
        earlier = self._ended.get(report.nodeid, outcome)
        self._ended[report.nodeid] = min(earlier, outcome, key=worst.index)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note files that could not be collected, or skip as a whole."""
        if report.failed:
            self._noted.broken.append(f"{report.nodeid} could not be collected")
        if report.skipped:
            self._noted.skipped.append(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Note a process of pytest-xdist that ended before its time."""
        if error:
            self._noted.broken.append(f"process {node.gateway.id} crashed: {error}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write it all down."""
        self._noted.code = int(exitstatus)
        for name, outcome in self._ended.items():
            getattr(self._noted, outcome).append(name)
        self._file.write_text(json.dumps(asdict(self._noted)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the recorder's file."""
    parser.addoption("--outcomes", type=Path, help="write how each test ended to this file, as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that the others report to."""
    file = config.getoption("--outcomes")
    if file is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Recorder(file.absolute()))


def main(options: Sequence[str]) -> int:
    """Run the tests, and those that failed again; return 0 if the run may pass.

    Args:
        options: Pytest's, each in one word.
    """
    if named := [option for option in options if not option.startswith("-")]:
        _say(f"Expected options only, each as --name=value; got {' '.join(named)}.")
        return int(pytest.ExitCode.USAGE_ERROR)
    started = time.monotonic()
    first = run_pytest(options)
    problems = _problems(first)
    unsteady = [] if problems else [test for test in first.failed if _passes_alone(test, options)]
    failed = [test for test in first.failed if test not in unsteady]
    if len(unsteady) > MOST_UNSTEADY:
        problems.append(f"{len(unsteady)} tests are unsteady; at most {MOST_UNSTEADY} may be")
    if first.skipped:
        problems.append(f"{len(first.skipped)} skipped; this machine must have what they need (see the reasons above)")
    _list("unsteady: failed, and passed alone", unsteady)
    _list("failed" if problems and not unsteady else "failed, and failed again alone", failed)
    _list("this run fails", problems)
    passed = len(first.passed) + len(unsteady)
    others = {"skipped": len(first.skipped), "error": len(problems)}
    more = "".join(f", {count} {what}" for what, count in others.items() if count)
    _say(f"{passed} passed, {len(failed)} failed{more} in {time.monotonic() - started:.2f}s")
    return 1 if failed or problems else 0


def _problems(first: Outcomes) -> list[str]:
    """Return why a run fails without a second try."""
    problems = list(first.broken)
    if first.code not in (0, _TESTS_FAILED) and not problems and not first.skipped:
        problems.append(f"pytest ended with {first.code}, which is more than a failed test")
    if first.code == _TESTS_FAILED and not first.failed and not problems:
        problems.append("pytest failed, and named no test")
    if len(first.failed) > _MOST_RERUN:
        problems.append(f"{len(first.failed)} tests failed; no more than {_MOST_RERUN} are run again")
    return problems


def _passes_alone(test: str, options: Sequence[str]) -> bool:
    _say(f"\nOnce more, alone: {test}")
    again = run_pytest([*options, "--numprocesses=0", test])
    return again == Outcomes(passed=[test])


def run_pytest(arguments: Sequence[str], **process: Any) -> Outcomes:
    """Run pytest, and return how its tests ended.

    Args:
        arguments: Pytest's.
        **process: Arguments of ``subprocess.run``; by default the output goes where that of this process goes.
    """
    with TemporaryDirectory(prefix="openenv-rerun-") as folder:
        file = Path(folder) / "outcomes.json"
        command = [sys.executable, "-m", "pytest", "-p", "tests.support.rerun", f"--outcomes={file}", *arguments]
        code = subprocess.run(command, **process).returncode
        if not file.exists():
            return Outcomes(code, broken=["pytest ended before it could say how"])
        return Outcomes(**{**json.loads(file.read_text()), "code": code})


def _list(title: str, lines: Sequence[str]) -> None:
    if lines:
        _say(f"\n{f' {title} ':=^100}")
        for line in lines:
            _say(line)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
