"""The figures of Wordle by tool calls, drawn from metrics of runs that were measured before."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.wordle_tools import ROOT, WAYS, WON, Run
from PIL import Image


def write_metrics(folder: Path, way: str, seed: int) -> Path:
    """Write what a run that wins more and more leaves."""
    file = folder / f"{way}-{seed}.json"
    steps = [{"step": step, WON: step / 40} for step in range(1, 31)]
    file.write_text(json.dumps([{f"eval_{WON}": 0.2 * seed}, *steps, {f"eval_{WON}": 0.9}]), encoding="utf-8")
    return file


def test_a_run_is_read(tmp_path: Path) -> None:
    run = Run(write_metrics(tmp_path, "rollout_func", 2))
    assert (run.before, run.after) == (0.4, 0.9)
    assert run.won == [step / 40 for step in range(1, 31)]


def test_runs_that_are_there_are_told_and_drawn(tmp_path: Path) -> None:
    for way in WAYS:
        for seed in (1, 2):
            write_metrics(tmp_path, way, seed)
    picture = tmp_path / "picture.png"
    command = [sys.executable, "-m", "benchmarks.wordle_tools", "--seeds", "2"]
    told = subprocess.run(
        [*command, "--folder", str(tmp_path), "--picture", str(picture)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for change in ("0.20 → 0.90", "0.40 → 0.90", "0.30 → 0.90"):  # both seeds, and their mean
        assert told.count(change) == len(WAYS)
    with Image.open(picture) as drawn:
        assert drawn.size == (1350, 690)
        colours = {colour for _, colour in drawn.convert("RGB").getcolors(1 << 20) or ()}
    assert {(0x24, 0x57, 0xD6), (0xB4, 0x54, 0x1A)} <= colours
