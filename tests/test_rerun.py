"""What failed is run once more, alone: what passes then is named, and nothing else is forgiven."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

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


def rerun(folder: Path, text: str, *options: str, processes: int = 0) -> Ended:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_suite.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment |= {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
    command = [sys.executable, "-m", "tests.support.rerun", f"--numprocesses={processes}", "--dist=loadfile", *options]
    ended = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    return Ended(ended.returncode, ended.stdout)


def test_what_passes_alone_is_named_as_unsteady(tmp_path: Path) -> None:
    ended = rerun(tmp_path, STEADY + FLAKY.format(name="a"), processes=2)
    assert (ended.code, ended.last_line) == (0, "2 passed, 0 failed")
    assert "unsteady: failed, and passed alone" in ended.said
    assert "\ntest_suite.py::test_flaky_a\n2 passed" in ended.said
    assert (tmp_path / "tried-a").exists()


def test_what_fails_again_fails_the_run(tmp_path: Path) -> None:
    failing = "def test_failing(): assert False\n"
    ended = rerun(tmp_path, STEADY + failing + FLAKY.format(name="a"))
    assert (ended.code, ended.last_line) == (1, "2 passed, 1 failed")
    assert "failed, and failed again alone ====" in ended.said


def test_more_than_three_unsteady_ones_fail_the_run(tmp_path: Path) -> None:
    ended = rerun(tmp_path, STEADY + "".join(FLAKY.format(name=name) for name in "abcd"))
    assert (ended.code, ended.last_line) == (1, "5 passed, 0 failed, 1 error")
    assert "4 tests are unsteady; at most 3 may be" in ended.said


def test_all_pass(tmp_path: Path) -> None:
    ended = rerun(tmp_path, STEADY)
    assert (ended.code, ended.last_line) == (0, "1 passed, 0 failed")
    assert "unsteady" not in ended.said


ERROR = "0 passed, 0 failed, 1 error"
FLAKY_FIXTURE = FLAKY.replace("def test_flaky_{name}():", "@pytest.fixture\ndef failing():").format(name="a")
CRASH = FLAKY.replace("assert not first", "import os; first and os._exit(3)").format(name="a")
SKIPPED_ALONE = FLAKY.replace("assert not first", "first or pytest.skip('gone'); assert False").format(name="a")


def test_a_fixture_that_failed_is_tried_again_with_its_test(tmp_path: Path) -> None:
    ended = rerun(tmp_path, f"import pytest\n{FLAKY_FIXTURE}\ndef test_it(failing): ...")
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
def test_nothing_else_is_forgiven(tmp_path: Path, text: str, processes: int, reason: str, last_line: str) -> None:
    ended = rerun(tmp_path, text, processes=processes)
    assert (ended.code, ended.last_line) == (1, last_line), ended.said
    assert reason in ended.said


def test_an_internal_error_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_runtest_logfinish(): raise ValueError('x')")
    ended = rerun(tmp_path, STEADY)
    assert ended.code == 1
    assert "pytest ended with 3" in ended.said


def test_paths_are_refused(tmp_path: Path) -> None:
    ended = rerun(tmp_path, STEADY, "test_suite.py")
    assert ended.code == 4
    assert "Expected options only, each as --name=value; got test_suite.py." in ended.said
