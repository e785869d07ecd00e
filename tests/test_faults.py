"""The seeded faults apply to the tree and name tests that exist, and their runner tells a caught fault from others."""

import ast
import os
import re
import shutil
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path

import pytest
from tests.faults.running import FOLDER, ROOT, Fault, git, load_faults
from tests.support.needs import require
from tests.support.rerun import __file__ as rerun_file

FAULTS = load_faults()
SOURCE = "src/openenv/"


def test_there_are_forty_faults_of_forty_modules() -> None:
    assert len({fault.module for fault in FAULTS}) == len(FAULTS) >= 40


def test_each_patch_has_its_row_and_each_row_its_patch() -> None:
    assert sorted(fault.patch.name for fault in FAULTS) == sorted(patch.name for patch in FOLDER.glob("*.patch"))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
class TestFault:
    def test_the_patch_applies(self, fault: Fault) -> None:
        require("git")
        checked = git(ROOT, "apply", "--check", fault.patch)
        assert checked.returncode == 0, f"{checked.stderr}The module has changed: record the fault again."

    def test_it_changes_its_module_alone_and_says_what_breaks(self, fault: Fault) -> None:
        description, _, diff = fault.patch.read_text().partition("diff --git ")
        assert re.findall(r"^\+\+\+ b/(.*)$", diff, re.MULTILINE) == [fault.module]
        assert fault.module.startswith(SOURCE)
        assert 1 <= len(description.splitlines()) <= 3

    def test_its_test_exists(self, fault: Fault) -> None:
        file, *names = fault.test.partition("[")[0].split("::")
        body = ast.parse((ROOT / file).read_text()).body
        for name in names:
            found = [node for node in body if getattr(node, "name", None) == name]
            assert found, f"{file} has no {name}"
            body = getattr(found[0], "body", [])
        assert names


MODULE = f"{SOURCE}adding.py"
ADDING = "def add(a, b):\n    return a + b\n\n\ndef half(a):\n    return a / 2\n"
TESTS = """
from openenv.adding import add, half

def test_sum():
    assert add(1, 2) == 3

def test_half():
    assert half(0) == 0

def test_never():
    raise AssertionError
"""
ROW = '[[fault]]\nname = "{name}"\nmodule = "{module}"\nkind = "wrong sign"\ntest = "tests/test_adding.py::{test}"\n'
ROWS = {"caught": "test_sum", "missed": "test_half", "always": "test_never", "renamed": "test_gone"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with one module, its tests, and four faults, of which the named test catches one."""
    require("git")
    project = tmp_path_factory.mktemp("faults") / "project"
    files = {
        "pytest.ini": "[pytest]\npythonpath = .\n",
        f"{SOURCE}__init__.py": "",
        MODULE: ADDING,
        "tests/test_adding.py": TESTS,
        "faults/faults.toml": "".join(ROW.format(name=name, module=MODULE, test=test) for name, test in ROWS.items()),
        **{f"faults/{name}.patch": _patch("a + b", "a - b") for name in ROWS},
        "faults/missed.patch": _patch("a / 2", "a / 3"),
    }
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)
    (project / "tests/support").mkdir()
    shutil.copy(rerun_file, project / "tests/support/rerun.py")
    return project


def _patch(before: str, after: str) -> str:
    """Return a patch that writes one expression in place of another."""
    changed = ADDING.replace(before, after).splitlines(keepends=True)
    diff = unified_diff(ADDING.splitlines(keepends=True), changed, f"a/{MODULE}", f"b/{MODULE}")
    return f"Numbers are wrong.\n\ndiff --git a/{MODULE} b/{MODULE}\n{''.join(diff)}"


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults", f"--tree={project}", f"--folder={project / 'faults'}", *arguments]
    # Pytest starts in a third of the time without the plugins of other tests.
    plugins = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin -p pytest_timeout"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | plugins
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


class TestRunner:
    def test_each_fault_is_reported_with_the_test_that_catches_it_or_the_reason(self, project: Path) -> None:
        before = _files(project)
        ran = _run(project)
        assert ran.returncode == 1, ran.stderr
        lines = [re.sub(r"  \d+ s$", "", line) for line in ran.stdout.splitlines()]
        assert lines == [
            "caught   adding.py  tests/test_adding.py::test_sum",
            "missed   adding.py  NOT CAUGHT: passes with the fault",
            "always   adding.py  NOT CAUGHT: fails without the fault, too",
            "renamed  adding.py  NOT CAUGHT: there is no such test",
            "1 of 4 faults caught",
        ]
        assert ran.stderr == "not caught: missed, always, renamed\n"
        assert _files(project) == before

    def test_of_the_nearest_tests_each_that_fails_for_the_fault_is_listed(self, project: Path) -> None:
        ran = _run(project, "renamed", "--nearest")
        assert ran.returncode == 0, ran.stderr
        assert re.findall(r"\S+::\S+", ran.stdout) == ["tests/test_adding.py::test_sum"]

    def test_a_name_that_is_none_is_refused(self, project: Path) -> None:
        ran = _run(project, "cuaght")
        assert ran.returncode == 2
        assert "'cuaght'" in ran.stderr
