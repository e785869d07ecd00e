"""Traces of a training's rollouts: both sides of an episode, bounded, and never at the cost of the run."""

import logging
import sqlite3
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.servers import RunningServer
from transformers import TrainerCallback

from openenv import traces
from openenv.core.client_types import StepResult
from openenv.records.lines import read_objects
from openenv.records.run_folder import RunFolder
from openenv.train.agents.player_agent import form_of
from openenv.train.dataset.recorded import recorded_episodes
from openenv.train.dataset.rollout_traces import RolloutTraces, RunRecorder
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.forms.moves import Move
from openenv.train.rollout.play import Play
from openenv.train.rollout.rollout_recorder import RolloutBatch
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.training import resume, train
from openenv.train.settings.config import TrainConfig

SMALL: dict[str, Any] = {
    "environment": "catch",
    "steps": 3,
    "rollouts": 8,
    "group_size": 4,
    "eval_episodes": 2,
    "eval_temperature": 0,
    "checkpoint_every": 1,
    "traces_sample": 1.0,
}


def run(folder: Path, name: str, callbacks: tuple[TrainerCallback, ...] = (), **others: Any) -> RunFolder:
    config = TrainConfig(**{**SMALL, **others}, output_dir=folder, name=name)
    return train(config, Console(file=StringIO()), callbacks).folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("runs"), "recorded")


def test_fields_are_left_out_on_both_sides(tmp_path: Path) -> None:
    folder = run(tmp_path, "less", steps=1, traces_leave_out=["observation.ball", "tokens"])
    with traces.open(folder.traces) as file:
        played = [record for record in file.records() if record.conversation is not None]
        assert {record.episode.is_evaluation for record in played} == {True, False}
        for record in played:
            assert record.entries[0].left_out == ["observation.ball"]
            assert [each.completion_ids for each in record.conversations] == [()]


def by_step(folder: RunFolder) -> dict[int, list[traces.EpisodeRecord]]:
    """The recorded rollouts of each step, in the order in which they were played."""
    found: dict[int, list[traces.EpisodeRecord]] = {}
    with traces.open(folder.traces) as file:
        for record in file.records():
            if record.conversation is not None and not record.episode.is_evaluation:
                found.setdefault(record.conversation.extra["step"], []).append(record)
    for records in found.values():
        records.sort(key=lambda record: record.conversation.extra["index"] if record.conversation else 0)
    return found


def timeless(folder: RunFolder) -> list[dict[str, Any]]:
    return [{**row, "step_time": 0} for row in folder.read_metrics()]


def test_the_server_and_the_rollouts_record_one_episode(recorded: RunFolder) -> None:
    steps = by_step(recorded)
    assert {step: len(records) for step, records in steps.items()} == {1: 8, 2: 8, 3: 8}
    with traces.open(recorded.traces) as file:
        assert file.count(traces.Filter(evaluation=False)) == 24
    lines = {line["step"]: line for line in read_objects(recorded.rollouts)}
    for row in recorded.read_metrics():
        records, noted = steps[row["step"]], lines[row["step"]]["episodes"]
        assert [note["episode_id"] for note in noted] == [record.episode.episode_id for record in records]
        assert [note["reward"] for note in noted] == [record.episode.reward for record in records]
        assert sum(note["reward"] for note in noted) / 8 == pytest.approx(row["episode/reward"])
        assert [note["group"] for note in noted] == [0] * 4 + [1] * 4
        for record, note in zip(records, noted, strict=True):
            assert_whole(record, note, row["step"])


def assert_whole(record: traces.EpisodeRecord, note: dict[str, Any], step: int) -> None:
    said = record.conversation
    assert said is not None
    assert record.entries[0].request == {"episode_id": record.episode.episode_id, **note["task"]}
    assert len(record.steps) == note["length"] == (len(said.messages) - 1) / 2
    assert said.token_texts.keys() == set(map(str, (*said.prompt_ids, *said.completion_ids)))
    assert (said.model, said.model_version) == ("tiny", f"step {step - 1}")
    assert said.sampling["temperature"] == 1.0
    assert len(said.completion_ids) == len(said.logprobs) == len(said.env_mask)
    assert said.output_tokens == sum(said.env_mask) == note["length"]
    assert said.input_tokens == len(said.prompt_ids) + len(said.completion_ids) - note["length"]
    assert all(logprob < 0 for logprob, mask in zip(said.logprobs, said.env_mask, strict=True) if mask)
    assert said.took_s is not None
    assert said.took_s > 0
    assert (said.extra["reward"], said.extra["group"]) == (note["reward"], note["group"])


