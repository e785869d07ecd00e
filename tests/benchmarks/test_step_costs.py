"""``python -m benchmarks.step_costs``."""

import os
import subprocess
import sys

import pytest
from benchmarks.public_package import ROOT


@pytest.mark.timeout(300)
def test_each_row_has_a_figure() -> None:
    command = [sys.executable, "-m", "benchmarks.step_costs", "--turns", "1", "--steps", "64", "--only", "8 sessions"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"COLUMNS": "150"})
    assert ended.returncode == 0, ended.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.stdout.splitlines() if "│" in line]
    assert ["isolation" in name or "pictures" in name for name, *_ in rows] == [True, True]
    assert all(0 < float(least) <= float(middle) for _, least, middle in rows)
