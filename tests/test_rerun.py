"""What failed is run once more, alone: what passes then is named, and nothing else is forgiven."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.rerun import main

ROOT = Path(__file__).resolve().parent.parent
# A test that fails the first time only, in whichever process.
FLAKY = """
def test_flaky_{name}():
    import pathlib
    tried = pathlib.Path("tried-{name}")
    first = not tried.exists()
    tried.touch()
    assert not first
"""
STEADY = "def test_steady(): ...\n"


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    said: str

    @property
    def last_line(self) -> str:
        return self.said.splitlines()[-1].partition(" in ")[0]


Rerun = Callable[..., Ended]


@pytest.fixture
def rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Rerun:
    """Runs a suite of one file: ``rerun(text, *options, processes=0)``. Its tests have processes of their own."""
    for name in [name for name in os.environ if name.startswith("PYTEST")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(text: str, *options: str, processes: int = 0) -> Ended:
        (tmp_path / "test_suite.py").write_text(text)
        code = main([f"--numprocesses={processes}", "--dist=loadfile", *options])
        return Ended(code, capfd.readouterr().out)

    return run


def test_what_passes_alone_is_named_as_unsteady(rerun: Rerun) -> None:
    ended = rerun(STEADY + FLAKY.format(name="a"), processes=2)
    assert (ended.code, ended.last_line) == (0, "2 passed, 0 failed")
    assert "unsteady: failed, and passed alone" in ended.said
    assert "\ntest_suite.py::test_flaky_a\n2 passed" in ended.said
    assert Path("tried-a").exists()


def test_what_fails_again_fails_the_run(rerun: Rerun) -> None:
    failing = "def test_failing(): assert False\n"
    ended = rerun(STEADY + failing + FLAKY.format(name="a"))
    assert (ended.code, ended.last_line) == (1, "2 passed, 1 failed")
    assert "failed, and failed again alone ====" in ended.said


def test_more_than_three_unsteady_ones_fail_the_run(rerun: Rerun) -> None:
    ended = rerun(STEADY + "".join(FLAKY.format(name=name) for name in "abcd"))
    assert (ended.code, ended.last_line) == (1, "5 passed, 0 failed, 1 error")
    assert "4 tests are unsteady; at most 3 may be" in ended.said


def test_all_pass(rerun: Rerun) -> None:
    ended = rerun(STEADY)
    assert (ended.code, ended.last_line) == (0, "1 passed, 0 failed")
    assert "unsteady" not in ended.said


ERROR = "0 passed, 0 failed, 1 error"
FLAKY_FIXTURE = FLAKY.replace("def test_flaky_{name}():", "@pytest.fixture\ndef failing():").format(name="a")
CRASH = FLAKY.replace("assert not first", "import os; first and os._exit(3)").format(name="a")
SKIPPED_ALONE = FLAKY.replace("assert not first", "first or pytest.skip('gone'); assert False").format(name="a")


def test_a_fixture_that_failed_is_tried_again_with_its_test(rerun: Rerun) -> None:
    ended = rerun(f"import pytest\n{FLAKY_FIXTURE}\ndef test_it(failing): ...")
    assert (ended.code, ended.last_line) == (0, "1 passed, 0 failed")


@pytest.mark.parametrize(
    ("text", "processes", "reason", "last_line"),
    [
        pytest.param(STEADY + CRASH, 2, "crashed: ", "1 passed, 1 failed, 1 error", id="a crash"),
        pytest.param(STEADY + CRASH, 0, "ended before it could say how", ERROR, id="a crash of all"),
        pytest.param("import no_such_module", 0, "test_suite.py could not be collected", ERROR, id="file"),
        pytest.param("", 0, "pytest ended with 5", ERROR, id="no tests"),
        pytest.param("import os\nos.kill(os.getpid(), 2)", 0, "pytest ended with 2", ERROR, id="Ctrl-C"),
        pytest.param(
            STEADY + "import pytest\n@pytest.mark.skip\ndef test_skipped(): ...",
            0,
            "1 skipped; this machine must have what they need",
            "1 passed, 0 failed, 1 skipped, 1 error",
            id="a skip",
        ),
        pytest.param(
            "import pytest\npytest.skip('x', allow_module_level=True)",
            0,
            "1 skipped; ",
            "0 passed, 0 failed, 1 skipped, 1 error",
            id="a skip of a file",
        ),
        pytest.param(
            f"import pytest\n{SKIPPED_ALONE}",
            0,
            "failed again alone",
            "0 passed, 1 failed",
            id="a skip alone",
        ),
    ],
)
def test_nothing_else_is_forgiven(rerun: Rerun, text: str, processes: int, reason: str, last_line: str) -> None:
    ended = rerun(text, processes=processes)
    assert (ended.code, ended.last_line) == (1, last_line), ended.said
    assert reason in ended.said


def test_an_internal_error_fails_the_run(rerun: Rerun) -> None:
    Path("conftest.py").write_text("def pytest_runtest_logfinish(): raise ValueError('x')")
    ended = rerun(STEADY)
    assert ended.code == 1
    assert "pytest ended with 3" in ended.said


def test_paths_are_refused_by_the_command() -> None:
    command = [sys.executable, "-m", "tests.support.rerun", "--numprocesses=0", "test_suite.py"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert ended.returncode == 4
    assert "Expected options only, each as --name=value; got test_suite.py." in ended.stdout
