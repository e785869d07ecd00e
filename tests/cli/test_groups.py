"""Commands as Typer applications, which programs run themselves."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click.testing
import pytest
import typer
from typer.testing import CliRunner

from openenv.cli.__main__ import app as whole
from openenv.cli.commands.catalog import discover
from openenv.cli.commands.discover import discover as discover_command
from openenv.cli.commands.skills import app as skills_app
from openenv.cli.commands.skills import skill_text, skills_add, skills_preview
from openenv.cli.groups import command_app, command_group
from openenv.core.exceptions import ConfigurationError, OpenEnvError, ProviderError, ServerError


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


def of_typer(app: typer.Typer, *words: object) -> tuple[int, str]:
    """Run an application by Typer's runner, and return its status and its output."""
    ended = CliRunner().invoke(app, [str(word) for word in words])
    return ended.exit_code, ended.output


def of_click(app: typer.Typer, *words: object) -> tuple[int, str]:
    """Run an application by click's runner, and return its status and its output."""
    command: click.Command = typer.main.get_command(app)  # type: ignore[assignment]  # Typer has its own copy of click
    ended = click.testing.CliRunner().invoke(command, [str(word) for word in words])
    return ended.exit_code, ended.output


RUNNERS = pytest.mark.parametrize("run", [of_typer, of_click])


@RUNNERS
@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["push", "{folder}"], 1, "holds no openenv.yaml"),
        (["push", "{folder}", "--count", "2", "--registry", "x"], 1, "--registry does not go with --count"),
        (["skills", "add", "--dest", "{folder}", "--claude"], 1, "leave out the agents"),
        (["init", "123_env"], 2, "not a valid Python identifier"),
        (["init", ""], 2, "cannot be empty"),
        (["validate", "{folder}", "--url", "http://localhost:1"], 1, "Cannot combine a local path argument with --url"),
        (["validate", "--url", "http://localhost:1", "--local"], 1, "--local checks a folder"),
        (["build", "{folder}"], 1, "openenv.yaml"),
        (["serve", "no-such-environment"], 2, "No environment is called 'no-such-environment'"),
        (["eval", "no-such-environment", "--player", "scripted"], 2, "No environment is called"),
        (["traces", "list", "{folder}"], 1, "{folder}"),
        (["info", "no-such-environment"], 2, "No environment is called"),
        (["import", "{folder}", "-n", "new_env", "-o", "{folder}"], 2, "{folder}"),
    ],
)
def test_why_a_command_failed_is_in_the_output_of_runners(
    run: Any, tmp_path: Path, words: list[str], status: int, said: str
) -> None:
    ended, output = run(whole, *(word.format(folder=tmp_path) for word in words))
    assert (ended, said.format(folder=tmp_path) in output) == (status, True), output
    assert "Error: " in output


@RUNNERS
def test_a_command_leaves_the_variables_of_the_program_that_runs_it(
    run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("OPENENV_DEBUG", raising=False)
    monkeypatch.setenv("OPENENV_DRAIN_S", "2")
    variables = os.environ.copy()
    first = run(whole, "serve", str(tmp_path), "--drain-s", "3", "--max-sessions", "4")
    assert first[0] == 2
    assert os.environ == variables
    assert run(whole, "serve", str(tmp_path)) == first, "no traceback, which a server's own setting would bring"


@RUNNERS
@pytest.mark.parametrize("error", [ProviderError("it died"), TimeoutError("slow"), PermissionError(13, "Denied")])
def test_errors_of_ours_and_of_the_system_are_one_line_and_end_with_1(run: Any, error: OpenEnvError | OSError) -> None:
    group = command_group("A group.")
    group.command("fail")(failing(error))
    group.command("pass")(lambda: None)
    for app, words in ((command_app("fail", failing(error)), []), (group, ["fail"])):
        assert run(app, *words) == (1, f"Error: {error}\n")


def test_a_program_that_runs_a_command_itself_gets_the_error(tmp_path: Path) -> None:
    command = typer.main.get_command(command_app("fail", failing(ConfigurationError("no"))))
    with pytest.raises(ConfigurationError, match="no"):
        command([], standalone_mode=False)


@RUNNERS
def test_with_debug_an_error_shows_its_traceback_and_its_details(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_DEBUG", "1")
    error = ServerError("kaboom", "EXECUTION_ERROR", {"traceback": "guess.py, line 3"})
    status, shown = run(command_app("fail", failing(error)))
    assert status == 1
    assert shown.startswith("Traceback (most recent call last)")
    assert shown.endswith(f"traceback:\nguess.py, line 3\nError: {error}\n")


def failing(error: OpenEnvError | OSError) -> Callable[[], None]:
    """Return a command that fails."""

    def fail() -> None:
        raise error

    return fail
