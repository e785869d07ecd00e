"""What a run's recorder writes of the episodes that are trained on."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from openenv.core.client_types import StepResult
from openenv.records.lines import read_objects
from openenv.records.run_folder import RunFolder
from openenv.train.dataset.run_recorder import RunRecorder
from openenv.train.episodes.moves import Move
from openenv.train.episodes.played_episode import PlayedEpisode
from openenv.train.rollout.play import Play
from openenv.train.settings.config import TrainConfig
from openenv.train.spec.rollout_recorder import RolloutBatch


def folder_in(path: Path) -> RunFolder:
    folder = RunFolder(path)
    folder.config.write_text("environment: catch\n")
    return folder


def recorder_of(folder: RunFolder, *, traces: bool = True) -> RunRecorder:
    return RunRecorder(TrainConfig(environment="catch", traces=traces, traces_sample=1.0), folder)


def batch(step: int) -> RolloutBatch:
    play = Play({"seed": step, "episode_id": f"episode {step}"}, shown=lambda _: "seen")
    play.begin(StepResult(None))
    play.act([Move("up", {"move": "up"})])
    play.note(StepResult(None, reward=1.0, done=True))
    return RolloutBatch("", step, [play], [3], {"temperature": 1.0})


@pytest.mark.parametrize("traces", [True, False])
def test_each_step_is_a_line_and_an_evaluation_is_none(tmp_path: Path, *, traces: bool) -> None:
    folder = folder_in(tmp_path)
    recorder = recorder_of(folder, traces=traces)
    recorder.add(batch(1))
    recorder.add(replace(batch(2), evaluation="after training"))
    (played,) = batch(3).plays
    recorder.evaluation("after training", "", 3).add([(played, PlayedEpisode(0, played.episode, [], []))])
    recorder.add(batch(4))
    lines = read_objects(folder.rollouts)
    assert [(line["step"], line["environment"]) for line in lines] == [(1, ""), (4, "")]
    episode = {"group": 3, "task": {"seed": 4}, "reward": 1.0, "length": 1, "illegal_actions": 0}
    named = {"episode_id": "episode 4"} if traces else {}
    assert lines[1]["episodes"] == [{**named, **episode}]


def test_lines_that_cannot_be_written_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_in(tmp_path)
    folder.rollouts.mkdir()
    recorder = recorder_of(folder)
    with caplog.at_level(logging.WARNING):
        recorder.add(batch(1))
        recorder.add(batch(2))
    (message,) = caplog.messages
    assert message.startswith(f"{folder.rollouts} can't be written, so episodes may be missing: ")
