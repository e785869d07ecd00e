"""The test of thousands, with few sessions."""

import subprocess
import sys
from pathlib import Path

from benchmarks.public_package import ROOT


def test_every_session_of_a_small_grid_succeeds_and_there_is_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "thousands.png"
    command = [sys.executable, "-m", "benchmarks.thousands", "--sessions", "4", "--workers", "1"]
    ended = subprocess.run(
        [*command, "--picture", str(picture)], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "100.0%" in ended.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
