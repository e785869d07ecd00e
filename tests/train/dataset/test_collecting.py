"""Collecting episodes, of players and of a model behind an address, and training on what was collected."""

import json
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset  # type: ignore[import-untyped]
from pydantic import ValidationError
from rich.console import Console
from tests.support.dataset_folders import dataset_folder
from tests.support.environments.training import CRASHING_SEEDS, Climb, Stairs, StairsEnvironment
from tests.support.models.model_server import Answer, ScriptedModel, climb
from tests.support.servers import LegacyOnly, RunningServer
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from openenv import traces
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    ServerCapacityError,
)
from openenv.records.collection import Collection
from openenv.train.agents.tiny import build_model
from openenv.train.agents.tiny_tools import build_tool_tokenizer
from openenv.train.dataset.collecting import CollectResult, collect
from openenv.train.quiet import quiet_libraries
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import training_seeds


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    """A model that climbs stairs, after a nap."""
    scripted = ScriptedModel(climb)
    with scripted.server:
        yield scripted


def run(settings: PlaySettings, episodes: int, output: Path, **others: Any) -> CollectResult:
    return collect(settings, episodes, output, console=Console(file=StringIO()), **{"sessions": 4, **others})


def random_player(server: RunningServer, **settings: Any) -> PlaySettings:
    return PlaySettings(environment=server.url, player="random", **settings)


def test_a_players_episodes(stairs_server: RunningServer, tmp_path: Path) -> None:
    result = run(random_player(stairs_server), 10, tmp_path / "data")
    lines = result.collection.read()
    assert [line["index"] for line in lines] == list(range(10))
    assert [line["task"] for line in lines] == [{"seed": seed} for seed in training_seeds(1, 10)]
    assert (result.kept, result.below, result.failed) == (10, 0, 0)
    assert result.mean_reward == pytest.approx(sum(line["reward"] for line in lines) / 10)
    assert {line["tools"][0]["function"]["name"] for line in lines} == {"climb"}
    assert any(line["illegal_actions"] for line in lines)


@pytest.mark.parametrize("sessions", [1, 3, 16])
def test_the_same_settings_give_the_same_lines(stairs_server: RunningServer, tmp_path: Path, sessions: int) -> None:
    """However many episodes are played at once, and whether at one go or in several."""
    settings = random_player(stairs_server, form="text", seed=5)
    whole = run(settings, 7, tmp_path / "whole")
    run(settings, 2, tmp_path / "parts", sessions=sessions)
    parts = run(settings, 7, tmp_path / "parts", sessions=sessions)
    assert parts.collection.episodes.read_bytes() == whole.collection.episodes.read_bytes()
    others = run(random_player(stairs_server, form="text", seed=6), 7, tmp_path / "others")
    assert others.collection.episodes.read_bytes() != whole.collection.episodes.read_bytes()


def test_episodes_have_ids_that_begin_as_asked(stairs_server: RunningServer, tmp_path: Path) -> None:
    """In their lines and in the traces, also those that are played when a collecting goes on."""
    run(random_player(stairs_server), 2, tmp_path / "data", episode_id_prefix="run7")
    with pytest.raises(ConfigurationError, match="were played with episode_id_prefix 'run7', not None"):
        run(random_player(stairs_server), 4, tmp_path / "data")
    collection = run(random_player(stairs_server), 4, tmp_path / "data", episode_id_prefix="run7").collection
    ids = [f"run7-00000{number}" for number in range(4)]
    assert [line["episode_id"] for line in collection.read()] == ids
    with traces.open(collection.traces) as file:
        assert {record.episode.episode_id for record in file.records()} == set(ids)


def test_the_id_of_a_task_stays(stairs_server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"seed": 4, "episode_id": "mine"}\n{"seed": 1}\n')
    lines = run(random_player(stairs_server, tasks=str(file)), 2, tmp_path / "data", episode_id_prefix="ep")
    assert [line["episode_id"] for line in lines.collection.read()] == ["mine", "ep-000001"]


def test_only_good_episodes_are_kept(stairs_server: RunningServer, tmp_path: Path) -> None:
    everything = run(random_player(stairs_server, max_turns=3), 20, tmp_path / "all").collection.read()
    good = [line for line in everything if line["reward"] >= 0.75]
    assert 0 < len(good) < 20
    result = run(random_player(stairs_server, max_turns=3), 20, tmp_path / "good", min_reward=0.75)
    assert result.collection.read() == good
    assert (result.kept, result.below, result.failed) == (len(good), 20 - len(good), 0)
    again = run(random_player(stairs_server, max_turns=3), 20, tmp_path / "good", min_reward=0.75)
    assert again.kept == result.kept
    assert again.collection.read() == good, "nothing is left to play"
    with pytest.raises(ConfigurationError, match=r"were played with min_reward 0\.75, not None"):
        run(random_player(stairs_server, max_turns=3), 20, tmp_path / "good")


