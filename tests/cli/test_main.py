"""The command as a whole: help, exit statuses, and what starting it costs."""

import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import openenv as package
from openenv.cli import __main__ as cli


def _described() -> list[tuple[str, Any]]:
    """Return every command and subcommand, by the words that run it."""
    named = [(name, cli.load_command(name)) for name in cli.COMMANDS]
    return named + [
        (f"{name} {part}", below) for name, group in named for part, below in getattr(group, "commands", {}).items()
    ]


def _help(*words: str, width: int = 80) -> str:
    ended = CliRunner().invoke(cli.app, [*words, "--help"], prog_name="openenv", terminal_width=width)
    assert ended.exit_code == 0
    return ended.output


def test_help_lists_every_command_under_its_heading(openenv: Any) -> None:
    shown = openenv("--help")
    assert shown.returncode == 0
    headings = dict.fromkeys(command.heading for command in cli.COMMANDS.values())
    assert list(headings) == ["Make", "Run", "Train", "Look", "Find", "Publish"]
    sections = shown.stdout.split("\n\n")
    for heading in headings:
        (section,) = [section for section in sections if section.startswith(f"{heading}:\n")]
        lines = [line.split(maxsplit=1) for line in section.splitlines()[1:]]
        assert lines == [[name, each.summary] for name, each in cli.COMMANDS.items() if each.heading == heading]


@pytest.mark.parametrize("width", [80, 120])
def test_the_help_of_every_command_fits_its_terminal(width: int) -> None:
    for words, _ in [("", None), *_described()]:
        for line in _help(*words.split(), width=width).splitlines():
            assert len(line) <= width, (words, line)


@pytest.mark.parametrize("width", [80, 120])
def test_the_help_is_easy_to_read(width: int) -> None:
    for words, command in _described():
        text = _help(*words.split(), width=width)
        assert not any(line.endswith("-") for line in text.splitlines()), (words, "a name or an address is broken")
        joined = " ".join(text.split("Arguments:")[-1].split())
        assert "] [" not in joined, (words, "two pairs of brackets")
        assert not re.search(r"env var: \w+;", joined), (words, "a variable before the default")
        assert not re.search(r"<\w|x>=|<=x|default: \.[;\]]", text), (words, "a type, bounds or a folder in signs")
        assert not re.search(r"^  -[^ ]+ path\b", text, re.MULTILINE), (words, "neither FILE nor FOLDER")
        for default in re.findall(r"\[default: [^\];]{1,30}\]", joined):
            assert default in text, (words, "a short default is broken")
        assert not re.search(r"[{}]|\.{4}|\[\[|default: \d+\.0[;\]]", text), words
        for argument in (each for each in command.params if each.param_type_name == "argument"):
            assert re.fullmatch(r"[A-Z_]+|k8s", argument.metavar), words
            assert re.search(rf"^  {argument.metavar} {{2,}}", text, re.MULTILINE), (words, "its type is shown too")


