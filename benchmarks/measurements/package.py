"""What a package costs before it does anything."""

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.bench import Bench, output, python_of
from benchmarks.public_package import ROOT, public_python


def import_time(bench: Bench) -> None:
    """Import each package in a fresh interpreter."""
    for name in ("public", "ours"):
        python = str(python_of(name))
        for _ in range(bench.effort.imports):
            # Both packages import some names on first use only: these two are what every user touches.
            spent = _seconds(python, "-c", "from openenv.core import EnvClient, Environment")
            bench.samples.add("import_time", name, max(spent - _seconds(python, "-c", "pass"), 0.0))


def _seconds(*command: str) -> float:
    started = time.perf_counter()
    output(*command)
    return time.perf_counter() - started


def installed_size(bench: Bench) -> None:
    """Install our core into a fresh virtual environment, and look at the public package's."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "venv"
        output(sys.executable, "-m", "venv", str(fresh))
        empty = _bytes_under(fresh)
        output(str(fresh / "bin" / "python"), "-m", "pip", "install", "--quiet", str(ROOT))
        bench.samples.add("installed_size", "ours", _bytes_under(fresh) - empty)
    bench.samples.add("installed_size", "public", _bytes_under(public_python().parent.parent) - empty)


def _bytes_under(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
