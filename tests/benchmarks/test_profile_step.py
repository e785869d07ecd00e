"""The profile's stages add up to what was measured over sockets."""

import os
import re
import subprocess
import sys

import pytest
from benchmarks.public_package import ROOT


@pytest.mark.timeout(300)
def test_the_stages_add_up_to_the_total() -> None:
    command = [sys.executable, "-m", "benchmarks.profile_step", "--rounds", "1", "--steps", "640"]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"COLUMNS": "150"})

    assert finished.returncode == 0, finished.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in finished.stdout.splitlines() if "│" in line]
    figures = {row[0]: (float(row[2]), float(row[4])) for row in rows if re.fullmatch(r"-?[\d.]+", row[2])}
    *stages, total = figures.values()
    assert len(stages) == 11
    for wire in (0, 1):
        assert sum(stage[wire] for stage in stages) == pytest.approx(total[wire], abs=0.1)
    for stage in ("read the frame", "validate the action", "the environment's step", "write the observation"):
        assert 0 < min(figures[stage]) <= max(figures[stage]) < min(total), stage