@pytest.mark.parametrize(("columns", "longest"), [(60, 58), (80, 78), (100, 98), (200, 98)])
def test_the_help_is_as_wide_as_its_terminal_up_to_a_hundred_columns(
    columns: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = cli.load_command("serve").make_context("serve", [], resilient_parsing=True).get_help()
    assert longest - 8 < max(map(len, shown.splitlines())) <= longest


def test_every_option_is_described_in_the_same_way() -> None:
    for words, command in _described():
        for parameter in command.params:
            described, _, details = parameter.help.partition("  [")
            label = (words, parameter.name, parameter.help)
            assert described.endswith("."), label
            assert not described.startswith(("What", "Who", "Where", "Which", "Whether", "How", "It", "A ", "The ")), (
                label
            )
            assert "default" not in described or not details.startswith("default"), label
            again = "may be given again." in described
            assert again is (parameter.param_type_name == "option" and parameter.multiple), label


def test_more_than_ten_options_stand_under_headings() -> None:
    for words, command in _described():
        shown = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
        sizes = Counter(each.rich_help_panel for each in shown)
        assert len(shown) <= 10 or (len(sizes) > 1 and max(sizes.values()) <= 12), (words, sizes)


def test_every_command_has_one_line_in_the_help_of_its_group_and_is_not_cut() -> None:
    for words, group in _described():
        if below := getattr(group, "commands", {}):
            section = _help(*words.split()).split("Commands:\n")[1]
            assert [line.split()[0] for line in section.splitlines()] == list(below)
            assert all(line.endswith(".") and not line.endswith("...") for line in section.splitlines())


@pytest.mark.parametrize(
    ("command", "options"),
    [("collect", ["--keep-losses"]), ("validate", ["--local"])],
)
def test_options_for_compatibility_alone_are_hidden(command: str, options: list[str]) -> None:
    known = {name for parameter in cli.load_command(command).params for name in parameter.opts}
    assert set(options) <= known
    assert not any(option in _help(command) for option in options)


def test_programs_run_it_as_a_typer_application() -> None:
    ended = CliRunner().invoke(cli.app, ["list", "--help"])
    assert ended.exit_code == 0
    assert "List the environments" in ended.output


@pytest.mark.parametrize("name", sorted(cli.COMMANDS))
def test_every_command_has_its_own_help_and_takes_h_for_it(openenv_here: Any, name: str) -> None:
    shown = openenv_here(name, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"Usage: openenv {name}" in shown.stdout
    assert openenv_here(name, "-h") == shown


def test_h_is_help_and_version_is_the_version(openenv_here: Any) -> None:
    assert openenv_here("-h").stdout == openenv_here("--help").stdout
    assert openenv_here("--version") == (0, f"openenv {package.__version__}\n", "")


def test_the_many_options_of_serve_stand_under_headings(openenv_here: Any) -> None:
    lines = openenv_here("serve", "--help").stdout.splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith((" ", "Usage"))]
    own = lines[lines.index("Options:") : lines.index("Sessions:")]

    assert headings[:5] == ["Arguments:", "Options:", "Sessions:", "Processes:", "Journal:"]
    assert sum(line.strip().startswith("-") for line in own) < 10
    assert any("--step-timeout-s" in line for line in lines[lines.index("Sessions:") : lines.index("Processes:")])


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("openenv ser", "serve"),
        ("openenv serve --max-sessions-", "--max-sessions-per-client"),
        ("openenv eval --player scr", "scripted"),
        ("openenv play catc", "catch"),
    ],
)
def test_a_shell_completes_commands_options_values_and_environments(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_OPENENV_COMPLETE": "complete_bash"}
    script = [sys.executable, "-m", "openenv.cli"]
    ended = subprocess.run(script, env={**os.environ, **words}, capture_output=True, text=True, timeout=60)
    assert (ended.stdout.split(), ended.stderr) == ([offered], "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_shown_for_the_shell_that_runs(shell: str, openenv_here: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    shown = openenv_here("--show-completion")
    assert shown.returncode == 0
    assert "_OPENENV_COMPLETE=" in shown.stdout


def test_no_command_shows_the_help_and_fails(openenv: Any) -> None:
    shown = openenv()
    assert shown.returncode == 2
    assert "Usage: openenv" in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["--bogus"], "--bogus"),
        (["init"], "ENV_NAME"),
        (["init", "a", "b"], "b"),
        (["serve", "--port", "many"], "--port"),
        (["serve", "--port", "70000"], "--port"),
        (["serve", "--log-level", "loud"], "--log-level"),
        (["serve", "--max-sessions", "0"], "--max-sessions"),
        (["play", "--seed", "x"], "--seed"),
    ],
)
def test_bad_usage_ends_with_2(openenv_here: Any, arguments: list[str], message: str) -> None:
    ended = openenv_here(*arguments)
    assert ended.returncode == 2
    assert message in ended.stderr


@pytest.mark.parametrize("command", ["serve", "play"])
def test_an_unknown_environment_is_one_line_and_ends_with_2(openenv: Any, command: str) -> None:
    ended = openenv(command, "no-such-environment")
    assert ended.returncode == 2
    assert ended.stderr.startswith("Error: No environment is called 'no-such-environment'")
    assert "Traceback" not in ended.stderr


def test_the_installed_script_is_the_same_command() -> None:
    script = Path(sys.executable).with_name("openenv")
    shown = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60)
    assert (shown.returncode, shown.stdout[:14]) == (0, "Usage: openenv")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("text", ["±0.5 ├─", '"größer 😀"', '"\ud83d"', "ascii alone"])
def test_output_of_any_encoding_takes_any_text(monkeypatch: pytest.MonkeyPatch, encoding: str, text: str) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding))
    monkeypatch.setattr(cli, "app", lambda **_: Console(soft_wrap=True).print(text, markup=False, emoji=False))
    cli.main()
    sys.stdout.flush()
    shown = written.getvalue().decode(encoding)
    assert json.loads(json.dumps(shown).replace(r"\\u", r"\u")) == f"{text}\n"
    assert "?" not in shown


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_a_command_ends_well_where_output_is_not_utf8(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "words.py").write_text(_GREETING, "utf-8")
    command = [sys.executable, "-m", "openenv.cli", "info", "words.py"]
    ended = subprocess.run(command, capture_output=True, cwd=tmp_path, env={**os.environ, **variables}, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"words" in ended.stdout


_GREETING = """
from openenv.core import Action, Environment, Observation, State

class Greeting(Environment[Action, Observation, State]):
    \"""Grüße — „größer“ ±😀.\"""

    def reset(self): return Observation()
    def step(self, action): return Observation()
    @property
    def state(self): return State()
"""


def test_help_loads_none_of_the_commands() -> None:
    program = (
        "import sys\nfrom openenv.cli.__main__ import main\nsys.argv = ['openenv', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "import json\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    loaded = set(json.loads(ended.stderr))
    assert not loaded & {"pydantic", "fastapi", "uvicorn", "websockets", "yaml", "rich.console", "asyncio", "torch"}
    ours = {name for name in loaded if name.startswith("openenv.cli.")}
    assert ours == {"openenv.cli.__main__", "openenv.cli.groups", "openenv.cli.loading"}
