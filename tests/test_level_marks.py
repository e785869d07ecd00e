"""Tests are chosen by level, and held to it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.import_graph import ROOT

SUITE = {
    "tests/conftest.py": "",
    "tests/test_quick.py": """
import os
import socket
import time
import pytest

ran = []

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass

def test_memory(): ...

def test_files(tmp_path): ...

def test_socket():
    with socket.create_server(("127.0.0.1", 0)):
        pass
""",
    "tests/test_bad.py": """
import importlib
import pytest
from tests.test_quick import burn

@pytest.fixture(scope="module")
def shared(): return []

def test_dear(): burn(1.5)

@pytest.mark.level("socket")
def test_dear_and_marked(): burn(0.5)

def test_dear_once(shared):
    shared.append(1)
    burn(1.5 if len(shared) == 1 else 0)

def test_hidden_process():
    importlib.import_module("subprocess").run(["true"])

def test_hidden_socket():
    with importlib.import_module("socket").create_server(("127.0.0.1", 0)):
        pass

@pytest.mark.level("process")
def test_marked_process():
    importlib.import_module("subprocess").run(["true"])

def test_import_that_starts_a_process(): importlib.import_module("looks_around")

def test_wrong(): assert False
""",
    "tests/test_inherited.py": """
from tests.test_base import Base

class TestChild(Base): ...
""",
    "tests/test_base.py": "import socket\nclass Base:\n    def test_inherited(self): socket.socket().close()\n",
    "looks_around.py": "import subprocess\nsubprocess.run(['true'])\n",
    "tests/heavy/conftest.py": "raise RuntimeError('imported')\n",
    "tests/heavy/test_heavy.py": "import torch\ndef test_training(): ...\n",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n")
    for name, text in SUITE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(suite: Path, *options: str) -> tuple[int, str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
    ours = ["-p", "tests.support.costs", "-p", "tests.support.level_marks"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *ours, *options],
        cwd=suite,
        env={**variables, **plugins, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize("processes", ["0", "2"])
def test_only_tests_of_the_chosen_levels_are_run_and_imported(suite: Path, processes: str) -> None:
    code, said = run(
        suite, "--level=files,socket", f"--numprocesses={processes}", "--deselect=tests/test_bad.py", "tests"
    )
    assert code == 0, said
    assert "test_files" in said
    assert "test_socket" in said
    assert "test_memory" not in said
    assert "2 passed" in said
    assert "heavy" not in said


def test_without_a_choice_everything_is_collected(suite: Path) -> None:
    code, said = run(suite, "tests/heavy")
    assert code != 0
    assert "RuntimeError: imported" in said


def test_the_marks_can_be_chosen_as_marks(suite: Path) -> None:
    code, said = run(suite, "-m", "memory", "tests/test_quick.py", "tests/test_inherited.py")
    assert code == 0, said
    assert "2 passed, 2 deselected" in said


def test_an_unknown_level_is_refused(suite: Path) -> None:
    code, said = run(suite, "--level=memory,disk")
    assert code == 4
    assert (
        "--level: expected some of memory, files, socket, command, process, service, browser, training; got disk"
        in said
    )


def test_a_test_that_does_not_keep_to_its_level_fails(suite: Path) -> None:
    code, said = run(suite, "tests/test_bad.py")
    assert code == 1
    summary = said[said.index("short test summary") :]
    assert "test_bad.py::test_dear: it took 1." in said
    assert "and a test of the level 'memory' may take 0.3 s" in said
    assert "test_hidden_process: a test of the level 'memory' does without" in said
    assert "subprocess.Popen" in said
    assert "test_hidden_socket: a test of the level 'memory' does without socket.bind" in said
    for name in ("test_dear_and_marked", "test_dear_once", "test_marked_process", "test_import_that_starts_a_process"):
        assert name not in summary
    assert "FAILED tests/test_bad.py::test_wrong - assert False" in summary
    assert "1 failed, 7 passed, 3 errors" in said
