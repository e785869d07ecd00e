"""``make bench`` runs from end to end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.public_package import COMMAND, ROOT, PublicPackageError, public_python
from benchmarks.rows import ROWS


@pytest.mark.timeout(300)
def test_a_quick_run_measures_every_row_but_the_size(tmp_path: Path) -> None:
    try:
        public_python()
    except PublicPackageError as error:
        pytest.skip(f"{error}\nInstall it with: {COMMAND}")

    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(tmp_path)]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    assert finished.returncode == 0, finished.stderr
    assert "server CPU per step" in finished.stdout
    document = json.loads((tmp_path / "benchmarks.json").read_text())
    assert {row["key"] for row in document["rows"]} == ROWS.keys() - {"installed_size"}
    for row in document["rows"]:
        assert row["ours"] > 0, row
        assert row["public"] > 0, row
    assert (tmp_path / "benchmarks.png").exists()
