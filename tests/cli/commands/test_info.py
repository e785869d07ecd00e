"""``openenv info``."""

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.support.environment_folders import scaffold
from tests.support.public_folders import PUBLIC_FOLDERS

from openenv.core.providers.local_process import LocalProcessProvider


def test_an_environment_is_told_from_its_name(openenv: Any) -> None:
    shown = openenv("info", "wordle")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("wordle 0.")
    for heading in ("Action  WordleAction", "Observation  WordleObservation", "Reward", "End", "Reset", "Player"):
        assert heading in lines
    assert "  word  text  The word, in upper or lower case." in lines
    assert any(line.startswith("  word_length  3 to 9, by default 5  Letters of the secret word.") for line in lines)
    assert "Example  while `openenv serve wordle` runs" in lines
    assert "from wordle_env import WordleAction, WordleEnv" in lines
    assert lines[-1].startswith("wordle_env, in /")


def test_an_example_can_be_copied_from_a_narrow_terminal(openenv_here: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown = openenv_here("info", "openspiel").stdout
    assert max(map(len, shown.partition("Example")[0].splitlines())) <= 40
    example = shown[shown.index("from openspiel_env") :].rpartition("\n\n")[0]
    assert example == json.loads(openenv_here("info", "openspiel", "--json").stdout)["example"]


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[a](" * 100_000, "[a](b" * 100_000], ids=["texts", "links", "addresses"]
)
def test_links_of_a_stranger_that_never_end_take_no_time_beyond_their_length(
    openenv: Any, tmp_path: Any, text: str
) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "README.md").write_text(f"# My env\n\nAs in [this](https://example.org): {text}.\n")
    assert "As in this: [" in " ".join(openenv("info", folder).stdout.split())


def test_links_are_told_without_their_addresses(openenv_here: Any) -> None:
    lines = openenv_here("info", "openspiel").stdout.splitlines()
    assert lines[1].startswith("The games of OpenSpiel, from Catch to Go:")
    assert "](" not in "".join(lines)


def test_json_has_the_same(openenv_here: Any) -> None:
    told = json.loads(openenv_here("info", "catch", "--json").stdout)
    assert told["name"] == "catch"
    assert told["actions"][0]["fields"][0]["values"] == "left, stay or right"
    assert [field["name"] for field in told["reset"]] == ["seed", "episode_id"]


def test_another_world_s_environment_has_an_example_that_works(openenv: Any) -> None:
    shown = openenv("info", "gymnasium:CartPole-v1")
    assert shown.returncode == 0, shown.stderr
    assert "  action  0 to 1  A whole number from 0 to 1." in shown.stdout
    example = shown.stdout.partition("Example\n")[2]
    assert 'openenv.make("gymnasium:CartPole-v1")' in example
    exec(compile(example, "example", "exec"), {})


def test_a_running_server_is_told_from_what_it_publishes(openenv_here: Any) -> None:
    with LocalProcessProvider("echo") as server:
        server.wait_for_ready()
        url = server.base_url
        shown = openenv_here("info", url)
    assert "Action  EchoAction" in shown.stdout
    assert f'openenv.make("{url}")' in shown.stdout
    assert "env.step({'message': " in shown.stdout


def test_tools_that_are_made_at_run_time_are_asked_of_a_server(openenv: Any, tmp_path: Any) -> None:
    folder = PUBLIC_FOLDERS["notes_env"](tmp_path)
    assert "Its tools are made when it runs" in openenv("info", folder).stdout
    with LocalProcessProvider(folder) as server:
        server.wait_for_ready()
        shown = openenv("info", server.base_url)
    assert "Tool  write" in shown.stdout
    assert "Write a note and say how many there are." in shown.stdout


@pytest.mark.parametrize("name", PUBLIC_FOLDERS)
def test_public_folders_are_told_of(openenv: Any, tmp_path: Any, name: str) -> None:
    shown = openenv("info", PUBLIC_FOLDERS[name](tmp_path))
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(f"{name} 0.0.0\n")


def test_what_an_environment_prints_while_it_is_imported_is_kept_apart(openenv: Any, tmp_path: Any) -> None:
    folder = scaffold(tmp_path, "my_env")
    (folder / "models.py").write_text(f"print('loading')\n{(folder / 'models.py').read_text()}")
    shown = openenv("info", folder, "--json")
    assert json.loads(shown.stdout)["name"] == "my_env"
    assert shown.stderr == "loading\n"


def test_an_example_for_other_classes_is_replaced_by_one_that_works(openenv: Any, tmp_path: Any) -> None:
    folder = scaffold(tmp_path, "my_env")
    shown = openenv("info", folder.name)
    assert 'direction="right"' in (folder / "README.md").read_text()
    example = shown.stdout.partition("Example\n")[2].rpartition("\n\n")[0]
    assert "from my_env import MyAction\n" in example
    ended = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "echoed_message=" in ended.stdout


def test_a_folder_is_told_of(openenv: Any, tmp_path: Any) -> None:
    shown = openenv("info", scaffold(tmp_path, "my_env"))
    assert shown.stdout.splitlines()[0] == "my_env 0.1.0"
    assert "MyAction" in shown.stdout


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("wordel", "Did you mean wordle"),
        ("./nowhere", "There is no folder nowhere"),
        ("gymnasium:CartPoll-v1", "CartPole"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9/schema"),
    ],
)
def test_what_is_not_there_is_an_error_of_one_line(openenv_here: Any, target: str, said: str) -> None:
    shown = openenv_here("info", target)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
