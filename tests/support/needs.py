"""What tests need of the machine beside Python, and the one command that brings it.

A test, a class or a module is marked with what it needs; a helper or a fixture calls ``require``::

    pytestmark = pytest.mark.needs("sandbox")
    require("git")

Where the machine lacks it, the test is skipped with the reason and the command. The end of a run lists once what was
missing, and one command for all of it. ``python -m tests.support.needs`` says the same without running a test; with
``--packages`` it prints the names of Debian's packages, which ``.ci/run`` installs.
"""

import functools
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from _pytest.outcomes import Skipped

from openenv.doctor.confinement import sandbox
from openenv.doctor.finding import Finding, Status

_APT = "sudo apt-get install "
_PROPERTY = "missing"


@dataclass(frozen=True)
class Program:
    """A program that tests start.

    Attributes:
        commands: The names that it may have.
        package: The package of Debian that brings it.
        used_for: What it is good for.
        folders: Where it may be besides the path, as a pattern below ``/``.
        trial: A command that fails where the machine does not let the program do its work.
    """

    commands: Sequence[str]
    package: str
    used_for: str
    folders: str = ""
    trial: Sequence[str] = ()

    def find(self) -> Path | None:
        """Find it; ``None`` where it is not installed."""
        found = next((Path(path) for command in self.commands if (path := shutil.which(command))), None)
        folders = sorted(Path("/").glob(self.folders), reverse=True) if self.folders else []
        elsewhere = (folder / command for folder in folders for command in self.commands)
        return found or next((path for path in elsewhere if path.exists()), None)

    def look(self, name: str) -> Finding:
        """Say whether it is there, as ``openenv doctor`` does."""
        if self.find() is None:
            detail = f"there is no `{self.commands[0]}` command"
            return Finding(name, Status.MISSING, detail, self.used_for, f"{_APT}{self.package}")
        tried = subprocess.run(self.trial, capture_output=True, text=True) if self.trial else None
        if tried is not None and tried.returncode != 0:
            return Finding(name, Status.MISSING, f"this machine refuses it ({tried.stderr.strip()})", self.used_for)
        return Finding(name, Status.READY, "", self.used_for)


@dataclass(frozen=True)
class CompiledModule:
    """A module that pip can install only where C can be compiled, and that ``make`` leaves out elsewhere.

    Attributes:
        module: Its name.
        used_for: What it is good for.
        dependents: Modules that are left out with it.
    """

    module: str
    used_for: str
    dependents: Sequence[str] = ()

    def look(self, name: str) -> Finding:
        """Say whether it is there, as ``openenv doctor`` does."""
        if find_spec(self.module) is not None:
            return Finding(name, Status.READY, "", self.used_for)
        detail = "it is not installed, for want of a C compiler; afterwards make installs it"
        return Finding(name, Status.MISSING, detail, self.used_for, f"{_APT}gcc python3-dev")


NEEDS: dict[str, Program | CompiledModule] = {
    "browser": Program(("chromium", "chromium-browser", "google-chrome"), "chromium", "web pages"),
    "docker": Program(("docker",), "docker.io", "environments in containers, images"),
    "docker-compose": Program(("docker-compose",), "docker-compose", "the Compose file of an image"),
    "git": Program(("git",), "git", "environments from repositories, tasks about them"),
    "ip": Program(("ip",), "iproute2", "a network of the tests' own"),
    "mmdebstrap": Program(("mmdebstrap",), "mmdebstrap", "base images that come from no registry"),
    "postgres": Program(
        ("pg_ctl",), "postgresql", "a journal that servers share, and traces", "usr/lib/postgresql/*/bin"
    ),
    "reasoning-gym": CompiledModule(
        "reasoning_gym", "the datasets of Reasoning Gym", dependents=("reasoning_gym_env",)
    ),
    "unshare": Program(
        ("unshare",),
        "util-linux",
        "namespaces of the tests' own",
        trial=("unshare", "--map-root-user", "--mount", "true"),
    ),
}
SANDBOX = "sandbox"
"""The one need that ``openenv doctor`` has to try: bubblewrap may be there, and the kernel may refuse it."""


class MissingError(Skipped):
    """Skips a test for want of something.

    Args:
        finding: What is missing.
    """

    # As pytest has its own, whose messages begin with nothing but their reason.
    __module__ = "builtins"
    __qualname__ = "Skipped"

    def __init__(self, finding: Finding) -> None:
        super().__init__(_sentence(finding))
        self.finding = finding


