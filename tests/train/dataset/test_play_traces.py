"""Traces of what `collect` and `evaluate` play: both sides of an episode, in the folder, under one id."""

import logging
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from rich.console import Console
from tests.support.models.model_server import ScriptedModel, climb
from tests.support.servers import RunningServer

from openenv import traces
from openenv.core.exceptions import ConfigurationError
from openenv.records.collection import Collection
from openenv.traces import EpisodeRecord
from openenv.train.dataset.collecting import collect
from openenv.train.dataset.play_traces import PlayTraces
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.rollout.play import Play
from openenv.train.settings.play_settings import PlaySettings


def run(settings: PlaySettings, output: Path, episodes: int = 3, **others: Any) -> Collection:
    return collect(settings, episodes, output, console=Console(file=StringIO()), sessions=2, **others).collection


def records(collection: Collection) -> list[EpisodeRecord]:
    """The episodes on record, in the order of their numbers in the collection."""
    with traces.open(collection.traces) as file:
        found = list(file.records())
    return sorted(found, key=lambda record: conversation(record).extra["index"])


def conversation(record: EpisodeRecord) -> traces.Conversation:
    """The only conversation of an episode."""
    (only,) = record.conversations
    return only


@pytest.mark.level("process")
def test_the_started_server_and_the_player_record_one_episode(tmp_path: Path) -> None:
    collection = run(PlaySettings(environment="catch", player="scripted"), tmp_path / "data")
    lines = collection.read()
    recorded = records(collection)
    assert [record.episode.seed for record in recorded] == [str(line["task"]["seed"]) for line in lines]
    assert [record.episode.reward for record in recorded] == [line["reward"] for line in lines]
    for record, line in zip(recorded, lines, strict=True):
        said = conversation(record)
        assert record.episode.transport == "v1"
        assert len(record.entries) == 1 + line["length"]
        assert record.entries[0].request == {"episode_id": said.episode_id, **line["task"]}
        assert list(said.tools) == line["tools"]
        assert list(said.messages) == line["messages"][: len(said.messages)]
        assert (said.model, said.sampling, said.input_tokens) == ("scripted player", {}, None)
        assert said.took_s is not None
        assert said.took_s > 0
    assert len({record.episode.episode_id for record in recorded}) == 3


def test_each_episode_has_an_id_unless_its_task_has_one(tmp_path: Path) -> None:
    with PlayTraces(tmp_path / "traces.db", PlaySettings(environment="catch", player="scripted")) as recording:
        tasks: list[dict[str, Any]] = [{"episode_id": "mine"}, {"episode_id": None}, {}, {}]
        named = [recording.named(task)["episode_id"] for task in tasks]
    assert named[0] == "mine"
    assert all(isinstance(each, str) for each in named)
    assert len(set(named)) == 4


@pytest.mark.level("process")
def test_neither_side_records_what_is_left_out(tmp_path: Path) -> None:
    left_out = ("observation.ball", "action.move", "messages.content")
    settings = PlaySettings(environment="catch", player="scripted", traces_leave_out=left_out)
    (record, *_) = records(run(settings, tmp_path / "data"))
    assert record.entries[0].left_out == ["observation.ball"]
    assert [entry.request for entry in record.steps] == [{}] * len(record.steps)
    assert conversation(record).extra["left_out"] == ["messages.content", "action.move"]
    calls = [call for message in conversation(record).messages for call in message.get("tool_calls", ())]
    assert [call["function"]["arguments"] for call in calls] == [{}] * len(record.steps)


@pytest.mark.level("process")
def test_an_option_adds_to_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TRACES_LEAVE_OUT", "observation.ball")
    settings = PlaySettings(environment="catch", player="scripted", traces_leave_out=("messages",))
    (record,) = records(run(settings, tmp_path / "data", 1))
    assert record.entries[0].left_out == ["observation.ball"]
    assert conversation(record).extra["left_out"] == ["messages"]


