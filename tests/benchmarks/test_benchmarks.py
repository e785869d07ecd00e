"""``make bench`` runs from end to end."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.public_package import COMMAND, ROOT, PublicPackageError, public_python
from tests.support.needs import skip_without

# One of each kind of measurement. Those left out start the public package's server or client once more, which takes
# seconds each time; ``test_drive_client.py`` has what they alone run.
ROWS = ("cpu_non_blocking", "cpu_v1_64", "cpu_growth", "workers", "vector", "open_reset")


def bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the benchmarks with a few rounds of everything."""
    command = [sys.executable, "-m", "benchmarks", "--quick", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.level("service")
@pytest.mark.timeout(900)
def test_a_quick_run_measures_rows_of_every_kind(tmp_path: Path) -> None:
    try:
        public_python()
    except PublicPackageError as error:
        skip_without("the public package", str(error), COMMAND)

    finished = bench(*(part for row in ROWS for part in ("--only", row)), "--output", str(tmp_path))

    assert finished.returncode == 0, finished.stderr
    assert "server CPU per step" in finished.stdout
    document = json.loads((tmp_path / "benchmarks.json").read_text())
    rows = {row["key"]: row for row in document["rows"]}
    assert rows.keys() == set(ROWS)
    assert all(row["ours"] > 0 for row in rows.values())
    assert all(rows[key]["public"] > 0 for key in ("cpu_non_blocking", "vector", "open_reset"))
    assert rows["vector"]["gymnasium"] > 0
    assert rows["cpu_v1_64"]["floor"] > 0
    assert {len(points) for points in document["curves"]["cpu_per_step"].values()} == {3, 5}
    assert (tmp_path / "benchmarks.png").exists()
    assert (tmp_path / "growth.png").exists()


def test_an_unknown_row_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    finished = bench("--only", "cpu", "--output", str(tmp_path))

    assert finished.returncode == 2
    assert "cpu_v1_64" in finished.stderr
    assert list(tmp_path.iterdir()) == []