@functools.cache
def look(name: str) -> Finding:
    """Say whether the machine has what a name of ``NEEDS``, or ``sandbox``, stands for."""
    if name == SANDBOX:
        return sandbox()
    if name not in NEEDS:
        raise pytest.UsageError(f"needs({name!r}): expected one of {', '.join([SANDBOX, *NEEDS])}")
    return NEEDS[name].look(name)


def find_program(name: str) -> Path:
    """Return where a program of ``NEEDS`` is; skip the test where it is not installed."""
    require(name)
    program = NEEDS[name]
    assert isinstance(program, Program)
    found = program.find()
    assert found is not None
    return found


def require(*names: str) -> None:
    """Skip the test, with the reason and the command, unless the machine has all of this."""
    for name in names:
        finding = look(name)
        if finding.status is Status.MISSING:
            raise MissingError(finding)


def skip_without(name: str, detail: str, remedy: str = "") -> NoReturn:
    """Skip the test for want of what is in no table: an engine that does not run, a package that can't be fetched.

    Args:
        name: What is missing.
        detail: What was found instead.
        remedy: The command that brings it, if there is one.
    """
    raise MissingError(Finding(name, Status.MISSING, detail, "", remedy))


def remedies(missing: Iterable[Finding]) -> str:
    """Return one command line that brings all of it; empty where no command does."""
    commands = dict.fromkeys(finding.remedy for finding in missing if finding.remedy)
    debian = sorted({package for one in commands if one.startswith(_APT) for package in one.removeprefix(_APT).split()})
    others = [one for one in commands if not one.startswith(_APT)]
    return " && ".join([*([_APT + " ".join(debian)] if debian else []), *others])


def _sentence(finding: Finding) -> str:
    command = f" Get it with: {finding.remedy}" if finding.remedy else ""
    return f"needs {finding.name}: {finding.detail.rstrip('.')}.{command}"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*names): what the test needs of the machine; skipped where it is missing")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look before any fixture starts what needs it."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: "pytest.CallInfo[None]") -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have the report, which may come from another process, say what was missing."""
    report = yield
    if call.excinfo is not None and isinstance(call.excinfo.value, MissingError):
        report.user_properties.append(_property(call.excinfo.value.finding))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skip a file that imports what ``make`` has left out, instead of failing for it."""
    report = yield
    call = report.__dict__.get("call")  # of the collection that failed
    name = _left_out(call.excinfo.value) if report.failed and call is not None else None
    if name is not None:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {_sentence(look(name))}")
        report.__dict__["user_properties"] = [_property(look(name))]
    return report


def _left_out(error: BaseException | None) -> str | None:
    """Return the need that an error of an import comes from."""
    while error is not None:
        if isinstance(error, ImportError) and error.name is not None:
            module = error.name.partition(".")[0]
            for name, need in NEEDS.items():
                if isinstance(need, CompiledModule) and module in (need.module, *need.dependents):
                    return name if look(name).status is Status.MISSING else None
        error = error.__cause__ or error.__context__
    return None


def _property(finding: Finding) -> tuple[str, tuple[str, str, str]]:
    return _PROPERTY, (finding.name, finding.detail, finding.remedy)


def _finding(found: Any) -> Finding:
    name, detail, remedy = found
    return Finding(name, Status.MISSING, detail, "", remedy)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List once what was missing, and the command that brings it."""
    properties = [
        found
        for report in terminalreporter.stats.get("skipped", ())
        for found in vars(report).get("user_properties", ())
    ]
    missing = Counter(_finding(found) for key, found in properties if key == _PROPERTY)
    if missing:
        terminalreporter.section("missing on this machine")
        for finding, count in missing.most_common():
            terminalreporter.write_line(f"{finding.name}: {count} skipped")
        if command := remedies(missing):
            terminalreporter.write_line(f"One command brings what is missing: {command}")


def main() -> None:
    """Say what this machine lacks."""
    missing = [found for name in (SANDBOX, *NEEDS) if (found := look(name)).status is Status.MISSING]
    if sys.argv[1:] == ["--packages"]:
        typer.echo(remedies(missing).removeprefix(_APT))
        return
    for finding in missing:
        typer.echo(_sentence(finding))
    typer.echo(f"One command brings what is missing: {remedies(missing)}" if missing else "Nothing is missing.")


if __name__ == "__main__":
    main()
