"""The files that take longest are run first."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.order import LONGEST

ROOT = Path(__file__).resolve().parent.parent


def test_the_longest_are_there_and_named_once() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_they_are_handed_out_first(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = "def test_one(): ...\ndef test_two(): ...\n"
    for name in ("tests/test_a.py", LONGEST[1], LONGEST[0]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(tests)
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "tests.support.order"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    files = [line.partition("::")[0] for line in listed.stdout.splitlines() if "::" in line]
    assert files == [LONGEST[0]] * 2 + [LONGEST[1]] * 2 + ["tests/test_a.py"] * 2
