"""Workers of pytest-xdist that are forked: where tests are imported, and what the death of a worker costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux are workers forked")

NOTING = """
import os, pathlib

pathlib.Path("imported-{file}-%d" % os.getpid()).touch()

def test_one():
    pathlib.Path("ran-{file}-%d" % os.getpid()).touch()
    assert __import__("sys").modules["__main__"].__dict__.get("__file__") is None
"""
DYING = """
import os, signal

def test_a_death():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run two workers in a folder, without the settings of this one."""
    words = ["-p", "tests.support.workers", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", "-n2"]
    own = ("PYTEST_", "PYTHONPATH")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    command = [sys.executable, "-m", "pytest", "--import-mode=importlib", *words, *options]
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(folder)])
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)


def processes(folder: Path, what: str) -> set[str]:
    return {file.name.rpartition("-")[2] for file in folder.glob(f"{what}-*")}


def test_all_tests_are_imported_in_one_process_and_run_in_others(tmp_path: Path) -> None:
    for file in ("a", "b"):
        (tmp_path / f"test_{file}.py").write_text(NOTING.format(file=file))
    done = run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    imported, ran = processes(tmp_path, "imported"), processes(tmp_path, "ran")
    assert len(imported) == 1
    assert len(ran) == 2
    assert not imported & ran


def test_a_worker_that_dies_fails_its_test_and_another_one_goes_on(tmp_path: Path) -> None:
    (tmp_path / "test_dying.py").write_text(DYING)
    for file in ("a", "b", "c"):
        (tmp_path / f"test_{file}.py").write_text(NOTING.format(file=file))
    done = run(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed" in done.stdout
    assert "1 failed, 3 passed" in done.stdout


def test_a_file_that_cannot_be_imported_is_an_error_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import nothing_of_this_name\n")
    done = run(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "No module named 'nothing_of_this_name'" in done.stdout


def test_an_import_that_ends_the_process_is_an_error_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import os\n\nos._exit(3)\n")
    done = run(tmp_path)
    assert done.returncode != 0, done.stdout + done.stderr
    assert "Not properly terminated" in done.stdout


def test_a_plugin_of_the_command_line_may_be_imported_by_tests(tmp_path: Path) -> None:
    (tmp_path / "plugin_of_tests.py").write_text("LOADED = True\n")
    (tmp_path / "test_a.py").write_text(
        "import plugin_of_tests\n\ndef test_one():\n    assert plugin_of_tests.LOADED\n"
    )
    done = run(tmp_path, "-p", "plugin_of_tests", "-W", "error::pytest.PytestAssertRewriteWarning")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
