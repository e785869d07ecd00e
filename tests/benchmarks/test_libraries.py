"""Environments beside their libraries: each pair plays, and has its row."""

import subprocess
import sys

from benchmarks.public_package import ROOT


def test_each_environment_has_a_row_beside_its_library() -> None:
    command = [sys.executable, "-m", "benchmarks.libraries", "--turns", "1", "--episodes", "2"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    rows = [line for line in ended.stdout.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].split(",")[0].strip() for row in rows] == ["OpenSpiel"] * 4 + [
        "TextArena",
        "reasoning-gym",
    ]
    for row in rows:
        figures = [float(cell.replace(",", "")) for cell in row.split("│")[2:7]]
        assert all(figure > 0 for figure in figures)
