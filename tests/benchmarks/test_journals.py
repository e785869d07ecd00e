"""The cost of each kind of journal."""

import subprocess
import sys

from benchmarks.public_package import ROOT
from tests.support.services.postgres import running_postgres


def test_each_kind_is_measured() -> None:
    with running_postgres() as postgres:
        command = [sys.executable, "-m", "benchmarks.journals", "--sessions", "4", "--seconds", "1e-9"]
        command += ["--postgres", postgres.new_database()]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    rows = {line.split("│")[2].strip(): line for line in ended.stdout.splitlines() if line.startswith("│")}
    assert list(rows) == ["none", "SQLite", "PostgreSQL"]
