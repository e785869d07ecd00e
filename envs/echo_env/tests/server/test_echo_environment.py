from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echo_env import EchoAction
from echo_env.server.echo_environment import EchoEnvironment
from openenv.core.env_server import CallToolAction, ListToolsAction


def test_a_reset_greets() -> None:
    observation = EchoEnvironment().reset()
    assert observation.echoed_message == "Echo environment ready!"
    assert (observation.message_length, observation.reward, observation.done) == (0, 0.0, False)


@pytest.mark.parametrize(
    ("message", "reward"), [("Hello, World!", 1.3), ("", 0.0), ("abc", 0.3), ("x" * 1000, 100.0), ("日本語", 0.3)]
)
def test_the_reward_is_a_tenth_of_the_length_without_float_noise(message: str, reward: float) -> None:
    environment = EchoEnvironment()
    environment.reset()
    observation = environment.step(EchoAction(message=message))
    assert observation.reward == reward
    assert repr(observation.reward) == repr(reward)


@given(st.text())
def test_any_message_comes_back_unchanged(message: str) -> None:
    environment = EchoEnvironment()
    environment.reset()
    observation = environment.step(EchoAction(message=message))
    assert observation.echoed_message == message
    assert observation.message_length == len(message)
    assert observation.metadata == {"original_message": message, "step": 1}
    assert not observation.done


def test_steps_are_counted_from_the_last_reset() -> None:
    environment = EchoEnvironment()
    environment.reset(episode_id="first")
    for expected in (1, 2, 3):
        assert environment.step(EchoAction(message="a")).metadata["step"] == expected
    assert (environment.state.episode_id, environment.state.step_count) == ("first", 3)
    environment.reset()
    assert environment.state.step_count == 0
    assert environment.state.episode_id not in (None, "first")


def test_instances_share_nothing() -> None:
    one, other = EchoEnvironment(), EchoEnvironment()
    one.reset(episode_id="one")
    other.reset(episode_id="other")
    one.step(EchoAction(message="a"))
    assert (one.state.episode_id, one.state.step_count) == ("one", 1)
    assert (other.state.episode_id, other.state.step_count) == ("other", 0)


def test_it_speaks_by_tools_too() -> None:
    environment: Any = EchoEnvironment()
    environment.reset()
    assert [tool.name for tool in environment.step(ListToolsAction()).tools] == ["echo_message", "echo_with_length"]
    said = environment.step(CallToolAction(tool_name="echo_message", arguments={"message": "日本語"}))
    assert (said.result, said.reward, said.done) == ("日本語", None, False)
    measured = environment.step(CallToolAction(tool_name="echo_with_length", arguments={"message": "日本語"}))
    assert measured.result == {"message": "日本語", "length": 3}
    assert environment.step(EchoAction(message="a")).metadata["step"] == 3
