"""The comparison of TRL's loop with ours."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.public_package import ROOT


@pytest.mark.level("service")
def test_both_loops_are_measured_on_the_same_episodes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.rollouts", "--rollouts", "8", "--turns", "2", "--steps", "2"]
    finished = subprocess.run([*command, "--output", str(tmp_path)], cwd=ROOT, capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr
    trl, ours = json.loads((tmp_path / "rollouts.json").read_text())["speeds"]
    assert trl["turn_s"] > 8 * 0.05 * 0.8, "one step after another; now and then an answer is no call"
    assert ours["turn_s"] > 0.05
    assert abs(trl["actions"] - ours["actions"]) < 0.5
    assert 1 < ours["actions"] <= 2
    assert "training steps per minute" in finished.stdout
