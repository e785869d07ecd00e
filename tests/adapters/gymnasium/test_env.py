"""One session as a Gymnasium environment, before Gymnasium's checkers."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.wrappers import PassiveEnvChecker
from tests.adapters.gymnasium.conftest import CARTPOLE
from tests.support.servers import RunningServer

from openenv.adapters.gymnasium import GymnasiumEnv
from openenv.core.exceptions import ConfigurationError, EpisodeOrderError, ServerExecutionError
from openenv.core.generic_client import GenericEnvClient

pytestmark = pytest.mark.timeout(180)


def spec(url: str, nondeterministic: bool = False) -> EnvSpec:
    """What ``gymnasium.register`` makes of an entry point and its arguments."""
    return EnvSpec(
        "Served-v0",
        entry_point="openenv.adapters.gymnasium:GymnasiumEnv",
        kwargs={"environment": url},
        nondeterministic=nondeterministic,
    )


def test_gymnasiums_checker_finds_nothing(walk_server: RunningServer) -> None:
    # Warnings are errors. Its resets depend on the seed only, so one without a seed may show anything.
    env = GymnasiumEnv(walk_server.url)
    env.action_space = gymnasium.spaces.Discrete(2)  # not the one that makes the environment fail
    env.spec = spec(walk_server.url, nondeterministic=True)
    check_env(env)
    env.close()
    walk_server.wait_for_sessions(0)


@pytest.mark.filterwarnings("ignore:.*A Box observation space m(in|ax)imum value is -?infinity.*:UserWarning")
def test_gymnasiums_checker_finds_nothing_in_cartpole(cartpole_url: str) -> None:
    """That velocities have no bounds is how CartPole is."""
    env = gymnasium.make(spec(cartpole_url)).unwrapped
    assert isinstance(env, GymnasiumEnv)
    check_env(env)
    env.close()


def test_every_step_passes_the_passive_checker(walk_server: RunningServer) -> None:
    env = PassiveEnvChecker(GymnasiumEnv(walk_server.url))
    random = np.random.default_rng(1)
    for seed in range(10):
        observation, _ = env.reset(seed=seed)
        ended = False
        while not ended:
            assert observation in env.observation_space
            observation, _, terminated, truncated, _ = env.step(np.int64(random.integers(0, 2)))
            ended = terminated or truncated
    env.env.close()


def test_cartpole_is_gymnasiums_own_to_the_last_bit(cartpole_url: str) -> None:
    ours, theirs = GymnasiumEnv(cartpole_url), gymnasium.make("CartPole-v1")
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    for seed in [3, None, None, 4]:
        assert data_equivalence(ours.reset(seed=seed), theirs.reset(seed=seed), exact=True)
        ended = False
        while not ended:
            mine, other = ours.step(1), theirs.step(1)
            assert data_equivalence(mine, other, exact=True)
            ended = mine[2]
    ours.close()
    theirs.close()


def test_options_are_the_task(walk_server: RunningServer) -> None:
    env = GymnasiumEnv(walk_server.url)
    observation, info = env.reset(options={"start": -7})
    assert observation["name"] == "the end — fin"
    assert observation["around"].tolist() == [0, 1]
    assert info == {"walks": 1}
    env.close()


def test_an_error_of_the_environment_is_raised(walk_server: RunningServer) -> None:
    env = GymnasiumEnv(walk_server.url)
    with pytest.raises(EpisodeOrderError):
        env.step(0)
    env.reset()
    with pytest.raises(ServerExecutionError):
        env.step(2)
    env.close()


def test_a_given_client_stays_open(walk_server: RunningServer) -> None:
    with GenericEnvClient(base_url=walk_server.url).sync() as client, GymnasiumEnv(client) as env:
        env.reset()
        env.close()
        client.step({"way": "left"})
    walk_server.wait_for_sessions(0)


def test_a_folder_is_served_until_it_is_closed() -> None:
    with GymnasiumEnv(CARTPOLE) as env:
        assert env.reset(seed=1)[0].dtype == np.float32


def test_what_could_not_be_made_leaves_no_session(free_server: RunningServer) -> None:
    with pytest.raises(ConfigurationError, match=r"Pass observation_space= with decode_observation= to map it by hand"):
        GymnasiumEnv(free_server.url)
    free_server.wait_for_sessions(0)
