"""``openenv card``: what it refuses, and what it writes of an environment that can't be measured."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold, write_files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["http://localhost:1"], "a server's address"),
        (["no_such_environment"], "no_such_environment"),
    ],
)
def test_mistakes(openenv_here: Any, arguments: list[str], message: str) -> None:
    ended = openenv_here("card", *arguments)
    assert ended.returncode != 0
    assert message in ended.stdout + ended.stderr


@pytest.mark.level("process")
def test_an_environment_that_does_not_start_has_a_card_of_reasons(openenv_here: Any, tmp_path: Path) -> None:
    folder = write_files(scaffold(tmp_path, "my_env"), {"server/app.py": "raise RuntimeError('no disk')"})
    file = tmp_path / "made.html"
    ended = openenv_here("card", folder, "--output", file, "--json")
    assert ended.returncode == 0, ended.stderr
    figures = {each["name"]: each for each in json.loads(ended.stdout)["figures"]}
    assert figures["floor"]["text"] is None
    assert "runtime.startup failed" in figures["floor"]["reason"]
    assert "no disk" in figures["learning"]["reason"]
    assert all(path.is_file() for path in (file, file.with_suffix(".md"), file.with_suffix(".svg")))
