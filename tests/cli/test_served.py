"""The module that ``--reload`` starts anew; ``test_serve`` covers it in use."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold


def test_it_holds_the_application_of_the_environment_named(tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    assert printed(folder, "print(served.app.title)") == "my_env\n"


@pytest.mark.parametrize(("auth", "who"), [("token", "other machines need"), ("always", "all clients need")])
def test_a_token_of_the_application_is_told_since_another_one_may_have_been_announced(
    tmp_path: Path, auth: str, who: str
) -> None:
    folder = scaffold(tmp_path, "my_env")
    app = folder / "server" / "app.py"
    app.write_text(app.read_text().replace("env_name=", f'token="of-its-own", auth="{auth}", env_name='))
    assert printed(folder) == f"The environment's server sets the token that {who}.\n"


def printed(folder: Path, program: str = "") -> str:
    """Import the module, do something with it, and return what was printed."""
    command = [sys.executable, "-c", f"import openenv.cli.served as served; {program}"]
    shown = subprocess.run(command, env={"OPENENV_SERVED": str(folder)}, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout
