"""Tests that need what the machine lacks are skipped, and the run says once what brings it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import needs

ROOT = Path(__file__).resolve().parent.parent
SUITE = """
import pytest
from tests.support.needs import require, skip_without

@pytest.fixture(scope="session")
def costly():
    raise AssertionError("made though the test is skipped")

@pytest.mark.needs("git")
def test_marked(costly): ...

@pytest.mark.needs("git", "ip")
def test_marked_with_two(costly): ...

@pytest.fixture(scope="session")
def engine():
    require("docker")

def test_by_its_fixture(engine): ...

def test_something_else(): skip_without("the moon", "out of reach", "pip install rocket")

@pytest.mark.needs("sandbox")
def test_sandbox(): ...

def test_runs(): ...
"""


def run_suite(folder: Path, text: str, *arguments: str, path: str = "/nowhere") -> str:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(text)
    # Without what tells a process that pytest-xdist started it.
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin -p tests.support.needs"}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-ra", "--strict-markers", *arguments],
        cwd=folder,
        env={**usual, **plugins, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "250"},
        stdout=subprocess.PIPE,
        text=True,
    )
    return ended.stdout


@pytest.mark.parametrize("processes", ["0", "2"])
def test_what_is_missing_is_said_with_the_command(tmp_path: Path, processes: str) -> None:
    said = run_suite(tmp_path, SUITE, "--numprocesses", processes)
    assert "needs git: there is no `git` command. Get it with: sudo apt-get install git\n" in said
    assert "git: 2 skipped\n" in said
    assert "the moon: 1 skipped\n" in said
    packages = "bubblewrap docker.io git libseccomp2"
    assert f"One command brings what is missing: sudo apt-get install {packages} && pip install rocket\n" in said
    assert "1 passed, 5 skipped" in said.splitlines()[-1]


def test_where_nothing_is_missing_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "git").write_text("")
    (tmp_path / "git").chmod(0o755)
    text = "import pytest\n@pytest.mark.needs('git')\ndef test_marked(): ..."
    said = run_suite(tmp_path, text, path=str(tmp_path))
    assert "1 passed" in said.splitlines()[-1]
    assert "missing on this machine" not in said


def test_an_unknown_need_is_an_error(tmp_path: Path) -> None:
    said = run_suite(tmp_path, "import pytest\n@pytest.mark.needs('gti')\ndef test_marked(): ...")
    assert "needs('gti'): expected one of sandbox, browser, " in said
    assert "1 error" in said.splitlines()[-1]


def test_a_file_that_imports_what_make_left_out_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.support import needs\n"
        "needs.NEEDS['reasoning-gym'] = needs.CompiledModule('left_out', 'tests', ('too',))\n"
    )
    (tmp_path / "test_other.py").write_text("import too.part\ndef test_it(): ...\n")
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")
    said = run_suite(tmp_path, "def test_it(): ...", "--numprocesses", "2", "--continue-on-collection-errors")
    assert "reasoning-gym: 1 skipped\n" in said
    assert "sudo apt-get install gcc python3-dev\n" in said
    assert "1 passed, 1 skipped, 1 error" in said.splitlines()[-1]


def test_programs_beside_the_path_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    program = needs.Program(("a-program",), "a-package", "tests", f"{tmp_path}/*/bin".removeprefix("/"))
    assert program.look("it").remedy == "sudo apt-get install a-package"
    for version in ("14", "15"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "a-program").touch()
    assert program.find() == tmp_path / "15" / "bin" / "a-program"


def test_the_table_names_each_package_once() -> None:
    missing = [program.look(name) for name, program in needs.NEEDS.items()]
    assert needs.remedies(missing).count("apt-get") <= 1
