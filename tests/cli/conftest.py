"""The command line, run as its users run it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def openenv(tmp_path: Path) -> Run:
    """Run the command in an empty working directory: ``openenv("init", "my_env")``."""

    def run(*arguments: object, typed: str = "", timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in ("PORT", "MAX_CONCURRENT_ENVS")}
        return subprocess.run(
            [sys.executable, "-m", "openenv.cli", *map(str, arguments)],
            input=typed,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            cwd=tmp_path,
            # Rich folds its lines at this width.
            env={**environment, "COLUMNS": "300"},
        )

    return run
