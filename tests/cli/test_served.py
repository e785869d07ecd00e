"""The module that ``--reload`` starts anew; ``test_serve`` covers it in use."""

import subprocess
import sys
from pathlib import Path

from tests.environment_folders import scaffold


def test_it_holds_the_application_of_the_environment_named(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    program = "import openenv.cli.served as served; print(served.app.title)"
    shown = subprocess.run(
        [sys.executable, "-c", program], env={"OPENENV_SERVED": str(folder)}, capture_output=True, text=True, timeout=60
    )
    assert shown.stdout == "OpenEnv Environment HTTP API\n", shown.stderr
