"""Runs that learn from components of the reward."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support.environments.graded import GradedWalk, ShortWalk, Spot
from tests.support.servers import RunningServer

from openenv.core.env_server import create_fastapi_app
from openenv.core.exceptions import ConfigurationError
from openenv.records.scores import Score
from openenv.train.run.components import check_components, component_rewards, weighted_rewards
from openenv.train.run.training import train
from openenv.train.settings.config import TrainConfig, load_config


@pytest.fixture(scope="module")
def walk_url() -> Iterator[str]:
    with RunningServer(create_fastapi_app(GradedWalk, ShortWalk, Spot, max_concurrent_envs=8)) as server:
        yield server.url


def score(**components: float) -> Score:
    return Score(0.0, 0.0, 1.0, 0.0, 1, None, [], reward_components=components)


def config(**components: float) -> TrainConfig:
    return TrainConfig(environment="walk", reward_components=components, illegal_penalty=0.5)


def test_a_run_learns_from_each_component_by_itself(walk_url: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"rollouts": 8, "group_size": 4, "steps": 3, "max_turns": 4, "eval_episodes": 4}
    learned = TrainConfig(
        environment=walk_url, output_dir=tmp_path, reward_components={"stride": 0.1, "arrival": 1.0}, **settings
    )
    result = train(learned, Console(file=StringIO()))
    rows = result.folder.read_metrics()
    assert [row["step"] for row in rows] == [1, 2, 3]
    for row in rows:
        for name in ("stride", "arrival"):
            assert row[f"rewards/{name}/mean"] == pytest.approx(row[f"episode/reward_components/{name}"])
        weighted = 0.1 * row["rewards/stride/mean"] + row["rewards/arrival/mean"]
        assert row["reward"] == pytest.approx(weighted - 0.1 * row["rewards/illegal_actions/mean"])
    assert load_config(result.folder.config) == learned
    assert "arrival" in result.folder.report.read_text()


def test_a_component_that_is_misspelt_ends_the_run_before_anything_is_scored(walk_url: str, tmp_path: Path) -> None:
    settings = TrainConfig(
        environment=walk_url, output_dir=tmp_path / "runs", rollouts=8, reward_components={"arival": 1.0}
    )
    shown = StringIO()
    with pytest.raises(ConfigurationError, match=r"a score of 'arival'\. Did you mean 'arrival'\? .*: stride, arrival"):
        train(settings, Console(file=shown))
    assert shown.getvalue() == ""
    assert not (tmp_path / "runs").exists()


def test_a_component_that_nothing_is_like_is_refused_after_the_evaluations(walk_url: str, tmp_path: Path) -> None:
    settings = TrainConfig(
        environment=walk_url, output_dir=tmp_path, rollouts=8, eval_episodes=2, reward_components={"luck": 1.0}
    )
    shown = StringIO()
    with pytest.raises(ConfigurationError, match=r"a score of 'luck'\. Components with scores: stride, arrival"):
        train(settings, Console(file=shown))
    assert "before training" in shown.getvalue()


def test_what_no_episode_has_is_refused() -> None:
    check_components(config(answer=1.0), {"random": score(), "scripted": score(answer=0.0)})
    with pytest.raises(ConfigurationError, match="Components with scores: none, so the environment may have no rubric"):
        check_components(config(answer=1.0), {"random": score()})
    check_components(config(), {})


def test_what_is_learned_from_is_the_weighted_sum() -> None:
    fields: dict[str, list[Any]] = {
        "environment_reward": [1.0, None, 0.0],
        "reward_components": [{"format": 1.0, "other": 9.0}, {"format": 1.0}, {"answer": 0.5}],
        "illegal_actions": [0, 0, 2],
    }
    assert weighted_rewards(config(format=0.25, answer=2.0), fields) == [0.25, None, 0.0]


def test_there_is_a_function_for_each_and_one_for_illegal_actions() -> None:
    seen: list[Any] = []
    functions, weights = component_rewards(config(format=0.25, answer=2.0), lambda **given: seen.append(given))
    assert [function.__name__ for function in functions] == ["format", "answer", "illegal_actions"]
    assert weights == [0.25, 2.0, -0.5]
    batch = {"environment_reward": [1.0, None], "illegal_actions": [3, 1], "reward_components": [{"format": 1.0}, {}]}
    assert [function(**batch) for function in functions] == [[1.0, None], [None, None], [3.0, None]]
    assert len(seen) == 1, "how the episodes went is logged once"
    free = config(format=1.0).model_copy(update={"illegal_penalty": 0.0})
    assert len(component_rewards(free, lambda **given: None)[0]) == 1
