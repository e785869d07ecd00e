"""``openenv collect`` as a person uses it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import write_files
from tests.support.models.model_server import ScriptedModel
from tests.support.servers import RunningServer, eventually
from tests.support.services.hub_server import HubServer

from openenv.auto.discovery import find_environment

OPENENV = [sys.executable, "-m", "openenv.cli"]


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_a_killed_collecting_goes_on(tmp_path: Path) -> None:
    """The whole way, in real processes: ``kill -9`` while episodes are written, and the same command again."""
    folder = tmp_path / "data"
    command = [*OPENENV, "collect", "catch", "--output", str(folder), "--sessions", "2", "--episodes"]
    file = folder / "episodes.jsonl"
    with subprocess.Popen([*command, "100000"], stdout=subprocess.DEVNULL) as process:
        eventually(lambda: file.is_file() and file.stat().st_size > 50_000, "some episodes")
        process.kill()
    written = file.read_bytes()
    count = written.count(b"\n") + 5
    shown = subprocess.run([*command, str(count)], capture_output=True, text=True, timeout=100, check=True)
    assert shown.stderr == ""
    assert f"{count} episodes, mean reward +1.000: {file}" in shown.stdout
    assert [line["index"] for line in lines_of(folder)] == list(range(count))
    assert file.read_bytes().startswith(written[: written.rfind(b"\n") + 1])


def test_a_mistake_is_one_line(openenv_here: Any, tmp_path: Path) -> None:
    served = ["--llm-endpoint", "http://x:1/v1"]
    for arguments, message in (
        (["catch", "--model", "./none"], "There is no folder ./none, and it is no id of a model on the Hub"),
        (["catch", "--model", "m", "--base-url", "http://x:1/v1"], "--base-url is the address of the environment's"),
        (["catch", "--model", "m", "--llm-endpoint", "x:1"], "Expected --llm-endpoint to be an address, as http://"),
        (["catch", "--model", "m", "--llm-port", "1"], "--llm-port 1 needs an address: give it with --llm-endpoint."),
        (["catch", "--model", "m", "--player", "random", *served], "Expected either a player or a model"),
        (["catch", "--model", "m", "--provider", "scripted"], "Expected either a player or a model"),
        (["catch", "--keep-losses", "--min-reward", "1"], "--keep-losses keeps every episode, and --min-reward does"),
        (["http://x:1", "--base-url", "http://y:1"], "The environment is an address, http://x:1, and its server has"),
        (["catch", "--reset", "seed=1"], "--reset 'seed=1': the seed is given with --seed."),
        (["catch", "--dataset-config", "{"], "--dataset-config '{': expected JSON, but"),
        (["catch", "--dataset-config", "[1]"], "--dataset-config '[1]': expected an object of JSON."),
        (
            ["catch", "--dataset-config", "{}", "--reset", "dataset_config=1"],
            "--reset has a dataset_config, and so has",
        ),
        (["no_such_environment"], "No environment is called 'no_such_environment'"),
    ):
        ended = openenv_here("collect", *arguments, "--output", tmp_path / "data")
        is_refused = message.startswith(("No environment", "There is no folder", "--base-url is the address"))
        assert ended.returncode == (2 if is_refused else 1), arguments
        assert message in ended.stderr
    assert not (tmp_path / "data").exists()


def test_episodes_that_a_limit_ends_are_kept_and_counted(openenv_here: Any, tmp_path: Path) -> None:
    shown = openenv_here("collect", "catch", "--max-answers", "2", "-n", "3", "--output", tmp_path / "data").stdout
    assert "3 episodes, mean reward +0.000" in shown
    assert "ended by max_answers: 3\n" in shown
    lines = lines_of(tmp_path / "data")
    assert [(line["cut_by"], line["length"], line["done"]) for line in lines] == [("max_answers", 2, False)] * 3


def test_a_server_that_runs_with_the_public_options(
    openenv_here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ENV says which environment it is, and brings its player and types; its server is at ``--base-url``."""
    folder, other = tmp_path / "data", tmp_path / "other"
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    model = ScriptedModel(lambda messages: "Hm.")
    with RunningServer(find_environment("catch").app()) as server, model.server:
        public = ["--base-url", server.url, "-n", 2, "--keep-losses"]
        ended = openenv_here("collect", "catch", *public, "-o", folder, "--provider", "scripted")
        assert "2 episodes, mean reward +1.000" in ended.stdout
        again = openenv_here("collect", "catch", *public, "--output-dir", folder, "--no-resume")
        assert (again.returncode, "--no-resume needs a new folder" in again.stderr) == (1, True)
        address, _, port = model.url.removesuffix("/v1").rpartition(":")
        endpoint = ["--model", "climber", "--llm-endpoint", address, "--llm-port", port, "--max-turns", 2]
        ended = openenv_here("collect", "unknown_game", *public, *endpoint, "--output-dir", other)
        assert ended.returncode == 0, ended.stderr
    assert [line["environment"] for line in lines_of(folder)] == ["catch", "catch"]
    assert [line["environment"] for line in lines_of(other)] == ["unknown_game", "unknown_game"]
    assert model.keys == {"a-key"}
    assert (folder / "traces.db").is_file()


