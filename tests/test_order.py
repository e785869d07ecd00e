"""The files that take longest are run first."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = "def test_one(): ...\ndef test_two(): ...\n"


@pytest.mark.parametrize(
    "record", ["", "1.00\t9.00\ttests/test_b.py::test_one\n0.10\t0.20\ttests/test_a.py::test_one\n"]
)
def test_the_longest_are_handed_out_first_and_those_without_a_record_before_them(tmp_path: Path, record: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "costs.tsv").write_text(record)
    for name in ("a", "b", "c"):
        (tmp_path / "tests" / f"test_{name}.py").write_text(TESTS)
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "tests.support.order"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    tests = [line for line in listed.stdout.splitlines() if "::" in line]
    order = "cba" if record else "abc"
    assert tests == [f"tests/test_{name}.py::test_{test}" for name in order for test in ("one", "two")]
