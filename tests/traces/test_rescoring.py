"""Stored episodes, scored by other rubrics."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.stored_episodes import of_a_failure, of_an_environment

from openenv import find_environment, make, traces
from openenv.core.rubrics import Rubric, TrajectoryRubric, WeightedSum
from openenv.traces import Filter


class Stays(Rubric):
    """Wants the paddle not to move."""

    def forward(self, action: Any, observation: Any) -> float:
        return 1.0 if action.move == "stay" else 0.0


class Low(Rubric):
    """Wants the ball low; counts what it has seen, so that a missing reset shows."""

    def __init__(self) -> None:
        self.seen = 0

    def forward(self, action: Any, observation: Any) -> float:
        self.seen += 1
        return float(observation.row / 10 + (self.seen > 9))

    def reset(self) -> None:
        self.seen = 0


class Whole(TrajectoryRubric):
    """Scores the end only."""

    def score_trajectory(self, trajectory: list[tuple[Any, Any]]) -> float:
        return len(trajectory) + float(trajectory[-1][1].reward)

    def compute_step_rewards(self) -> list[float]:
        return []


async def awaited(action: Any, observation: Any) -> int:
    return 2


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "traces.db"
    with make("catch", traces=path).sync() as client:
        for seed in (1, 2):
            player = find_environment("catch").make_player(seed)
            assert player is not None
            result = client.reset(seed=seed)
            while not result.done:
                result = client.step(player(result.observation))
    return path


def test_scores_are_stored_beside_the_rewards_under_the_rubrics_name(file: Path) -> None:
    with traces.open(file) as opened:
        before = {episode.id: episode.reward for episode in opened.episodes()}
        rubric = WeightedSum([Stays(), Low()], [0.5, 0.5])
        given = dict(traces.rescore(opened, rubric, "mixed"))
        assert traces.rescore(opened, Whole()) != traces.rescore(opened, awaited)
        assert {episode.id: episode.reward for episode in opened.episodes()} == before
        for name in before:
            scores = {score.name: score for score in opened.scores(name)}
            assert sorted(scores) == ["Whole", "awaited", "mixed"]
            assert scores["mixed"] == given[name]
            stays = [entry.request["move"] == "stay" for entry in opened.record(name).steps]
            rows = [entry.observation["row"] / 10 for entry in opened.record(name).steps]
            assert scores["mixed"].rewards == pytest.approx(
                [0.5 * s + 0.5 * r for s, r in zip(stays, rows, strict=True)]
            )
            assert scores["mixed"].components == pytest.approx({"rubric_0": sum(stays), "rubric_1": sum(rows)})
            assert scores["Whole"].rewards == [0.0] * 8 + [9 + (before[name] or 0)]
            assert scores["awaited"].reward == 18


def test_an_environment_that_is_not_installed_is_scored_by_its_fields(tmp_path: Path) -> None:
    with traces.open(tmp_path / "traces.db", create=True) as opened:
        for record in (of_an_environment(), of_a_failure()):
            opened.add(record.episode, record.entries)
        given = traces.rescore(opened, lambda action, shown: shown.ball + shown.reward, "ball", Filter(min_reward=0.0))
        assert [(score.reward, score.rewards) for _, score in given] == [(3.0, [3.0])]
        failed = traces.rescore(opened, Stays(), where=Filter(max_reward=None, ending="closed"))
        assert [score.rewards for _, score in failed] == [[]]


def test_a_rubric_that_fails_is_named_with_its_step(file: Path) -> None:
    def broken(action: Any, observation: Any) -> float:
        raise ZeroDivisionError("no")

    with traces.open(file) as opened, pytest.raises(ZeroDivisionError) as caught:
        traces.rescore(opened, broken)
    assert any("while the rubric broken scored step 1 of 1-" in note for note in caught.value.__notes__)
