"""Faults put into a copy of the tree, one at a time, and the tests that fail then."""

import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import cache_from_source
from pathlib import Path

from tests.support.rerun import Outcomes, run_pytest

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
SOURCE = Path("src/openenv")
# A test that hangs for a fault fails in the end.
_TIMEOUT_S = 300
_PRINT_FOLDERS = """
import subprocess, sys
child = [sys.executable, "-c", "import openenv; print(*openenv.__path__, flush=True)"]
exec(child[-1])
subprocess.run(child, check=True)
"""


@dataclass(frozen=True)
class Fault:
    """Fault in a module of ``src/openenv``.

    Attributes:
        name: Name of its patch, without ``.patch``.
        module: Path of the module in the tree.
        kind: What was done wrong.
        test: Node id of the test that catches it.
        patch: Its patch.
    """

    name: str
    module: str
    kind: str
    test: str
    patch: Path


@dataclass
class Result:
    """What the tests said of a fault.

    Attributes:
        fault: The fault.
        caught_by: Tests that fail with the fault, and pass without it.
        problem: Why no test caught it; empty if one did.
        seconds: Time of the run with the fault.
    """

    fault: Fault
    caught_by: list[str] = field(default_factory=list)
    problem: str = ""
    seconds: float = 0.0


def load_faults(folder: Path = FOLDER) -> list[Fault]:
    """Return the faults of the table in a folder."""
    rows = tomllib.loads((folder / "faults.toml").read_text())["fault"]
    return [Fault(**row, patch=folder / f"{row['name']}.patch") for row in rows]


def git(tree: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run git in a tree, which need not be a checkout, and may lie in one of another repository."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.resolve().parent)}
    return subprocess.run(["git", *arguments], cwd=tree, env=environment, capture_output=True, text=True)


class TreeCopy:
    """Copy of a tree, in which faults are tried.

    Args:
        tree: The tree.
        folder: Where the copy is made; must not exist.

    Raises:
        RuntimeError: Python imports another ``openenv`` there than the copy's.
    """

    def __init__(self, tree: Path, folder: Path) -> None:
        ignored = (tree / ".gitignore").read_text().split() if (tree / ".gitignore").exists() else []
        names = [pattern.rstrip("/") for pattern in (".git", *ignored)]
        shutil.copytree(tree, folder, symlinks=True, ignore=shutil.ignore_patterns(*names))
        self._folder = folder.resolve()
        self._environment = {**os.environ, "PYTHONPATH": str(self._folder / "src")}
        self._check_import()

    def run(self, tests: Sequence[str]) -> Outcomes:
        """Run tests in the copy, and return how they ended."""
        options = ["-q", f"--timeout={_TIMEOUT_S}", "--numprocesses=0", "-p", "no:cacheprovider"]
        return run_pytest(
            [*options, *tests],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @contextmanager
    def having(self, fault: Fault) -> Iterator[None]:
        """Put a fault into the copy until the block ends.

        Raises:
            RuntimeError: The patch does not apply.
        """
        self._apply(fault)
        try:
            yield
        finally:
            self._apply(fault, "--reverse")

    def _apply(self, fault: Fault, *options: str) -> None:
        applied = git(self._folder, "apply", *options, fault.patch.resolve())
        if applied.returncode != 0:
            raise RuntimeError(f"{fault.patch} does not apply; record it again. Git says: {applied.stderr.strip()}")
        # Python compares times in whole seconds, and sizes, which may be the same.
        Path(cache_from_source(self._folder / fault.module)).unlink(missing_ok=True)

    def _check_import(self) -> None:
        command = [sys.executable, "-c", _PRINT_FOLDERS]
        printed = subprocess.run(
            command, cwd=self._folder, env=self._environment, check=True, capture_output=True, text=True
        )
        expected = str(self._folder / SOURCE)
        if printed.stdout.split() != [expected, expected]:
            raise RuntimeError(f"Expected openenv to be imported from {expected}, got {printed.stdout.split()}.")


def try_fault(fault: Fault, tree: TreeCopy, test: str) -> Result:
    """Try a fault, and then without it what failed.

    Args:
        fault: The fault.
        tree: The copy to try it in.
        test: What is run: a test, a file or a folder.
    """
    started = time.monotonic()
    with tree.having(fault):
        faulty = tree.run([test])
    seconds = time.monotonic() - started
    if not faulty.failed:
        return Result(fault, problem=_why_none_failed(faulty), seconds=seconds)
    sound = tree.run(faulty.failed)
    caught_by = [each for each in faulty.failed if each in sound.passed]
    return Result(fault, caught_by, "" if caught_by else "fails without the fault, too", seconds)


def _why_none_failed(outcomes: Outcomes) -> str:
    if outcomes.broken:
        return "; ".join(outcomes.broken)
    if outcomes.passed:
        return "passes with the fault"
    return "skipped" if outcomes.skipped else "there is no such test"
