"""A file of tests finds ``sys.path`` and the modules of folders as if no other had run before it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.import_graph import ROOT

FILES = {
    "test_a.py": """
import sys
import pytest

@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    (folder / "models.py").write_text("X = 1")
    (folder / "server").mkdir()
    (folder / "server" / "__init__.py").write_text("")
    sys.path.append(str(folder))
    import models, server
    import colorsys
    yield folder
    import late_import

def test_added(served):
    (served / "late_import.py").write_text("")

def test_still_there(served):
    assert "models" in sys.modules
    assert sys.path[-1] == str(served)
""",
    "test_b.py": """
import sys

def test_gone():
    assert {"models", "server", "late_import"}.isdisjoint(sys.modules)
    assert not any("served" in entry for entry in sys.path)
    assert "colorsys" in sys.modules
""",
}


def test_what_a_file_adds_is_taken_back_with_its_last_test(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.imported_modules", "--import-mode=importlib"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    assert "3 passed" in ended.stdout, ended.stdout
