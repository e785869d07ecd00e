"""``python -m benchmarks.compare``."""

import os
import subprocess
import sys

import pytest
from benchmarks.compare import KINDS
from benchmarks.public_package import ROOT


@pytest.mark.level("service")
@pytest.mark.timeout(300)
def test_a_checkout_is_compared_with_itself() -> None:
    command = [sys.executable, "-m", "benchmarks.compare", str(ROOT), "--turns", "1", "--steps", "64"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"COLUMNS": "150"})
    assert ended.returncode == 0, ended.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in ended.stdout.splitlines() if "│" in line]
    assert [row[0] for row in rows] == [kind.name for kind in KINDS]
    for _, other, this, ratio, *_ in rows:
        assert float(ratio) == pytest.approx(float(this) / float(other), abs=0.01)
