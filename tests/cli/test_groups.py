"""Commands as Typer applications, which programs run themselves."""

from importlib import import_module
from pathlib import Path

import pytest
from typer.testing import CliRunner

from openenv.cli.commands.catalog import discover
from openenv.cli.commands.discover import discover as discover_command
from openenv.cli.commands.skills import app as skills_app
from openenv.cli.commands.skills import skill_text, skills_add, skills_preview


@pytest.mark.parametrize("name", ["build", "collect", "fork", "init", "push", "serve"])
def test_a_single_command_is_an_application(name: str) -> None:
    module = import_module(f"openenv.cli.commands.{name}")
    shown = CliRunner().invoke(module.app, ["--help"], prog_name=name, terminal_width=200)
    assert shown.exit_code == 0
    assert shown.output.startswith(f"Usage: {name} [OPTIONS]")
    assert getattr(module, name).__doc__.partition("\n")[0] in shown.output


def test_a_program_runs_a_command_by_its_application(tmp_path: Path) -> None:
    init = import_module("openenv.cli.commands.init")
    ended = CliRunner().invoke(init.app, ["some_env", "--output-dir", str(tmp_path)])
    assert ended.exit_code == 0, ended.output
    assert (tmp_path / "some_env" / "openenv.yaml").is_file()


def test_functions_of_groups_have_the_public_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert discover is discover_command
    skills_preview()
    assert capsys.readouterr().out == skill_text()
    skills_add(destination=tmp_path)
    assert (tmp_path / "openenv-cli" / "SKILL.md").read_text(encoding="utf-8") == skill_text()
    assert CliRunner().invoke(skills_app, ["preview"]).output == skill_text()
