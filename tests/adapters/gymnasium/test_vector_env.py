"""Many sessions as a Gymnasium vector environment, beside Gymnasium's own."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import InvalidAction, ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.utils.passive_env_checker import data_shares_objects
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from tests.adapters.gymnasium.conftest import CARTPOLE
from tests.support.environments.gymnasium import LENGTH
from tests.support.servers import RunningServer

from openenv.adapters.gymnasium import GymnasiumEnv, GymnasiumVectorEnv, environment_class
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError, ConnectionLostError, ServerExecutionError, SlotError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.local_process import LocalProcessProvider

pytestmark = pytest.mark.timeout(180)

LEFT, RIGHT, TRIP = range(3)
RESETTING = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]


def assert_same(ours: Any, theirs: Any) -> None:
    assert data_equivalence(ours, theirs, exact=True), f"ours:   {ours}\ntheirs: {theirs}"


@pytest.fixture
def walks(walk_server: RunningServer) -> Iterator[GymnasiumVectorEnv]:
    envs = GymnasiumVectorEnv(walk_server.url, 4)
    yield envs
    envs.close()
    walk_server.wait_for_sessions(0)


def alone(url: str, count: int, mode: AutoresetMode) -> VectorEnv[Any, Any, Any]:
    """The same sessions, each as an environment of its own, batched by Gymnasium."""
    return SyncVectorEnv([partial(GymnasiumEnv, url)] * count, autoreset_mode=mode)


@pytest.mark.parametrize("mode", RESETTING)
def test_cartpole_is_gymnasiums_own_to_the_last_bit(cartpole_url: str, mode: AutoresetMode) -> None:
    ours = GymnasiumVectorEnv(cartpole_url, 5, autoreset_mode=mode)
    theirs = gymnasium.make_vec("CartPole-v1", 5, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.single_observation_space == theirs.single_observation_space

    assert_same(ours.reset(seed=11), theirs.reset(seed=11))
    random = np.random.default_rng(1)
    episodes = 0
    for _ in range(300):
        actions = random.integers(0, 2, 5)
        mine = ours.step(actions)
        assert_same(mine, theirs.step(actions))
        assert mine[0] in ours.observation_space
        episodes += int(np.sum(mine[2]))
    assert episodes > 20
    ours.close()
    theirs.close()


def test_a_truncated_episode_is_not_a_terminated_one(cartpole_url: str) -> None:
    ours = GymnasiumVectorEnv(cartpole_url, 2)
    theirs = gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    observations, _ = ours.reset(seed=5)
    theirs.reset(seed=5)
    for step in range(1, 503):
        actions = (observations[:, 2] + observations[:, 3] > 0).astype(np.int64)  # holds the pole up
        mine = ours.step(actions)
        assert_same(mine, theirs.step(actions))
        observations, _, terminations, truncations, _ = mine
        assert not terminations.any()
        assert truncations.all() == truncations.any() == (step == 500)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("mode", RESETTING)
def test_dicts_infos_and_autoreset_are_batched_as_gymnasium_does(
    walk_server: RunningServer, mode: AutoresetMode
) -> None:
    ours, theirs = GymnasiumVectorEnv(walk_server.url, 3, autoreset_mode=mode), alone(walk_server.url, 3, mode)
    assert_same(ours.reset(seed=[1, 2, None]), theirs.reset(seed=[1, 2, None]))  # type: ignore[arg-type]
    random = np.random.default_rng(2)
    ends = np.zeros(2, int)
    kept = ours.step(np.array([LEFT] * 3))
    assert_same(kept, theirs.step(np.array([LEFT] * 3)))
    for _ in range(200):
        actions = random.integers(0, 2, 3)
        mine = ours.step(actions)
        assert_same(mine, theirs.step(actions))
        assert mine[0] in ours.observation_space
        assert not data_shares_objects(mine[0], kept[0])
        ends += [int(np.sum(mine[2])), int(np.sum(mine[3]))]
    assert min(ends) >= 1
    ours.close()
    theirs.close()


def test_without_autoreset_the_ended_ones_are_reset_by_a_mask(walk_server: RunningServer) -> None:
    mode = AutoresetMode.DISABLED
    ours, theirs = GymnasiumVectorEnv(walk_server.url, 3, autoreset_mode=mode), alone(walk_server.url, 3, mode)
    assert_same(ours.reset(seed=[2, 1, 0]), theirs.reset(seed=[2, 1, 0]))  # type: ignore[arg-type]
    resets = 0
    for step in range(60):
        mine = ours.step(np.array([LEFT, RIGHT, step % 2]))
        assert_same(mine, theirs.step(np.array([LEFT, RIGHT, step % 2])))
        ended = mine[2] | mine[3]
        if ended.any():
            with pytest.raises(ResetNeeded, match=rf"episodes of \[.*{np.flatnonzero(ended)[0]}.*\] have ended"):
                ours.step(np.array([LEFT, LEFT, LEFT]))
            assert_same(
                ours.reset(seed=step, options={"reset_mask": ended}),
                theirs.reset(seed=step, options={"reset_mask": ended}),
            )
            resets += 1
    assert resets > 5
    ours.close()
    theirs.close()


@pytest.mark.parametrize("mask", [np.array([True, False]), np.array([1, 0, 0, 0]), np.zeros(4, np.bool_), [[True] * 4]])
def test_a_mask_that_chooses_nothing(walks: GymnasiumVectorEnv, mask: Any) -> None:
    walks.reset()
    with pytest.raises(ConfigurationError, match="Expected reset_mask to be 4 flags, at least one of them true; got"):
        walks.reset(options={"reset_mask": mask})


def test_seeds_are_counted_up_and_options_reach_every_episode(walk_server: RunningServer) -> None:
    envs = GymnasiumVectorEnv(walk_server.url, 3, autoreset_mode="SameStep")
    assert envs.reset(seed=np.int64(4))[0]["position"].tolist() == [2 + LENGTH, -2 + LENGTH, -1 + LENGTH]
    assert envs.np_random_seed == 4
    assert envs.reset(options={"start": 6})[0]["position"].tolist() == [6 + LENGTH] * 3
    observations, rewards, terminations, truncations, infos = envs.step(np.array([RIGHT, LEFT, RIGHT]))

    assert observations["position"].tolist() == [6 + LENGTH, 5 + LENGTH, 6 + LENGTH]
    assert rewards.tolist() == [1.75, 1.25, 1.75]
    assert terminations.tolist() == [True, False, True]
    assert not truncations.any()
    assert infos["final_obs"][0]["name"] == "the end — fin"
    assert infos["_final_obs"].tolist() == [True, False, True]
    assert infos["final_info"]["steps"].tolist() == [1, 0, 1]
    assert infos["walks"].tolist() == [3, 0, 3]
    with pytest.raises(ConfigurationError, match="Expected an integer or 3 seeds, got 2 seeds"):
        envs.reset(seed=[1, 2])
    envs.close()


def test_metadata_says_how_it_resets(walks: GymnasiumVectorEnv) -> None:
    assert walks.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    with pytest.raises(ValueError, match="'Sometimes' is not a valid AutoresetMode"):
        GymnasiumVectorEnv("catch", 2, autoreset_mode="Sometimes")


def test_an_environment_that_does_not_tell_how_it_ends_terminates(free_server: RunningServer) -> None:
    space = gymnasium.spaces.Discrete(3)
    envs = GymnasiumVectorEnv(
        free_server.url, 1, observation_space=space, decode_observation=lambda seen: len(seen["legal"])
    )
    assert envs.reset()[0].tolist() == [2]
    assert [float(part[0]) for part in envs.step(np.array([LEFT]))[1:4]] == [0.0, 0.0, 0.0]
    _, rewards, terminations, truncations, infos = envs.step(np.array([LEFT]))
    assert (rewards.tolist(), terminations.tolist(), truncations.tolist()) == ([0.0], [True], [False])
    assert infos["truncated"].tolist() == [True]  # its own word, not Gymnasium's flag
    assert envs.step(np.array([LEFT]))[1].tolist() == [0.0]  # not the 5.0 that its reset shows
    envs.close()


def test_a_failing_session_is_named_and_a_reset_mends_it(walks: GymnasiumVectorEnv) -> None:
    walks.reset(seed=0)
    with pytest.raises(SlotError, match=r"^1 of 4 slots failed: 2\. Slot 2: .*EXECUTION_ERROR") as caught:
        walks.step(np.array([LEFT, RIGHT, TRIP, LEFT]))
    assert isinstance(caught.value.errors[2], ServerExecutionError)
    assert caught.value.errors.keys() == {2}
    assert caught.value.__cause__ is caught.value.errors[2]
    with pytest.raises(ResetNeeded, match="after an error"):
        walks.step(np.array([LEFT] * 4))
    with pytest.raises(ResetNeeded, match="without reset_mask"):
        walks.reset(options={"reset_mask": np.array([False, False, True, False])})

    assert walks.reset(seed=0)[0]["position"].tolist() == [LENGTH - 2, LENGTH - 1, LENGTH, LENGTH + 1]
    assert walks.step(np.array([LEFT] * 4))[4]["steps"].tolist() == [1] * 4


def test_a_refused_reset_is_named(walks: GymnasiumVectorEnv) -> None:
    with pytest.raises(SlotError, match=r"^4 of 4 slots failed: 0, 1, 2, 3\. Slot 0: .*EXECUTION_ERROR"):
        walks.reset(options={"start": LENGTH + 1})


def test_a_step_before_the_first_reset(walks: GymnasiumVectorEnv) -> None:
    with pytest.raises(ResetNeeded):
        walks.step(np.array([LEFT] * 4))


def test_an_action_outside_of_the_space_goes_nowhere(walks: GymnasiumVectorEnv) -> None:
    walks.reset(seed=2)
    with pytest.raises(InvalidAction, match="Expected a number from 0 to 2, got 3"):
        walks.step(np.array([LEFT, LEFT, LEFT, 3]))
    assert walks.step(np.array([LEFT] * 4))[4]["steps"].tolist() == [1] * 4


def test_a_killed_server_fails_every_slot() -> None:
    # For as long the client looks for the server.
    with LocalProcessProvider(CARTPOLE, max_sessions=3, env_vars={"OPENENV_RESUME_WINDOW_S": "1"}) as provider:
        provider.wait_for_ready()
        envs = GymnasiumVectorEnv(provider.base_url, 3)
        envs.reset()
        assert provider.pid is not None
        os.kill(provider.pid, signal.SIGKILL)
        with pytest.raises(SlotError) as caught:
            envs.step(envs.action_space.sample())
        errors = list(caught.value.errors.values())
        assert len(errors) == 3
        # Of the kind that says so where the client learned of it before it had sent anything.
        assert all(isinstance(error, ConnectionLostError) for error in errors)
        envs.close()


def test_closing_ends_the_sessions_and_not_a_given_client(walk_server: RunningServer) -> None:
    with GenericEnvClient(base_url=walk_server.url).sync() as client:
        client.reset()
        envs = GymnasiumVectorEnv(client, 3)
        walk_server.wait_for_sessions(4)
        envs.close()
        envs.close()
        walk_server.wait_for_sessions(1)
        client.step({"way": "left"})
    walk_server.wait_for_sessions(0)


def test_what_could_not_be_made_leaves_no_session(free_server: RunningServer) -> None:
    with pytest.raises(ConfigurationError, match="Free: legal is a list whose length is not fixed"):
        GymnasiumVectorEnv(free_server.url, 3)
    free_server.wait_for_sessions(0)


def test_gymnasiums_wrappers_take_it(cartpole_url: str) -> None:
    envs = DictInfoToList(RecordEpisodeStatistics(GymnasiumVectorEnv(cartpole_url, 2)))
    envs.reset(seed=1)
    lengths = []
    for _ in range(100):
        _, rewards, _, _, infos = envs.step(np.zeros(2, np.int64))
        lengths += [int(info["episode"]["l"]) for info in infos if "episode" in info]
    assert rewards.dtype == np.float64
    assert set(lengths) <= {8, 9, 10, 11}
    assert len(lengths) > 10
    envs.close()


def test_gymnasium_makes_it_by_its_id(cartpole_url: str) -> None:
    spec = gymnasium.envs.registration.EnvSpec(
        "ServedCartPole-v0",
        vector_entry_point="openenv.adapters.gymnasium:GymnasiumVectorEnv",
        kwargs={"environment": cartpole_url},
    )
    envs = gymnasium.make_vec(spec, num_envs=3)
    assert isinstance(envs, GymnasiumVectorEnv)
    assert envs.reset(seed=1)[0].shape == (3, 4)
    envs.close()


class SnowEnv(gymnasium.Env[Any, Any]):
    """Shows noise, as a picture and as numbers beside a word."""

    observation_space = gymnasium.spaces.Dict(
        picture=gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8),
        numbers=gymnasium.spaces.Box(-np.inf, np.inf, (64,), np.float32),
        few=gymnasium.spaces.Box(-1, 1, (2,), np.float64),
    )
    action_space = gymnasium.spaces.Box(-1, 1, (64,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._look(np.zeros(64, np.float32)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._look(action), float(action[0]), False, False, {}

    def _look(self, action: Any) -> dict[str, Any]:
        picture = self.np_random.integers(0, 256, (84, 84, 4), np.uint8)
        return {"picture": picture, "numbers": action / 3, "few": self.np_random.uniform(-1, 1, 2)}


gymnasium.register("Tests/Snow-v0", entry_point=f"{__name__}:SnowEnv")


@pytest.mark.parametrize("arrays", [True, False])
def test_pictures_are_gymnasiums_own_to_the_last_bit(arrays: bool) -> None:
    snow = environment_class("Tests/Snow-v0")
    types = environment_types(snow)
    app = create_fastapi_app(snow, types.action, types.observation, max_concurrent_envs=4)
    theirs = gymnasium.make_vec("Tests/Snow-v0", 3, vectorization_mode="sync")
    with RunningServer(app) as server, GenericEnvClient(base_url=server.url, arrays=arrays).sync() as client:
        ours = GymnasiumVectorEnv(client, 3)
        assert ours.observation_space == theirs.observation_space
        assert_same(ours.reset(seed=11), theirs.reset(seed=11))
        for seed in range(5):
            ours.action_space.seed(seed)
            actions = ours.action_space.sample()
            assert_same(ours.step(actions), theirs.step(actions))
        ours.close()
        theirs.close()


def test_an_environment_made_for_an_address_receives_arrays() -> None:
    snow = environment_class("Tests/Snow-v0")
    types = environment_types(snow)
    with RunningServer(create_fastapi_app(snow, types.action, types.observation, max_concurrent_envs=4)) as server:
        env = GymnasiumEnv(server.url)
        observation, _ = env.reset(seed=1)
        assert not observation["picture"].flags.owndata  # it is backed by the received frame
        assert observation["few"].dtype == np.float64
        env.close()
