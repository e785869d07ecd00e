"""``openenv list``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def test_the_table_names_what_is_installed(openenv: Any) -> None:
    shown = openenv("list")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["name", "version", "description", "and", "folder"]
    for name in ("catch", "echo", "openspiel", "wordle"):
        assert any(line.split()[:1] == [name] for line in lines), shown.stdout
    assert "wordle_env" in shown.stdout


def test_json(openenv: Any) -> None:
    environments = {each["name"]: each for each in json.loads(openenv("list", "--json").stdout)}
    wordle = environments["wordle"]
    assert sorted(wordle) == ["description", "folder", "module", "name", "version"]
    assert wordle["module"] == "wordle_env"
    assert (Path(wordle["folder"]) / "openenv.yaml").is_file()


def test_a_narrow_terminal_loses_nothing() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "openenv.cli", "list"],
        capture_output=True,
        text=True,
        env={"COLUMNS": "40"},
        timeout=60,
    )
    assert "…" not in shown.stdout
    joined = "".join(shown.stdout.split())
    assert "envs/wordle_env" in joined


def test_without_any_environment_it_says_how_to_get_one() -> None:
    program = (
        "import sys, importlib.metadata as metadata\n"
        "metadata.entry_points = lambda **_: ()\nmetadata.distributions = lambda **_: ()\n"
        "sys.argv = ['openenv', 'list']\nfrom openenv.cli.__main__ import main\nmain()"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert shown.stdout.startswith("No environments are installed.")
    assert "openenv init my_env" in shown.stdout