def test_a_run_without_traces_learns_the_same(recorded: RunFolder, tmp_path: Path) -> None:
    folder = run(tmp_path, "bare", traces=False)
    assert timeless(folder) == timeless(recorded)
    assert not folder.traces.exists()
    notes = [[note.pop("episode_id", None) for note in line["episodes"]] for line in read_objects(folder.rollouts)]
    assert notes == [[None] * 8] * 3


def test_evaluations_are_on_record_apart_from_what_was_trained_on(recorded: RunFolder) -> None:
    with traces.open(recorded.traces) as file:
        records = list(file.records(traces.Filter(evaluation=True)))
        assert {task.episodes for task in traces.tasks(file)} == {4}, "evaluations are no group that is learned from"
        every = traces.Filter(evaluation=True)
        assert {task.episodes for task in traces.tasks(file, every)} == {4}, "four players, two tasks"
    rewards: dict[str, list[float | None]] = {}
    for record in records:
        said = record.conversation
        assert said is not None
        assert record.episode.steps == len(record.steps) == (len(said.messages) - 1) / 2
        assert sum(said.env_mask) == (record.episode.steps if said.model == "tiny" else 0)
        rewards.setdefault(said.extra["evaluation"], []).append(record.episode.reward)
    players = {"before training, greedy": "before training", "after training, greedy": "after training"}
    scores = {name: sorted(score.rewards) for name, score in recorded.read_scores().items()}
    assert {
        players.get(name, name): sorted(each, key=lambda value: value or 0) for name, each in rewards.items()
    } == scores
    versions = {(said.model, said.model_version) for record in records if (said := record.conversation) is not None}
    assert versions == {("random player", None), ("scripted player", None), ("tiny", "step 0"), ("tiny", "step 3")}


def test_tasks_keep_ids_of_their_own_in_evaluations_too(tmp_path: Path) -> None:
    with RolloutTraces(tmp_path / "traces.db", "tiny", {"": "catch"}) as recorder:
        evaluation = recorder.evaluation("after training", "", 3)
        assert evaluation.named({"episode_id": "mine", "seed": 1}) == {"episode_id": "mine", "seed": 1}
        for task in ({}, {"episode_id": None}):
            named = [recording.named(task)["episode_id"] for recording in (evaluation, evaluation, recorder, recorder)]
            assert [each.startswith("evaluation-") for each in named] == [True, True, False, False]
            assert len(set(named)) == 4
            assert all(named)
        assert recorder.named({"episode_id": "mine"}) == {"episode_id": "mine"}
    nothing = RolloutTraces(tmp_path / "nothing.db", "tiny", {"": "catch"}, share=0.0)
    assert nothing.evaluation("after training", "", 3).named({"episode_id": "mine"}) == {"episode_id": "mine"}


def test_evaluations_are_not_learned_from_unless_they_are_named(recorded: RunFolder, tmp_path: Path) -> None:
    for to in ("messages", "parquet"):
        assert traces.export(recorded.traces, tmp_path / to, to) == 24
    assert traces.export(recorded.traces, tmp_path / "all.jsonl", "jsonl") == 32
    assert traces.export(recorded.traces, tmp_path / "own.parquet", "parquet", traces.Filter(evaluation=True)) == 8
    with Sessions.open("catch", 1) as sessions:
        assert len(list(recorded_episodes(recorded.traces, "catch", form_of(sessions)))) == 24


