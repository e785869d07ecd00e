"""A comparison of rollouts as a reward function, for both of TRL's ways."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.rubrics.test_group_judge import by_length
from tests.support.models.judge_server import JudgeServer
from tests.support.servers import RunningServer

from openenv.core.exceptions import ConfigurationError
from openenv.core.rubrics import GroupJudge, VerdictError
from openenv.train import EnvSpec, GroupReward


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgeServer]:
    judge = JudgeServer(by_length)
    with judge.server:
        yield judge


def test_episodes_of_a_group_are_compared(stairs_server: RunningServer, judge: JudgeServer, tmp_path: Path) -> None:
    logged: dict[str, float] = {}
    moves = [["up", "wait"], ["up", "up"], ["wait"], ["wait"]]
    with EnvSpec(stairs_server.url) as spec:
        games: list[Any] = [spec.environment_factory() for _ in moves]
        for game, own in zip(games, moves, strict=True):
            game.reset(seed=3)
            for move in own:
                game.climb(move)
        reward = GroupReward(GroupJudge(judge.client()), record=tmp_path / "judge.jsonl")
        prompts = ["a", "a", "b", "b"]
        scores = reward(prompts=prompts, environments=games, log_metric=logged.__setitem__)
    assert scores == [0.0, 0.1, None, None], "those of the second group are the same"
    assert logged["episode/group_reward"] == pytest.approx(0.05)
    assert logged["episode/independent_reward"] > 0
    assert "environment: step of 4" in judge.prompts[-1]
    lines = [json.loads(line) for line in (tmp_path / "judge.jsonl").read_text().splitlines()]
    assert [line["scores"] for line in lines if line["exchanges"]] == [[0.0, 0.1]]


def test_texts_are_compared_and_failed_episodes_are_not(judge: JudgeServer) -> None:
    reward = GroupReward(GroupJudge(judge.client()))
    assert reward(prompts=["a"] * 3, completions=["up", "down", "up up"]) == [0.1, 0.0, 0.2]
    failed = reward(prompts=["a"] * 3, completions=["up", "down", "up up"], environment_reward=[1.0, None, 0.0])
    assert failed == [0.1, None, 0.2]


def test_a_judge_that_fails_ends_the_training_or_its_groups_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    judge = JudgeServer(lambda prompt: "Hm." if "agent: c" in prompt else by_length(prompt))
    batch: dict[str, Any] = {"prompts": ["a", "a", "b", "b"], "completions": ["up", "down", "c", "d"]}
    with judge.server:
        with pytest.raises(VerdictError, match="Expected one object of JSON"):
            GroupReward(GroupJudge(judge.client()))(**batch)
        assert GroupReward(GroupJudge(judge.client()), on_error="skip")(**batch) == [0.1, 0.0, None, None]
    assert "A group of 2 episodes has no reward: Expected one object" in caplog.text
    with pytest.raises(ConfigurationError, match="'raise' or 'skip'"):
        GroupReward(GroupJudge(judge.client()), on_error="ignore")  # type: ignore[arg-type]
