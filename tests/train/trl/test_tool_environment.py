"""Environments as TRL takes them: found, played and scored as its trainer does."""

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.environments.tools import Notes
from tests.support.environments.training import (
    CRASHING_SEEDS,
    ENDLESS_REWARD_SEEDS,
    FAILING_RESET_SEEDS,
    Climb,
    Stairs,
    StairsEnvironment,
)
from tests.support.legacy_server import legacy_app
from tests.support.servers import RunningServer
from transformers.utils.chat_template_utils import get_json_schema

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.mcp_types import Tool
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError
from openenv.core.generic_client import GenericEnvClient
from openenv.train.tools.environment_tools import EnvironmentTools
from openenv.train.trl.env_spec import EnvSpec
from openenv.train.trl.tool_environment import (
    EPISODE_FAILED,
    EPISODE_OVER,
    EpisodeStep,
    ToolEnvironment,
    tool_environment_class,
)


@pytest.fixture
def spec(stairs_server: RunningServer) -> Iterator[EnvSpec]:
    with EnvSpec(stairs_server.url, num_tasks=4) as made:
        yield made


def functions_of(environment: ToolEnvironment) -> dict[str, Any]:
    """What TRL finds on an environment."""
    found = dict(inspect.getmembers(type(environment), inspect.isfunction))
    return {name: function for name, function in found.items() if not name.startswith("_")}


def test_an_episode_is_played_and_told(spec: EnvSpec) -> None:
    game: Any = spec.environment_factory()

    before = game.session_id
    assert game.reset(seed=1) == "step of 2"
    assert game.climb(move="up") == "step and of 2"
    assert game.climb("up") == "step and and of 2"

    assert game.done
    assert game.rewards == [0.25, 0.5]
    assert game.reward == game.get_reward() == 0.75
    assert game.trajectory[1] == EpisodeStep("climb", {"move": "up"}, "step and and of 2", 0.5, done=True)
    assert game.last_result.observation["position"] == 2
    assert game.task == {"seed": 1}
    assert (before, type(game.session_id)) == (None, str)
    assert game.error is None


def test_trl_finds_the_tools_and_nothing_else(spec: EnvSpec) -> None:
    game = spec.environment_factory()

    found = functions_of(game)

    assert found.keys() == {"reset", "climb"}
    function = get_json_schema(game.climb)["function"]
    assert function["name"] == "climb"
    assert function["parameters"]["properties"]["move"]["enum"] == ["up", "wait", "fall asleep"]
    assert get_json_schema(game.climb) == spec.tools.schemas()[0]


def test_trl_finds_the_reward_where_it_is_asked_to(stairs_server: RunningServer) -> None:
    with EnvSpec(stairs_server.url, gives_reward=True) as spec:
        game: Any = spec.environment_factory()
        game.reset(seed=1)
        game.climb("up")

        assert functions_of(game).keys() == {"reset", "climb", "get_reward"}
        assert game.get_reward() == 0.25
        assert spec.reward_funcs == []


def test_an_episode_that_is_over_takes_no_more(spec: EnvSpec, stairs_server: RunningServer) -> None:
    game: Any = spec.environment_factory()
    game.reset(seed=0)
    game.climb("up")

    assert game.climb("up") == EPISODE_OVER

    assert len(game.trajectory) == 1
    assert game.reset(seed=0) == "step of 1"
    assert not game.done
    assert game.trajectory == []


def test_turns_have_a_limit(stairs_server: RunningServer) -> None:
    with EnvSpec(stairs_server.url, max_turns=2) as spec:
        game: Any = spec.environment_factory()
        game.reset(seed=3)

        told = [game.climb("wait") for _ in range(3)]

    assert told[2] == EPISODE_OVER
    assert not game.done
    assert len(game.trajectory) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"move": "fall asleep"}, "No sleeping on the stairs."),
        ({"move": "jump"}, "move: Input should be 'up', 'wait' or 'fall asleep'"),
        ({}, "move: Field required"),
        ({"move": "up", "twice": True}, "twice: Extra inputs are not permitted"),
        ({"move": "up", "metadata": {}}, "metadata: Extra inputs are not permitted"),
    ],
)
def test_an_illegal_action_is_told_and_the_episode_goes_on(
    spec: EnvSpec, arguments: dict[str, Any], message: str
) -> None:
    game: Any = spec.environment_factory()
    game.reset(seed=0)

    assert game.climb(**arguments) == message

    assert game.illegal_actions == 1
    assert game.trajectory == [EpisodeStep("climb", arguments, message, problem=message)]
    assert game.climb("up") == "step and of 1"
    assert game.reward == 0.25


@pytest.mark.parametrize("arguments", [{"move": "fall asleep"}, {"move": "jump"}, {}])
def test_an_illegal_action_ends_its_episode_or_costs_where_that_is_the_rule(
    stairs_server: RunningServer, arguments: dict[str, Any]
) -> None:
    rules: list[tuple[Any, float, str]] = [("end", -0.5, EPISODE_OVER), ("penalty", -0.25, "step and of 1")]
    for rule, reward, after in rules:
        with EnvSpec(stairs_server.url, illegal_answers=rule, illegal_penalty=0.5, gives_reward=True) as spec:
            game: Any = spec.environment_factory()
            game.reset(seed=0)
            refusal = game.climb(**arguments)
            assert refusal not in (EPISODE_OVER, EPISODE_FAILED)
            assert game.climb("up") == after
            assert game.get_reward() == game.training_reward == reward
            assert game.reward == reward + 0.5
            game.reset(seed=0)
            assert (game.illegal_actions, game.training_reward) == (0, 0.0)
    with pytest.raises(ConfigurationError, match="got illegal_answers='stop'"):
        EnvSpec(stairs_server.url, illegal_answers="stop")  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", [CRASHING_SEEDS + 3, ENDLESS_REWARD_SEEDS + 3])
