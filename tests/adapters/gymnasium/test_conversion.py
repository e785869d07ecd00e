"""Clients of every kind, with spaces and converters that are given or not."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from tests.support.environments.gymnasium import DriveEnvironment, Move, WalkEnvironment
from tests.support.servers import RunningServer

from openenv import client_for
from openenv.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv
from openenv.adapters.gymnasium.conversion import report_of
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError, InvalidAnswerError
from openenv.core.generic_client import GenericEnvClient

pytestmark = pytest.mark.timeout(180)

WalkEnv = client_for(WalkEnvironment)
DriveEnv = client_for(DriveEnvironment)


class HandWrittenEnv(EnvClient[Move, tuple[int, str], dict[str, Any]]):
    """As programs for the public package write them; its observations are its own."""

    def _step_payload(self, action: Move) -> dict[str, Any]:
        return {"way": action.way}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[tuple[int, str]]:
        seen = payload["observation"]
        return StepResult((seen["position"], seen["name"]), payload["reward"], payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload


@pytest.fixture
def hand_written(walk_server: RunningServer) -> Iterator[HandWrittenEnv]:
    client = HandWrittenEnv(base_url=walk_server.url)
    yield client
    client.sync().close()


@pytest.mark.parametrize("client_class", [GenericEnvClient, DriveEnv])
def test_every_sample_is_accepted_and_comes_back(
    drive_server: RunningServer, client_class: type[EnvClient[Any, Any, Any]]
) -> None:
    with client_class(base_url=drive_server.url).sync() as client:
        envs = GymnasiumVectorEnv(client, 3)
        envs.action_space.seed(7)
        observations, _ = envs.reset()
        assert observations in envs.observation_space
        assert observations["gear"].tolist() == [0] * 3
        for _ in range(30):
            actions = envs.action_space.sample()
            observations, rewards, _, _, _ = envs.step(actions)
            assert observations in envs.observation_space
            assert rewards.tolist() == [1.0] * 3
            for field in ("gear", "lamp", "seat", "mirrors", "throttle", "board", "distance", "shout"):
                np.testing.assert_array_equal(observations[field], actions[field])
            np.testing.assert_array_equal(observations["wheels"]["angle"], actions["wheels"]["angle"])
            np.testing.assert_array_equal(observations["radio"], 2 + 2 * np.asarray(actions["radio"]))
        envs.close()


def test_a_typed_client_sends_its_own_actions(walk_server: RunningServer) -> None:
    with WalkEnv(base_url=walk_server.url).sync() as client:
        env = GymnasiumEnv(client)
        assert isinstance(env.observation_space, spaces.Dict)
        env.reset(options={"start": 2})
        assert env.step(np.int64(1))[0]["position"] == 3 + 7


def test_a_hand_written_client_needs_converters(hand_written: HandWrittenEnv) -> None:
    with pytest.raises(ConfigurationError, match="HandWrittenEnv has no class of its actions"):
        GymnasiumEnv(hand_written)
    env = GymnasiumEnv(hand_written, encode_action=lambda number: Move(way=("left", "right", "left")[number]))
    with pytest.raises(ConfigurationError, match=r"as pydantic models or dicts, got tuple\. Pass decode_observation="):
        env.reset()


def test_with_spaces_and_converters_the_schemas_are_not_asked_for(hand_written: HandWrittenEnv) -> None:
    env = GymnasiumEnv(
        hand_written,
        action_space=spaces.Discrete(2),
        observation_space=spaces.Box(-7, 7, (1,)),
        encode_action=lambda number: Move(way=("left", "right")[number]),
        decode_observation=lambda seen: np.array([seen[0]], np.float32),
    )
    assert env.reset(options={"start": 3})[0].tolist() == [3.0]
    assert env.step(1)[0] in env.observation_space


def test_a_space_of_ones_own_takes_the_fields_as_they_are(drive_server: RunningServer) -> None:
    seen = spaces.Dict(throttle=spaces.Box(0, 1, (), np.float64), distance=spaces.Box(-9, 9, (), np.int16))
    env = GymnasiumEnv(drive_server.url, observation_space=seen)
    assert env.observation_space is seen
    observation, _ = env.reset()
    assert set(observation) == {"throttle", "distance"}
    assert observation["distance"].dtype == np.int16
    env.close()


def test_a_single_field_takes_a_space_of_its_own(walk_server: RunningServer) -> None:
    with pytest.raises(ConfigurationError, match="Dict space with the fields position, around, name of Place"):
        GymnasiumEnv(walk_server.url, observation_space=spaces.Box(-7, 7, (1,)))
    text = spaces.Text(5)
    env = GymnasiumEnv(walk_server.url, action_space=text)
    env.reset()
    assert env.step("right")[0]["position"] == 1 + 7
    env.close()


def test_converters_go_with_the_space_of_the_schema(walk_server: RunningServer) -> None:
    env = GymnasiumEnv(walk_server.url, encode_action=lambda number: {"way": ("right", "left", "left")[number]})
    assert env.action_space == spaces.Discrete(3)
    env.reset()
    assert env.step(0)[0]["position"] == 1 + 7
    env.close()


def test_an_observation_that_is_not_as_its_schema_says(drive_server: RunningServer) -> None:
    env = GymnasiumEnv(drive_server.url, observation_space=spaces.Dict(speed=spaces.Box(0, 1, ())))
    with pytest.raises(InvalidAnswerError, match=r"The observation \{.* does not fit its schema: 'speed' is missing"):
        env.reset()
    env.close()
    env = GymnasiumEnv(drive_server.url, observation_space=spaces.Dict(mirrors=spaces.Box(0, 1, (3,))))
    with pytest.raises(InvalidAnswerError, match=r"expected numbers of the shape \(3,\), got \(2,\)"):
        env.reset()
    env.close()


@pytest.mark.parametrize(
    ("done", "metadata", "report"),
    [
        (True, {"terminated": False, "truncated": True, "why": "time"}, (False, True, {"why": "time"})),
        (True, {"terminated": True, "truncated": False}, (True, False, {})),
        (True, None, (True, False, {})),
        (False, {"truncated": True, "nothing": None}, (False, False, {"truncated": True, "nothing": None})),
        (True, {"terminated": "by hand", "truncated": 3}, (True, False, {"terminated": "by hand", "truncated": 3})),
    ],
)
def test_how_an_episode_ended(done: bool, metadata: dict[str, Any] | None, report: tuple[Any, ...]) -> None:
    assert report_of(StepResult(0, done=done, metadata=metadata)) == report


def test_an_observation_as_a_model_is_read_like_one_as_a_dict(drive_server: RunningServer) -> None:
    with DriveEnv(base_url=drive_server.url).sync() as client:
        typed, _ = GymnasiumEnv(client).reset()
    env = GymnasiumEnv(drive_server.url)
    assert data_equivalence(typed, env.reset()[0], exact=True)
    env.close()
