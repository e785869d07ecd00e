"""The environment's reward as a reward function, for both of TRL's ways."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.environments.graded import GradedWalk, Spot, Walk
from tests.support.environments.training import CRASHING_SEEDS
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.train.rewards.environment_reward import ComponentReward, EnvironmentReward
from openenv.train.trl.env_spec import EnvSpec


def played(spec: EnvSpec, *seeds: int) -> list[Any]:
    """Environments after two steps up."""
    games: list[Any] = [spec.environment_factory() for _ in seeds]
    for game, seed in zip(games, seeds, strict=True):
        game.reset(seed=seed)
        game.climb("up")
        game.climb("up")
    return games


def test_environments_are_scored_and_told_of(stairs_server: RunningServer) -> None:
    logged: dict[str, float] = {}
    with EnvSpec(stairs_server.url) as spec:
        games = played(spec, 1, 3, CRASHING_SEEDS + 1)
        games[1].climb("fall asleep")

        rewards = EnvironmentReward()(environments=games, prompts=[], log_metric=logged.__setitem__)

    assert rewards == [0.75, 0.75, None]
    assert logged == {
        "episode/reward": 0.75,
        "episode/failed": pytest.approx(1 / 3),
        "episode/length": pytest.approx(2.0),
        "episode/illegal_actions": pytest.approx(1 / 3),
    }


def test_where_most_have_failed_the_training_ends(stairs_server: RunningServer) -> None:
    with EnvSpec(stairs_server.url) as spec:
        games = played(spec, 1, CRASHING_SEEDS + 1, CRASHING_SEEDS + 2)

        with pytest.raises(OpenEnvError, match="the stairs broke"):
            EnvironmentReward()(environments=games)


def test_the_fields_of_a_rollout_func_are_scored_alike() -> None:
    logged: dict[str, float] = {}

    rewards = EnvironmentReward()(
        environment_reward=[1.0, None], episode_length=[3, 1], illegal_actions=[0, 2], log_metric=logged.__setitem__
    )

    assert rewards == [1.0, None]
    assert logged == {
        "episode/reward": 1.0,
        "episode/failed": 0.5,
        "episode/length": 2.0,
        "episode/illegal_actions": 1.0,
    }


def test_of_several_environments_each_scores_its_own() -> None:
    logged: dict[str, float] = {}
    games: Any = [
        SimpleNamespace(reward=reward, trajectory=[None], illegal_actions=0, error=None, reward_components={})
        for reward in (1.0, 2.0, 3.0)
    ]
    names = ["catch", "wordle", "catch"]

    reward = EnvironmentReward("catch")

    assert reward.__name__ == "catch_reward"
    assert reward(environments=games, environment=names, log_metric=logged.__setitem__) == [1.0, None, 3.0]
    assert logged["episode/catch/reward"] == 2.0
    assert EnvironmentReward("chess")(environments=games, environment=names) == [None] * 3


def test_other_episodes_are_an_error() -> None:
    with pytest.raises(ConfigurationError, match="environment_factory or rollout_func"):
        EnvironmentReward()(prompts=["?"])


@pytest.fixture(scope="module")
def graded_server() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(GradedWalk, Walk, Spot, max_concurrent_envs=8)) as server:
        yield server


def test_components_are_reward_functions_of_their_own(graded_server: RunningServer) -> None:
    logged: dict[str, float] = {}
    with EnvSpec(graded_server.url, reward_components={"stride": 0.25, "arrival": 0.75}) as spec:
        games: list[Any] = [spec.environment_factory() for _ in range(2)]
        for game, lengths in zip(games, ([2, 2], [1]), strict=True):
            game.reset(seed=0)
            for length in lengths:
                game.walk(length=length)
        rewards = {
            function.__name__: function(environments=games, log_metric=logged.__setitem__)
            for function in spec.reward_funcs
        }
        assert spec.reward_weights == [0.25, 0.75]
    assert rewards == {"stride": [1.0, 0.25], "arrival": [1.0, 0.0]}
    assert games[0].trajectory[1].components == {"stride": 0.5, "arrival": 1.0}
    assert logged["episode/reward"] == pytest.approx((1.0 + 0.0625) / 2)
    assert logged["episode/reward_components/stride"] == pytest.approx(0.625)
    assert logged["episode/reward_components/arrival"] == 0.5


def test_a_component_that_no_episode_has_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    reward = ComponentReward("answr")
    for _ in range(2):
        assert reward(environment_reward=[1.0], reward_components=[{"answer": 1.0}]) == [None]
    (record,) = caplog.records
    assert "component 'answr'; it has scores of: answer" in record.message


def test_of_several_environments_the_components_are_each_ones_own() -> None:
    reward = ComponentReward("answer", "maths")
    assert reward.__name__ == "maths_answer"
    given: dict[str, Any] = {"environment_reward": [1.0, 1.0, None], "reward_components": [{"answer": 0.5}] * 3}
    assert reward(environment=["maths", "chess", "maths"], **given) == [0.5, None, None]


def test_weights_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="finite number as the weight of 'answer', got nan"):
        EnvSpec("echo", reward_components={"answer": float("nan")})
    with pytest.raises(ConfigurationError, match="got both"):
        EnvSpec("echo", reward_components={"answer": 1.0}, gives_reward=True)
