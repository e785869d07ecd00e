"""Gymnasium's environments served, beside the same ones in this process."""

import copy
import re
from typing import Any, ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from tests.adapters.gymnasium.test_env import spec
from tests.adapters.gymnasium.test_infos import assert_equal
from tests.support.servers import RunningServer

from openenv import GenericEnvClient
from openenv.adapters.gymnasium import GymnasiumEnv, GymnasiumEnvironment, GymnasiumVectorEnv, environment_class
from openenv.adapters.ids import read_id
from openenv.adapters.targets import find_adapted
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError, RequestRejectedError

pytestmark = pytest.mark.timeout(180)


class ReportingEnv(gymnasium.Env[Any, Any]):
    """Rewards are arrays of one; what is reported has no value, or one that JSON has no form for."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Discrete(2)
    REPORT: ClassVar[dict[str, Any]] = {
        "none": None,
        "nan": float("nan"),
        "low": -np.inf,
        "row": np.array([1.0, np.nan, np.inf], np.float32),
        "deep": {"none": None, "list": [None, np.float64("nan")]},
    }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        return 0, self.REPORT

    def step(self, action: int) -> Any:
        return 1, np.array([0.5], np.float32), np.array([False]), False, self.REPORT


gymnasium.register("Tests/Reporting-v0", entry_point=f"{__name__}:ReportingEnv")


def test_reports_without_a_value_and_rewards_of_one_element_arrive() -> None:
    with served("Tests/Reporting-v0") as server:
        mine = GymnasiumEnv(server.url)
        _, begun = mine.reset(seed=1)
        _, reward, terminated, truncated, seen = mine.step(1)
        mine.close()
        several = GymnasiumVectorEnv(server.url, num_envs=2)
        _, batched = several.reset(seed=1)
        several.close()
    assert (type(reward), reward, terminated, truncated) == (float, 0.5, False, False)
    for report in (begun, seen):
        assert_equal(report, {**ReportingEnv.REPORT, "deep": {"none": None, "list": [None, float("nan")]}})
    assert batched["none"].tolist() == [None, None]
    assert np.isnan(batched["nan"]).all()


CLASSIC_CONTROL = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
TOY_TEXT = [
    "Taxi-v4",
    "Taxi-v4?is_rainy=true&fickle_passenger=true",
    "FrozenLake-v1",
    "FrozenLake-v1?is_slippery=false&map_name=8x8",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "Blackjack-v1",
]
UNBOUNDED = "ignore:.*A Box observation space m(in|ax)imum value is -?infinity.*:UserWarning"

NOT_NORMALIZED = "ignore:.*For Box action spaces, we recommend using a symmetric and normalized space.*:UserWarning"


def served(env_id: str) -> RunningServer:
    return RunningServer(find_adapted(f"gymnasium:{env_id}").app())


def local(env_id: str) -> gymnasium.Env[Any, Any]:
    name, arguments = read_id(env_id)
    return gymnasium.make(name, **arguments)


def same(mine: Any, theirs: Any) -> bool:
    """Whether two observations are equal, where the integers of Discrete spaces may be Python's or NumPy's."""
    if isinstance(theirs, np.ndarray):
        return data_equivalence(mine, theirs, exact=True)
    return isinstance(mine, tuple | np.integer) and bool(mine == theirs)


@pytest.mark.filterwarnings(UNBOUNDED, NOT_NORMALIZED)
@pytest.mark.parametrize("env_id", CLASSIC_CONTROL + TOY_TEXT)
def test_the_wire_changes_nothing_and_gymnasiums_checker_is_content(env_id: str) -> None:
    theirs = local(env_id)
    with served(env_id) as server:
        mine = GymnasiumEnv(server.url)
        assert (mine.action_space, mine.observation_space) == (theirs.action_space, theirs.observation_space)
        theirs.action_space.seed(1)
        for seed, steps in ((3, 210), (None, 20), (7, 20)):
            seen, expected = mine.reset(seed=seed), theirs.reset(seed=seed)
            assert same(seen[0], expected[0])
            assert data_equivalence(seen[1], expected[1], exact=True)
            _play_both(mine, theirs, steps)
        mine.spec = spec(server.url)
        check_env(mine)
        mine.close()
    theirs.close()


def _play_both(mine: GymnasiumEnv, theirs: gymnasium.Env[Any, Any], steps: int) -> None:
    """Step both alike, to the end of the episode if that comes; some of these are cut off after 200 steps."""
    for _ in range(steps):
        action = theirs.action_space.sample()
        seen, expected = mine.step(action), theirs.step(action)
        assert same(seen[0], expected[0])
        assert seen[1:4] == expected[1:4]
        assert data_equivalence(seen[4], expected[4], exact=True)
        if expected[2] or expected[3]:
            return


def test_being_cut_off_is_not_being_over() -> None:
    with served("MountainCar-v0?max_episode_steps=3") as server, GymnasiumEnv(server.url) as env:
        env.reset(seed=1)
        assert [env.step(1)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_many_are_batched_as_gymnasiums_own() -> None:
    theirs = gymnasium.make_vec("FrozenLake-v1", num_envs=4, vectorization_mode="sync")
    with served("FrozenLake-v1") as server:
        mine = GymnasiumVectorEnv(server.url, num_envs=4)
        theirs.action_space.seed(1)
        assert data_equivalence(mine.reset(seed=5)[0], theirs.reset(seed=5)[0], exact=True)
        for _ in range(60):
            action = theirs.action_space.sample()
            seen, expected = mine.step(action), theirs.step(action)
            assert all(map(np.array_equal, seen[:4], expected[:4]))
            assert seen[4].keys() == expected[4].keys()
        mine.close()
    theirs.close()


def test_arrays_in_infos_are_batched_too() -> None:
    with served("Taxi-v4") as server:
        envs = GymnasiumVectorEnv(server.url, num_envs=2)
        infos = envs.reset(seed=1)[1]
        assert infos["action_mask"].dtype == np.int8
        assert infos["action_mask"].shape == (2, 6)
        envs.close()


@pytest.mark.parametrize("env_id", CLASSIC_CONTROL)
def test_a_copy_goes_on_alike(env_id: str) -> None:
    env: Any = environment_class(env_id)()
    action = environment_types(type(env)).action
    env.reset(seed=1)
    env._env.action_space.seed(1)
    actions = [action(action=env.action_codec.encode(env._env.action_space.sample())) for _ in range(8)]
    for each in actions[:4]:
        env.step(each)
    twin = copy.deepcopy(env)
    assert [env.step(each) for each in actions[4:]] == [twin.step(each) for each in actions[4:]]
    assert twin.state == env.state
    env.close()
    twin.close()


@pytest.mark.parametrize(("env_id", "actions"), [("CartPole-v1", [0, 1]), ("FrozenLake-v1", [2, 1])])
async def test_a_session_forks(env_id: str, actions: list[int]) -> None:
    with served(env_id) as server:
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset(seed=1)
            await client.step({"action": actions[0]})
            (twin,) = await client.fork(1)
            mine, other = await client.step({"action": actions[1]}), await twin.step({"action": actions[1]})
            assert (mine.observation, mine.metadata) == (other.observation, other.metadata)
            await twin.close()


@pytest.mark.parametrize(
    ("env_id", "wrong", "told"),
    [
        ("CartPole-v1", 2, "expected a whole number from 0 to 1, got 2"),
        ("CartPole-v1", "left", "expected a whole number from 0 to 1, got 'left'"),
        ("Pendulum-v1", [2.5], r"expected a list of 1 number from -2 to 2, got \[2.5\]"),
        ("Pendulum-v1", 1.0, "expected a list of 1 number from -2 to 2, got 1.0"),
    ],
)
def test_an_illegal_action_is_refused_and_the_episode_goes_on(env_id: str, wrong: Any, told: str) -> None:
    with served(env_id) as server, GenericEnvClient(base_url=server.url).sync() as client:
        client.reset(seed=1)
        with pytest.raises(RequestRejectedError) as caught:
            client.step({"action": wrong})
        (fault,) = caught.value.errors
        assert fault["loc"] == ["action"]
        assert re.search(told, fault["msg"])
        assert client.state()["step_count"] == 0
        client.step({"action": 1 if env_id == "CartPole-v1" else [1.0]})


def test_the_schema_has_what_the_author_says_of_the_actions() -> None:
    with served("CartPole-v1") as server, server.http() as http:
        schemas = http.get("/schema").json()
        metadata = http.get("/metadata").json()
    text = schemas["action"]["properties"]["action"]["description"]
    assert text.startswith("A whole number from 0 to 1.")
    assert "0: Push cart to the left" in text
    assert "Cart Position" in schemas["observation"]["properties"]["observation"]["description"]
    assert "cart" in schemas["action"]["description"]
    assert metadata["name"] == "gymnasium:CartPole-v1"


def test_text_is_rendered_where_there_is_some_and_else_a_picture() -> None:
    shown = {}
    for env_id in ("CliffWalking-v1", "CartPole-v1", "CliffWalking-v1?render_mode=rgb_array"):
        env = environment_class(env_id)()
        env.reset(seed=1)
        shown[env_id] = env.render()
        env.close()
    text, *pictures = shown.values()
    assert isinstance(text, str)
    assert "x  C  C" in text
    for picture in pictures:
        assert isinstance(picture, np.ndarray)
        assert (picture.ndim, picture.shape[2], picture.dtype) == (3, 3, np.uint8)


def test_options_of_the_reset_reach_it() -> None:
    with served("CartPole-v1") as server, GymnasiumEnv(server.url) as env:
        observation, _ = env.reset(seed=1, options={"low": 0.01, "high": 0.01})
        assert observation.tolist() == [np.float32(0.01)] * 4


def test_of_no_environment_in_particular_there_is_none() -> None:
    with pytest.raises(ConfigurationError, match=r'environment_class\("CartPole-v1"\)'):
        GymnasiumEnvironment()