def test_tasks_come_from_a_file_over_and_over(stairs_server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"seed": 4}\n{"seed": 1}\n')
    result = run(random_player(stairs_server, tasks=str(file)), 5, tmp_path / "data")
    assert [line["task"]["seed"] for line in result.collection.read()] == [4, 1, 4, 1, 4]
    file.write_text('{"seed": 4}\n{"seed": 2}\n')
    with pytest.raises(ConfigurationError, match=r"Episode 1 .* was played with the task {'seed': 1}"):
        run(random_player(stairs_server, tasks=str(file)), 6, tmp_path / "data")


def test_tasks_are_rows_of_a_dataset(stairs_server: RunningServer, tmp_path: Path) -> None:
    rows = {"train": [{"seed": 4}, {"seed": 1}], "test": [{"seed": 9}]}
    words = dataset_folder(tmp_path / "words", rows=rows)
    result = run(random_player(stairs_server, tasks=f"{words}?split=train"), 3, tmp_path / "data")
    assert [line["task"] for line in result.collection.read()] == [{"seed": 4}, {"seed": 1}, {"seed": 4}]


def test_failed_episodes_are_noted_and_left_out(stairs_server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([{"seed": 0}, {"seed": CRASHING_SEEDS + 3}, {"seed": 0}, {"seed": 0}]))
    result = run(random_player(stairs_server, tasks=str(file)), 4, tmp_path / "data")
    assert (result.kept, result.below, result.failed) == (3, 0, 1)
    (failed,) = result.collection.read_left_out()
    assert failed["task"] == {"seed": CRASHING_SEEDS + 3}
    assert failed["reason"].startswith("the environment failed: ")


def test_a_models_episodes(stairs_server: RunningServer, model: ScriptedModel, tmp_path: Path) -> None:
    settings = PlaySettings(
        environment=stairs_server.url, model="climber", llm_endpoint=model.url, system_prompt="Climb.", temperature=0.5
    )
    first = run(settings, 3, tmp_path / "data")
    asked = len(model.requests)
    result = run(settings, 9, tmp_path / "data")
    lines = result.collection.read()
    assert first.kept == 3
    assert sorted(line["index"] for line in lines) == list(range(9))
    seeds = training_seeds(1, 9)
    assert all(line["task"] == {"seed": seeds[line["index"]]} for line in lines)
    # One answer for each action: those of the first three episodes were not played again.
    assert len(model.requests) - asked == sum(line["length"] for line in lines if line["index"] >= 3)
    assert {(line["illegal_actions"], line["done"]) for line in lines} == {(1, True)}
    assert [message["role"] for message in lines[0]["messages"][:4]] == ["system", "user", "assistant", "tool"]
    assert lines[0]["messages"][2]["tool_calls"][0]["function"]["arguments"] == {"move": "fall asleep"}
    assert model.requests[0]["temperature"] == 0.5


def test_a_model_that_is_not_there(stairs_server: RunningServer, model: ScriptedModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="The model sleeper does not exist"):
        run(PlaySettings(environment=stairs_server.url, model="sleeper", llm_endpoint=model.url), 3, tmp_path / "data")
    with pytest.raises(ConnectionFailedError):
        run(
            PlaySettings(environment=stairs_server.url, model="climber", llm_endpoint="http://127.0.0.1:9/v1"),
            3,
            tmp_path / "other",
        )


def test_a_model_may_move_to_another_address(
    stairs_server: RunningServer, model: ScriptedModel, tmp_path: Path
) -> None:
    fields: dict[str, Any] = {"environment": stairs_server.url, "model": "climber"}
    run(PlaySettings(**fields, llm_endpoint=model.url), 2, tmp_path / "data")
    with ScriptedModel(climb).server as other:
        assert run(PlaySettings(**fields, llm_endpoint=f"{other.url}/v1"), 4, tmp_path / "data").kept == 4


def test_a_lost_server_ends_the_work(tmp_path: Path) -> None:
    """What was not played for that is not noted as failed: it is left for another time."""
    # Without v1 a client does not wait for the server to come back.
    app: Any = LegacyOnly(create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=8))
    server = RunningServer(app)

    asked = count(1)

    def climb_until(messages: Sequence[Mapping[str, Any]]) -> Answer:
        if next(asked) == 12:
            server.stop()
        return climb(messages)

    lossy = ScriptedModel(climb_until)
    with lossy.server, server:
        settings = PlaySettings(environment=server.url, model="climber", llm_endpoint=lossy.url)
        with pytest.raises((ConnectionFailedError, ConnectionLostError)):
            run(settings, 50, tmp_path / "data", sessions=2)
    collection = Collection(tmp_path / "data")
    assert 0 < len(collection.read()) < 12
    assert collection.read_left_out() == []