def test_a_model_in_an_environment_elsewhere(stairs_server: RunningServer, tmp_path: Path) -> None:
    """The server there has traces of its own or none; here are the rewards and the conversation."""
    model = ScriptedModel(climb)
    settings = PlaySettings(
        environment=stairs_server.url, model="climber", llm_endpoint=model.url, temperature=0.5, max_turns=3
    )
    with model.server:
        evaluate(settings, tmp_path / "e", num_tasks=2, sessions=2, console=Console(file=StringIO()))
        requests = len(model.requests)
        evaluate(settings, tmp_path / "e", num_tasks=3, sessions=2, console=Console(file=StringIO()))
    collection = Collection(tmp_path / "e")
    recorded = records(collection)
    lines = sorted(collection.read(), key=lambda line: int(line["index"]))
    assert requests < len(model.requests)
    assert [record.episode.reward for record in recorded] == [line["reward"] for line in lines]
    assert [record.episode.seed for record in recorded] == [str(line["task"]["seed"]) for line in lines]
    assert [record.episode.ending == "done" for record in recorded] == [line["done"] for line in lines]
    assert {record.episode.environment for record in recorded} == {stairs_server.url}
    assert [record.entries for record in recorded] == [[], [], []]
    said = [conversation(record) for record in recorded]
    assert [len(each.messages) for each in said] == [1 + 2 * line["length"] for line in lines]
    answers = [line["length"] for line in lines]
    assert [each.output_tokens for each in said] == [5 * count for count in answers]
    assert [each.cost_usd for each in said] == pytest.approx([0.25 * count for count in answers])
    assert all(each.input_tokens for each in said)
    assert {(each.model, each.model_version) for each in said} == {("climber", "climber")}
    assert [each.sampling for each in said] == [{"temperature": 0.5}] * 3


def test_nothing_is_recorded_where_that_is_not_wanted(stairs_server: RunningServer, tmp_path: Path) -> None:
    settings = PlaySettings(environment=stairs_server.url, player="random", traces=False)
    collection = run(settings, tmp_path / "data")
    assert len(collection.read()) == 3
    assert not collection.traces.exists()
    run(settings.model_copy(update={"traces": True}), tmp_path / "data", episodes=4)
    assert len(records(collection)) == 1, "the same settings, so the folder is continued"


def test_traces_that_cannot_be_written_cost_no_episode(
    stairs_server: RunningServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = Collection(tmp_path / "data").traces
    file.parent.mkdir()
    file.write_text("no database")
    with caplog.at_level(logging.WARNING, "openenv.train.dataset.play_traces"):
        collection = run(PlaySettings(environment=stairs_server.url, player="random"), tmp_path / "data")
    assert len(collection.read()) == 3
    (message,) = [each.message for each in caplog.records if each.name == "openenv.train.dataset.play_traces"]
    assert message.startswith("the conversations of the following episodes are not recorded: The traces ")
    assert file.read_text() == "no database"


def test_what_a_model_wrote_need_be_no_text(tmp_path: Path) -> None:
    settings = PlaySettings(environment="http://localhost:1", player="random")
    call = {"type": "function", "function": {"name": "say", "arguments": {"text": "\ud83d"}}}
    messages = [{"role": "assistant", "content": "half: \ud83d", "tool_calls": [call]}]
    with PlayTraces(tmp_path / "traces.db", settings) as recording:
        play = Play(recording.named({"seed": 1}))
        recording.add([(play, PlayedEpisode(7, play.episode, messages, []))])
    with traces.open(tmp_path / "traces.db") as file:
        (record,) = file.records()
    assert record.episode.seed == "1"
    assert conversation(record).messages[0]["content"] == "half: ?"
    assert conversation(record).extra["index"] == 7


def test_the_file_stays_within_the_size_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TRACES_MAX_SIZE_MB", "1")
    settings = PlaySettings(environment="http://localhost:1", player="random")
    with PlayTraces(tmp_path / "traces.db", settings) as recording:
        for seed in range(10):
            play = Play(recording.named({"seed": seed}))
            text = Random(seed).randbytes(100_000).hex()  # which no compression makes small
            recording.add([(play, PlayedEpisode(seed, play.episode, [{"role": "user", "content": text}], []))])
    with traces.open(tmp_path / "traces.db") as file:
        left = [record.episode.seed for record in file.records()]
    assert 0 < len(left) < 10
    assert left == [str(seed) for seed in range(9, 9 - len(left), -1)], "the oldest ones go"


def test_no_server_writes_into_a_folder_that_holds_something_else(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("dear")
    settings = PlaySettings(environment="catch", player="scripted")
    with pytest.raises(ConfigurationError, match="is there already and holds no collection"):
        run(settings, tmp_path)
    with pytest.raises(ConfigurationError, match="is there already and holds no collection"):
        evaluate(settings, tmp_path, num_tasks=1, console=Console(file=StringIO()))
    assert [file.name for file in tmp_path.iterdir()] == ["letters.txt"]


def test_a_folder_with_traces_alone_as_after_a_kill_can_be_begun(stairs_server: RunningServer, tmp_path: Path) -> None:
    with traces.open(tmp_path / "traces.db", create=True):
        assert (tmp_path / "traces.db").exists()
    (tmp_path / "traces.db-wal").touch()
    assert len(run(PlaySettings(environment=stairs_server.url, player="random"), tmp_path).read()) == 3
