"""Scores before a training."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.servers import RunningServer

from openenv.records.scores import BEFORE, RANDOM, sampled
from openenv.train.agents.policy import make_policies
from openenv.train.run.environments import OpenRun, open_run
from openenv.train.run.scoring import score_before
from openenv.train.settings.config import TrainConfig


def shown(run: OpenRun) -> str:
    assert isinstance(run.console.file, StringIO)
    return run.console.file.getvalue()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_of_the_folder_are_shown_and_not_played_again(
    stairs_server: RunningServer, tmp_path: Path, temperature: float
) -> None:
    config = TrainConfig(
        environment=stairs_server.url,
        eval_episodes=3,
        eval_temperature=temperature,
        max_turns=3,
        steps=1,
        rollouts=4,
        group_size=4,
        output_dir=tmp_path,
        traces=False,
    )
    folder = config.make_folder("stairs")
    with open_run(config, folder, Console(file=StringIO(), width=100)) as run:
        policies = make_policies(config, run.sessions)
        score_before(run, policies)
    scores = folder.read_scores()
    assert list(scores) == [RANDOM, BEFORE, *([sampled(BEFORE)] if temperature else [])]
    first = shown(run)
    assert len(first.splitlines()) == len(scores)
    score_before(run, policies)  # the sessions are closed, so an episode would fail
    assert shown(run) == first * 2
    assert folder.read_scores() == scores