def test_episodes_are_named_and_pushed_as_a_dataset(openenv_here: Any, hub: HubServer, tmp_path: Path) -> None:
    named = ["collect", "catch", "--output", tmp_path / "data", "--episode-id-prefix", "ep"]
    ended = openenv_here(*named, "-n", 2, "-H", "ada/catch", "--private")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"Pushed them to {hub.url}/datasets/ada/catch" in ended.stdout
    ended = openenv_here(*named, "-n", 3, "--push-to-hub", "ada/catch", "--commit-message", "One more")
    assert ended.returncode == 0, ended.stderr
    dataset = hub.dataset("ada/catch")
    assert dataset.private
    assert dataset.messages == ["Add 2 collected episodes", "One more"]
    pushed = [json.loads(line) for line in dataset.files["episodes.jsonl"].splitlines()]
    assert pushed == lines_of(tmp_path / "data")
    assert [line["episode_id"] for line in pushed] == ["ep-000000", "ep-000001", "ep-000002"]


def test_what_can_not_be_pushed_is_said_before_anything_is_played(
    openenv_here: Any, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    for options, message in (
        (["--private"], "--private is for --push-to-hub OWNER/NAME, which is not given."),
        (["--commit-message", "x"], "--commit-message is for --push-to-hub"),
        (["--push-to-hub", "catch"], "Expected OWNER/NAME, got 'catch'"),
        (["--push-to-hub", "ada/catch"], "Log in with `hf auth login`"),
    ):
        ended = openenv_here("collect", "catch", "--output", tmp_path / "data", *options)
        assert (ended.returncode, message in ended.stderr) == (1, True)
    assert not (tmp_path / "data").exists()
    assert hub.repos == {}


def test_a_dataset_config_is_passed_to_every_reset(openenv_here: Any, tmp_path: Path) -> None:
    folder = write_files(
        tmp_path / "sums_env",
        {
            "openenv.yaml": "name: sums_env\nenvironment: environment:Sums\naction: environment:Say",
            "__init__.py": "",
            "environment.py": """
                from openenv import Action, Environment, Observation, State


                class Say(Action):
                    text: str


                class Sums(Environment[Say, Observation, State]):
                    def reset(self, seed: int | None = None, size: int = 1, dataset_config: dict | None = None):
                        assert (size, dataset_config) == (3, {"min_terms": 2})
                        return Observation()

                    def step(self, action: Say) -> Observation:
                        return Observation(done=True, reward=1.0)

                    @property
                    def state(self) -> State:
                        return State()
                """,
        },
    )
    play = ["collect", folder, "--player", "random", "-n", 1, "--output", tmp_path / "data"]
    ended = openenv_here(*play, "--dataset-config", '{"min_terms": 2}', "--reset", "size=3")
    assert ended.returncode == 0, ended.stderr
    (line,) = lines_of(tmp_path / "data")
    assert line["task"]["dataset_config"] == {"min_terms": 2}


def test_a_least_reward_of_zero_is_one_too(openenv_here: Any, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    play = ["collect", "catch", "--player", "random", "-n", 8, "--output", folder]
    ended = openenv_here(*play, "--min-reward", 0)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((folder / "settings.json").read_text())["min_reward"] == 0
    left_out = [json.loads(line) for line in (folder / "left_out.jsonl").read_text().splitlines()]
    assert {line["reward"] for line in left_out} == {-1.0}


@pytest.mark.parametrize("option", ["--episodes", "--sessions", "--max-turns"])
def test_nothing_less_than_one(openenv_here: Any, option: str) -> None:
    ended = openenv_here("collect", "catch", "--output", "data", option, "0")
    assert ended.returncode == 2
    assert option in ended.stderr


def test_nonsense_is_warned_of_and_its_rule_is_on_record(openenv_here: Any, tmp_path: Path) -> None:
    model = ScriptedModel(lambda messages: "I like bananas.")
    with model.server:
        ended = openenv_here(
            "collect",
            "catch",
            "--model",
            "climber",
            "--llm-endpoint",
            model.url,
            "--form",
            "text",
            "-n",
            "4",
            "--min-reward",
            "1",
            "--output",
            tmp_path / "data",
            "--illegal-answers",
            "end",
            "--no-traces",
        )
    assert "0 episodes" in ended.stdout
    assert "illegal answers: 4 of 4, each ends its episode" in ended.stdout
    assert "100% of the answers were no legal action, most often 'I like bananas.' (4 times)" in " ".join(
        ended.stdout.split()
    )
    settings = json.loads((tmp_path / "data" / "settings.json").read_text())
    assert (settings["illegal_answers"], settings["fallback"], settings["lenient"]) == ("end", "stay", False)
