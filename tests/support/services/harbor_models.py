"""Harbor's own models of trajectories, of its wheel, kept under ``.cache``.

Harbor wants Python 3.12; its models run on 3.11 too, and need nothing but pydantic.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import filelock
from tests.support.needs import skip_without

ROOT = Path(__file__).resolve().parents[3]
_VERSION = "0.25.0"
_DOWNLOAD_TIMEOUT_S = 240.0
_CHECK = """
import sys
from harbor.models.trajectories import Trajectory
for path in sys.argv[1:]:
    Trajectory.model_validate_json(open(path).read())
"""


def check_trajectories(files: list[Path]) -> None:
    """Have Harbor's models read files; skip the test, saying why, where they can't be had."""
    variables = {**os.environ, "PYTHONPATH": str(_folder())}
    command = [sys.executable, "-c", _CHECK, *map(str, files)]
    finished = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert finished.returncode == 0, finished.stderr


def _folder() -> Path:
    folder = ROOT / ".cache" / f"harbor-{_VERSION}"
    folder.parent.mkdir(exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
        if not (folder / ".complete").exists():  # written last
            shutil.rmtree(folder, ignore_errors=True)
            _install(folder)
            (folder / ".complete").touch()
    return folder


def _install(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--python-version", "3.12"]
        command += ["--only-binary", ":all:", "--dest", downloads, f"harbor=={_VERSION}"]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            skip_without("harbor", f"{error}; is there a network?")
        if finished.returncode != 0:
            skip_without("harbor", f"it could not be downloaded:\n{finished.stderr[-1000:]}")
        (wheel,) = Path(downloads).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
