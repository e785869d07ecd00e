"""A short training, undisturbed and struck by faults."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.samplers import ROOT

COMMAND = [sys.executable, "-m", "benchmarks.faults", "--seeds", "1", "--steps", "5", "--eval-episodes", "8"]


@pytest.mark.level("training")
def test_a_short_run_counts_each_kind_and_no_failure_in_a_mean(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--folder", tmp_path], capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr
    whole, struck = (json.loads((tmp_path / f"catch-{name}-1.json").read_text()) for name in ("undisturbed", "struck"))
    assert (whole["struck"], whole["counted"], whole["failed"]) == ({}, {}, 0)
    assert struck["failed"] > 100
    assert struck["wrong_means"] == 0
    assert struck["counted"].keys() == struck["struck"].keys()
    assert len(struck["counted"]) >= 11
    assert all(-1 <= reward <= 0 for reward in struck["curve"]), "a policy that knows nothing seldom catches a ball"
    assert "0 steps have a mean with a failure in it." in " ".join(done.stdout.split())
