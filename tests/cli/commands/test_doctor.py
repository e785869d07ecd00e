"""``openenv doctor``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run
from tests.support.environment_folders import scaffold


def test_it_says_what_there_is(openenv: Run) -> None:
    ended = openenv("doctor")
    assert ended.returncode == 0, ended.stderr
    assert "This machine" in ended.stdout
    assert "Extras of OpenEnv" in ended.stdout
    assert "sandbox" in ended.stdout


def test_programs_read_it_as_json(openenv: Run) -> None:
    found = json.loads(openenv("doctor", "--json").stdout)
    assert {"docker", "sandbox", "browser", "gpu", "uv", "memory", "port", "extra postgres"} <= {
        finding["name"] for finding in found
    }
    assert {finding["status"] for finding in found} <= {"ready", "missing", "unsure"}


def test_an_environment_that_lacks_something_fails(openenv_here: Callable[..., Any], tmp_path: Path) -> None:
    folder = scaffold(tmp_path, "my_env")
    ended = openenv_here("doctor", folder)
    assert ended.returncode == 0, ended.stdout
    assert "Nothing is missing." in ended.stdout
    project = folder / "pyproject.toml"
    project.write_text(project.read_text().replace("dependencies = [", 'dependencies = ["no-such-thing-at-all", ', 1))
    ended = openenv_here("doctor", folder)
    assert ended.returncode == 1
    assert "no-such-thing-at-all is not installed" in ended.stdout
    assert "Something is missing." in ended.stdout


def test_what_has_no_folder_has_no_needs_that_it_says(openenv: Run) -> None:
    ended = openenv("doctor", "gymnasium:CartPole-v1")
    assert ended.returncode == 2
    assert "`openenv doctor` takes a name, a folder, a file of Python or a Space" in ended.stderr
