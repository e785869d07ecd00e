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
        "episode/failures/environment": 1.0,
        "episode/length": 2.5,
        "episode/illegal_actions": 0.5,
    }


def test_where_most_have_failed_the_training_ends(stairs_server: RunningServer) -> None:
    with EnvSpec(stairs_server.url) as spec:
        games = played(spec, *(CRASHING_SEEDS + number for number in (1, 2, 3, 5, 6, 7, 9, 10)))

        with pytest.raises(OpenEnvError, match=r"8 of the last 8 episodes failed.*the stairs broke"):
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
        "episode/length": 3.0,
        "episode/illegal_actions": 0.0,
    }


def test_what_participants_used_is_logged_of_failed_episodes_too() -> None:
    logged: dict[str, float] = {}
    user = {"user": {"replies": 2, "input_tokens": 10, "output_tokens": 4, "model": "m"}}
    EnvironmentReward()(
        environment_reward=[1.0, None],
        episode_length=[3, 1],
        illegal_actions=[0, 0],
        spent=[{"participants": user}, {"participants": user, "failed_participant": "user"}],
        log_metric=logged.__setitem__,
    )
    own = {name.removeprefix("participants/user/"): value for name, value in logged.items() if "user" in name}
    assert own == {"replies": 4, "input_tokens": 20, "output_tokens": 8, "failed": 1}, "their price is not known"


def test_of_several_environments_each_scores_its_own() -> None:
    logged: dict[str, float] = {}
    games: Any = [
        SimpleNamespace(
            reward=reward,
            training_reward=reward,
            length=1,
            illegal_actions=0,
            illegal_texts=[],
            answers_without_call=0,
            error=None,
            failure=None,
            spent={},
            reward_components={},
        )
        for reward in (1.0, 2.0, 3.0)
    ]
    names = ["catch", "wordle", "catch"]

    reward = EnvironmentReward("catch")

    assert reward.__name__ == "catch_reward"
    assert reward(environments=games, environment=names, log_metric=logged.__setitem__) == [1.0, None, 3.0]
    assert logged["episode/catch/reward"] == 2.0
    assert EnvironmentReward("chess")(environments=games, environment=names) == [None] * 3


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def answered(game: Any, *answers: dict[str, Any]) -> list[dict[str, Any]]:
    """TRL's own loop: known tools are methods, whose arguments are keywords; all else TRL answers itself."""
    conversation: list[dict[str, Any]] = []
    for answer in answers:
        conversation.append(answer)
        for each in answer.get("tool_calls", ()):
            function = each["function"]
            is_method = function["name"] == "climb" and isinstance(function["arguments"], dict)
            shown = game.climb(**function["arguments"]) if is_method else "{'error': 'Tool not found.'}"
            conversation.append({"role": "tool", "name": function["name"], "content": shown})
    return conversation


NONSENSE = {
    "no call": ([{"role": "assistant", "content": "I like bananas."}], [], 1),
    "another tool": ([call("fly", {"move": "up"}), call("climb", '"up"')], ['fly {"move": "up"}', 'climb "up"'], 0),
    "another move": ([call("climb", {"move": "jump"})] * 2, ['climb {"move": "jump"}'] * 2, 0),
}
"""Answers of three models that play nothing; the calls among them that are illegal; and the answers without a call."""


@pytest.mark.parametrize("model", NONSENSE)
def test_nonsense_is_counted_in_trls_own_loop_and_warned_of_at_its_end(
    stairs_server: RunningServer, caplog: pytest.LogCaptureFixture, model: str
) -> None:
    answers, illegal, without_call = NONSENSE[model]
    logged: dict[str, float] = {}
    extra: dict[str, list[str]] = {}
    with EnvSpec(stairs_server.url, illegal_penalty=0.5) as spec:
        games: list[Any] = [spec.environment_factory() for _ in range(3)]
        for game in games:
            game.reset(seed=1)
        conversations = [answered(game, *answers) for game in games[:2]]
        conversations.append(answered(games[2], call("climb", {"move": "up"}), call("climb", {"move": "up"})))
        (reward,) = spec.reward_funcs
        rewards = reward(
            environments=games,
            completions=conversations,
            log_metric=logged.__setitem__,
            log_extra=extra.__setitem__,
        )
        assert [game.answers_without_call for game in games] == [without_call, without_call, 0]
        assert [game.illegal_texts for game in games] == [illegal, illegal, []]
    assert rewards == [-0.5 * len(illegal)] * 2 + [0.75]
    assert logged["episode/reward"] == pytest.approx(0.25)
    assert logged["episode/illegal_actions"] == pytest.approx(2 * len(illegal) / 3)
    assert logged.get("episode/no_calls", 0.0) == pytest.approx(2 * without_call / 3)
    assert extra == ({"episode/illegal_texts": ["\n".join(illegal)] * 2 + [""]} if illegal else {})
    if illegal:
        assert f"67% of the answers were no legal action, most often {illegal[0]!r}" in caplog.text
        assert "; none is played: try a system_prompt that describes the calls" in caplog.text
    else:
        assert "In 67% of the episodes the model called no tool at all" in caplog.text


def test_legal_answers_are_not_warned_of(stairs_server: RunningServer, caplog: pytest.LogCaptureFixture) -> None:
    with EnvSpec(stairs_server.url) as spec:
        game: Any = spec.environment_factory()
        game.reset(seed=0)
        # A last answer after the episode's end is none that lacks a call.
        conversation = answered(game, call("climb", {"move": "up"}), {"role": "assistant", "content": "Done."})
        assert spec.reward_funcs[0](environments=[game], completions=[conversation]) == [0.25]
        assert game.answers_without_call == 0
    assert not caplog.records


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