def test_a_server_without_a_place_is_no_failing_environment(model: ScriptedModel, tmp_path: Path) -> None:
    app: Any = LegacyOnly(create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=1))
    with RunningServer(app) as server:
        settings = PlaySettings(environment=server.url, model="climber", llm_endpoint=model.url)
        with pytest.raises(ServerCapacityError):
            run(settings, 8, tmp_path / "data")
        assert run(settings, 8, tmp_path / "data", sessions=1).kept == 8


def test_a_server_without_a_scripted_player(stairs_server: RunningServer, tmp_path: Path) -> None:
    settings = PlaySettings(environment=stairs_server.url, player="scripted")
    with pytest.raises(ConfigurationError, match=r"no scripted player\. Choose --player random, or a model: --model"):
        run(settings, 3, tmp_path / "data")
    assert not (tmp_path / "data").exists(), "a mistake leaves no folder behind"


@pytest.mark.parametrize(
    "fields", [{}, {"player": "random", "model": "m"}, {"player": "random", "llm_endpoint": "x:1"}]
)
def test_settings_that_do_not_go_together(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"either a player or a model|no model is named"):
        PlaySettings(environment="catch", **fields)


def test_another_worlds_environment(tmp_path: Path) -> None:
    settings = PlaySettings(environment="gymnasium:FrozenLake-v1", player="random")
    result = run(settings, 3, tmp_path / "data", sessions=2)
    assert result.kept == 3
    assert result.collection.read()[0]["messages"][1]["tool_calls"]


def test_sft_trainer_takes_the_lines_as_they_are(stairs_server: RunningServer, tmp_path: Path) -> None:
    """Not only those of one environment: other tools, with other arguments, may stand beside them."""
    collection = run(random_player(stairs_server), 6, tmp_path / "stairs").collection
    other = collection.read()[0]
    parameters = {"type": "object", "properties": {"numbers": {"type": "array"}}}
    tool: dict[str, Any] = {"name": "add", "description": "Add.", "parameters": parameters}
    call = {"id": "call00000", "type": "function", "function": {"name": "add", "arguments": {"numbers": [1, "two"]}}}
    other["tools"] = [{"type": "function", "function": tool}]
    other["messages"] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    with collection.episodes.open("a") as file:
        file.write(json.dumps(other) + "\n")
    lines = collection.read()
    dataset = load_dataset(
        "json", data_files=str(collection.episodes), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert [row["messages"] for row in dataset] == [line["messages"] for line in lines]
    assert [row["tools"] for row in dataset] == [line["tools"] for line in lines]
    texts = [message["content"] for line in lines for message in line["messages"]]
    tokenizer = build_tool_tokenizer([line["tools"][0] for line in lines[-2:]], texts, values=[[1, "two"]])
    settings: dict[str, Any] = {"max_steps": 1, "use_cpu": True, "report_to": "none", "save_strategy": "no"}
    with quiet_libraries():
        arguments = SFTConfig(output_dir=str(tmp_path / "out"), **settings)
        trainer = SFTTrainer(build_model(tokenizer), args=arguments, train_dataset=dataset, processing_class=tokenizer)
        loss = trainer.train().training_loss
    prepared: Any = trainer.train_dataset
    shown = [tokenizer.decode(row["input_ids"]) for row in prepared]
    assert '{"name": "climb", "arguments": {"move": ' in shown[0]
    assert '{"name": "add", "arguments": {"numbers": [1, "two"]}}' in shown[-1]
    assert loss > 0


def test_resets_are_passed_more_under_the_tasks_own(stairs_server: RunningServer, tmp_path: Path) -> None:
    """Stairs end with their last step: how high they are is how often the agent has to climb."""
    lines = run(random_player(stairs_server, reset={"height": 1}), 4, tmp_path / "seeds").collection.read()
    assert [line["task"] for line in lines] == [{"height": 1, "seed": seed} for seed in training_seeds(1, 4)]
    assert all("of 1" in line["messages"][0]["content"] for line in lines)
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"seed": 1}\n{"seed": 2, "height": 2}\n')
    settings = random_player(stairs_server, tasks=str(file), reset={"height": 3})
    lines = run(settings, 2, tmp_path / "tasks").collection.read()
    assert [line["task"] for line in lines] == [{"height": 3, "seed": 1}, {"height": 2, "seed": 2}]
    with pytest.raises(ConfigurationError, match=r"were played with reset \{'height': 1\}, not None"):
        run(random_player(stairs_server), 4, tmp_path / "seeds")


def test_the_seed_is_no_parameter_of_all_resets() -> None:
    with pytest.raises(ValidationError, match="resets get their seeds from the tasks; leave out seed"):
        PlaySettings(environment="catch", player="random", reset={"seed": 1})