def test_a_failure_ends_the_episode_and_gives_no_reward(spec: EnvSpec, seed: int) -> None:
    game: Any = spec.environment_factory()
    game.reset(seed=seed)
    game.climb("up")

    assert game.climb("up") == EPISODE_FAILED
    assert game.climb("up") == EPISODE_FAILED

    assert game.error is not None
    assert game.reward is None
    assert game.get_reward() is None
    assert game.reset(seed=0) == "step of 1"
    assert game.reward == 0


def test_a_reset_that_fails_is_a_failed_episode(spec: EnvSpec) -> None:
    game: Any = spec.environment_factory()

    assert game.reset(seed=FAILING_RESET_SEEDS) == EPISODE_FAILED
    assert game.climb("up") == EPISODE_FAILED

    assert game.reward is None
    assert "these stairs are closed" in str(game.error)


def test_without_a_reset_there_is_no_episode(spec: EnvSpec) -> None:
    game: Any = spec.environment_factory()

    assert game.last_result is None
    assert game.metadata == {}
    with pytest.raises(ConfigurationError, match=r"Expected reset\(\) before climb\(\)"):
        game.climb("up")


def test_rollouts_are_apart_and_share_a_connection(spec: EnvSpec, stairs_server: RunningServer) -> None:
    games: list[Any] = [spec.environment_factory() for _ in range(6)]
    for _ in range(2):  # as TRL does, over and over
        for seed, game in enumerate(games):
            game.reset(seed=seed)
    for number, game in enumerate(games):
        for _ in range(number % 2 + 1):
            game.climb("up")

    assert [len(game.trajectory) for game in games] == [1, 2, 1, 2, 1, 2]
    assert len({game.session_id for game in games}) == 6
    assert stairs_server.connections == 1
    stairs_server.wait_for_sessions(6)


def test_a_server_with_too_few_sessions_says_what_to_do(stairs_server: RunningServer) -> None:
    app = create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=1)
    options = {"capacity_wait_s": 0.0}
    with RunningServer(app) as server, EnvSpec(server.url, client_options=options) as spec:
        first, second = spec.environment_factory(), spec.environment_factory()
        server.wait_for_sessions(0)
        first.reset(seed=1)

        with pytest.raises(ConfigurationError, match=r"EnvSpec\(\.\.\., sessions=\.\.\.\)"):
            second.reset(seed=1)


def test_a_server_that_is_gone_ends_the_training() -> None:
    app = create_fastapi_app(StairsEnvironment, Climb, Stairs, max_concurrent_envs=2)
    options = {"connect_timeout_s": 0.5, "message_timeout_s": 1.0}
    server = RunningServer(app).start()
    with EnvSpec(server.url, client_options=options) as spec:
        game: Any = spec.environment_factory()
        game.reset(seed=3)
        server.stop()

        assert game.climb("up") == EPISODE_FAILED
        with pytest.raises((ConnectionFailedError, ConnectionError)) as raised:
            game.reset(seed=3)

    assert "can't be reached any more" in raised.value.__notes__[0]


def test_a_closed_spec_plays_no_more(stairs_server: RunningServer) -> None:
    spec = EnvSpec(stairs_server.url)
    game: Any = spec.environment_factory()
    game.reset(seed=1)
    spec.close()

    with pytest.raises(ConfigurationError, match="closed"):
        game.reset(seed=1)
    with pytest.raises(ConfigurationError, match="closed"):
        game.climb("up")
    stairs_server.wait_for_sessions(0)


def test_an_environment_s_own_tools_are_methods_those_of_its_task_too() -> None:
    app = create_fastapi_app(Notes, max_concurrent_envs=4)
    with RunningServer(app) as server, EnvSpec(server.url, tasks=[{"shared": True}]) as spec:
        game: Any = spec.environment_factory()

        assert game.reset(shared=True) == ""
        assert game.write("a", "text") == "4 characters written"
        assert game.send(to="them") == '["them","a"]'
        assert game.read("b") == "KeyError: 'b'"
        assert game.submit() == '{"notes":1}'

    assert game.done
    assert game.reward == 1.0
    assert game.metadata == {"longest": 3}
    assert [step.problem for step in game.trajectory] == [None, None, "KeyError: 'b'", None]


def test_a_public_server_is_played() -> None:
    with RunningServer(legacy_app()) as server, EnvSpec(server.url) as spec:
        game: Any = spec.environment_factory()

        assert game.reset(seed=7) == "Say something, 7."
        assert game.say("hi", loud=True) == "HI"
        assert "Field required" in game.say()
        assert game.say("bye") == "bye"

    assert game.done
    assert game.reward == 2.0
    assert game.session_id is None


def test_tools_may_have_any_names() -> None:
    names = ["class", "do-it", "reset", "get_reward", "_private", "done", "tool_done", "reward", "trajectory", "spec"]
    listed = [Tool(name=name, description=name, input_schema={"type": "object", "properties": {}}) for name in names]
    tools = EnvironmentTools.read(listed, {}, GenericEnvClient(base_url="http://localhost:1"))

    made = tool_environment_class("odd", tools)

    functions = dict(inspect.getmembers(made, inspect.isfunction))
    found = {function.__name__ for name, function in functions.items() if name != "reset" and not name.startswith("_")}
    assert found == set(names)
    assert made.__name__ == "OddEnvironment"
    assert functions["reset"] is ToolEnvironment.reset
