"""The command line, run as its users run it."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.forked import run_forked
from tests.support.imported_modules import forget_modules_of
from tests.support.services.hub_fixtures import hub, impatient

from openenv.cli.__main__ import main

__all__ = ["hub", "impatient"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def openenv(tmp_path: Path) -> Run:
    """Run the command in an empty working directory: ``openenv("init", "my_env")``."""

    def run(*arguments: object, typed: str = "", timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("PORT", "MAX_CONCURRENT_ENVS")}
        return run_forked(
            ["-m", "openenv.cli", *map(str, arguments)],
            cwd=tmp_path,
            # Rich folds its lines at this width.
            env={**environment, "COLUMNS": "300"},
            typed=typed,
            timeout=timeout_s,
        )

    return run


@pytest.fixture(autouse=True)
def own_variables() -> Iterator[None]:
    """Restore the variables that a command sets which serves in this process: they have its settings."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def own_interrupts() -> Iterator[None]:
    """Take back what a command that runs in this process does on Ctrl-C."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def openenv_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Callable[..., Ended]]:
    """Run the command in this process, which spares it the start: ``openenv_here("push", folder)``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments: object, typed: str = "") -> Ended:
        monkeypatch.setattr(sys, "argv", ["openenv", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    yield run
    forget_modules_of(tmp_path)
