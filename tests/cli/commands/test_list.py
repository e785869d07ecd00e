"""``openenv list``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold, write_files


def test_the_table_names_what_is_installed(openenv: Any) -> None:
    shown = openenv("list")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[1:3] == ["Installed", lines[2]]
    assert lines[2].split() == ["name", "version", "description", "and", "where", "it", "is"]
    for name in ("catch", "echo", "openspiel", "wordle"):
        assert any(line.split()[:1] == [name] for line in lines), shown.stdout
    assert "wordle_env" in shown.stdout
    assert "In folders here" not in shown.stdout
    assert "openenv info NAME_OR_FOLDER" in lines[-1]


def test_json(openenv_here: Any) -> None:
    environments = {each["name"]: each for each in json.loads(openenv_here("list", "--json").stdout)}
    wordle = environments["wordle"]
    assert sorted(wordle) == ["description", "folder", "install", "module", "name", "status", "version"]
    assert (wordle["module"], wordle["status"], wordle["install"]) == ("wordle_env", "installed", None)
    assert (Path(wordle["folder"]) / "openenv.yaml").is_file()


def test_folders_below_the_working_directory_are_listed(openenv: Any, tmp_path: Path) -> None:
    scaffold(tmp_path / "games" / "mine", "my_env")
    for passed_over in (".hidden", "node_modules", "a/b/c/too_deep"):
        scaffold(tmp_path / passed_over, "other_env")
    write_files(tmp_path / "broken_env", {"openenv.yaml": "name: [1]"})
    shown = openenv("list")
    lines = [line.rstrip() for line in shown.stdout.partition("In folders here")[2].splitlines()]
    assert [line.split()[0] for line in lines[2:] if line[:1].isalpha()][:1] == ["my_env"]
    assert any(line.strip() == "./games/mine/my_env" for line in lines)
    assert "other_env" not in shown.stdout
    facts = [each for each in json.loads(openenv("list", "--json").stdout) if each["status"] == "here"]
    assert [each["name"] for each in facts] == ["my_env"]


@pytest.mark.parametrize("columns", [25, 40])
def test_a_narrow_terminal_loses_nothing(columns: int) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "openenv.cli", "list"],
        capture_output=True,
        text=True,
        env={"COLUMNS": str(columns)},
        timeout=60,
    )
    assert "…" not in shown.stdout
    joined = "".join(shown.stdout.split())
    assert "envs/wordle_env" in joined


def test_without_any_environment_it_says_how_to_get_one() -> None:
    program = (
        "import sys, importlib.metadata as metadata\n"
        "metadata.entry_points = lambda **_: ()\n"
        "from openenv.auto import discovery\ndiscovery._public_distributions = lambda: ()\n"
        "sys.argv = ['openenv', 'list']\nfrom openenv.cli.__main__ import main\nmain()"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert shown.stdout.startswith("No environments are installed.")
    assert "openenv init my_env" in shown.stdout
    assert "In the catalog, not installed" in shown.stdout
    assert "pip install ./envs/wordle_env" in shown.stdout