class Interruption(TrainerCallback):
    """Stops the process, as Ctrl-C does, in the second step."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 1:
            raise KeyboardInterrupt


def test_a_resumed_run_appends_and_both_sides_record_the_same_share(recorded: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "cut", (Interruption(),), traces_sample=0.5)
    resumed = resume(tmp_path / "cut", Console(file=StringIO())).folder
    assert timeless(resumed) == timeless(recorded)
    lines = read_objects(resumed.rollouts)
    assert [line["step"] for line in lines] == [1, 2, 3]
    named = {note["episode_id"] for line in lines for note in line["episodes"] if "episode_id" in note}
    on_record = {record.episode.episode_id for records in by_step(resumed).values() for record in records}
    assert on_record == named
    assert 0 < len(named) < 24


def test_a_file_that_cannot_be_used_costs_the_traces_and_not_the_run(
    stairs_server: RunningServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"environment": stairs_server.url, "max_turns": 4, "fallback": "up"}
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "damaged", (Interruption(),), **settings)
    folder = RunFolder(tmp_path / "damaged")
    folder.traces.write_text("no database")
    with caplog.at_level(logging.WARNING, "openenv.train.dataset.rollout_traces"):
        resume(folder.path, Console(file=StringIO()))
    (message,) = [each.message for each in caplog.records if each.name == "openenv.train.dataset.rollout_traces"]
    assert message.startswith("the episodes of this training are not recorded: The traces ")
    assert folder.traces.read_text() == "no database"
    assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3]


def batch(step: int) -> RolloutBatch:
    play = Play({"seed": step, "episode_id": f"episode {step}"}, shown=lambda _: "seen")
    play.begin(StepResult(None))
    play.messages = [{"role": "user", "content": "seen"}, {"role": "assistant", "content": "half: \ud83d"}]
    play.act([Move("half: \ud83d", {"move": "up"})])
    play.note(StepResult(None, reward=1.0, done=True))
    return RolloutBatch("", step, [play], [0], {"temperature": 1.0})


def test_a_file_that_is_locked_for_a_while_costs_the_traces_of_that_while(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "traces.db"
    with caplog.at_level(logging.WARNING), RolloutTraces(file, "tiny", {"": "http://localhost:1"}) as recording:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        recording.add(batch(1))
        until = time.monotonic() + 120
        while not caplog.messages and time.monotonic() < until:
            time.sleep(0.05)
        other.execute("ROLLBACK")
        other.close()
        recording.add(batch(2))
    lost, written = caplog.messages
    assert lost.startswith("the traces can't be written, so conversations may not be on record: ")
    assert written == f"the traces {file} are written again; they lack 1 conversations"
    with traces.open(file) as opened:
        (record,) = opened.records()
    assert record.episode.episode_id == "episode 2"
    assert record.conversation is not None
    assert [message["content"] for message in record.conversation.messages] == ["seen", "half: ?"]


def test_a_batch_that_cannot_be_written_costs_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "traces.db"
    with caplog.at_level(logging.WARNING), RolloutTraces(file, "tiny", {"": "http://localhost:1"}) as recording:
        recording.add(replace(batch(1), environment="unknown"))
        recording.add(batch(2))
    lost, written = caplog.messages
    assert lost == "a batch of episodes can't be written, so conversations may not be on record"
    assert "KeyError: 'unknown'" in caplog.text
    assert written == f"the traces {file} are written again; they lack 1 conversations"
    with traces.open(file) as opened:
        assert [record.episode.episode_id for record in opened.records()] == ["episode 2"]


def test_too_many_episodes_at_once_are_dropped_and_never_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "traces.db"
    with caplog.at_level(logging.WARNING), RolloutTraces(file, "tiny", {"": "http://localhost:1"}) as recording:
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        for step in range(20):
            recording.add(batch(step))
        other.execute("ROLLBACK")
        other.close()
    assert "are written too slowly" in caplog.messages[0]
    assert "lack the conversations of" in caplog.messages[-1]
    with traces.open(file) as opened:
        assert 8 <= opened.count() < 20


def recorder_of(folder: RunFolder, *, has_traces: bool = True) -> RunRecorder:
    return RunRecorder(TrainConfig(environment="catch", traces=has_traces, traces_sample=1.0), folder)


@pytest.mark.parametrize("has_traces", [True, False])
def test_each_step_is_a_line_and_an_evaluation_is_none(tmp_path: Path, *, has_traces: bool) -> None:
    folder = RunFolder(tmp_path)
    recorder = recorder_of(folder, has_traces=has_traces)
    recorder.add(batch(1))
    recorder.add(replace(batch(2), evaluation="after training"))
    (played,) = batch(3).plays
    recorder.evaluation("after training", "", 3).add([(played, PlayedEpisode(0, played.episode, [], []))])
    recorder.add(batch(4))
    lines = read_objects(folder.rollouts)
    assert [(line["step"], line["environment"]) for line in lines] == [(1, ""), (4, "")]
    episode = {"group": 0, "task": {"seed": 4}, "reward": 1.0, "length": 1, "illegal_actions": 0}
    named = {"episode_id": "episode 4"} if has_traces else {}
    assert lines[1]["episodes"] == [{**named, **episode}]


def test_lines_that_cannot_be_written_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = RunFolder(tmp_path)
    folder.rollouts.mkdir()
    recorder = recorder_of(folder)
    with caplog.at_level(logging.WARNING):
        recorder.add(batch(1))
        recorder.add(batch(2))
    (message,) = caplog.messages
    assert message.startswith(f"{folder.rollouts} can't be written, so episodes may be missing: ")
