"""Classes made from ids: found or not, and imported by other processes."""

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils import EzPickle
from tests.support.servers import RunningServer

from openenv import GenericEnvClient, client_for, create_app
from openenv.adapters.gymnasium import GymnasiumEnv, environment_class
from openenv.adapters.gymnasium.factory import environment_class as made_class
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError, EnvironmentNotFoundError
from openenv.core.schema.reader import pixel_fields
from openenv.core.wire.array_fields import pixel_fields_of


class NestedEnv(gymnasium.Env[Any, Any]):
    """An environment of the test's own, with a space in a space and no rendering."""

    def __init__(self, size: int = 2) -> None:
        self.action_space = spaces.Dict(
            {"move": spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiBinary(2)]), "say": spaces.Text(4)}
        )
        self._picture = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.observation_space = spaces.Dict({"picture": self._picture, "note": spaces.Text(9, min_length=0)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._see(""), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return self._see(action["say"]), float(action["move"][0]), False, False, {"flags": action["move"][1]}

    def _see(self, note: str) -> dict[str, Any]:
        picture = self.np_random.integers(0, 256, self._picture.shape).astype(np.uint8)
        return {"picture": picture, "note": note}


class OddEnv(gymnasium.Env[Any, Any]):
    action_space = spaces.Sequence(spaces.Discrete(2))
    observation_space = spaces.Discrete(1)


class CellsEnv(gymnasium.Env[Any, Any]):
    """Shows a map of cells, whose space is that of a picture."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 255, (7, 7, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.integers(0, 9, (7, 7, 3)).astype(np.uint8), {}


class PickledAnewEnv(NestedEnv, EzPickle):
    """One whose copies, as those of MuJoCo's and Box2D's, are new ones that were never reset."""

    def __init__(self) -> None:
        super().__init__()
        EzPickle.__init__(self)


gymnasium.register("Tests/PickledAnew-v0", entry_point=f"{__name__}:PickledAnewEnv")
gymnasium.register("Tests/Nested-v0", entry_point=f"{__name__}:NestedEnv")
gymnasium.register("Tests/Cells-v0", entry_point=f"{__name__}:CellsEnv")
gymnasium.register("Tests/Odd-v0", entry_point=f"{__name__}:OddEnv")


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1?g=9.81", "Tests/Nested-v0?size=3"])
def test_classes_are_pickled_by_their_names(env_id: str) -> None:
    made = environment_class(env_id)
    types = environment_types(made)
    for each in (made, types.action, types.observation):
        assert pickle.loads(pickle.dumps(each)) is each
    assert made_class(env_id) is made
    assert made is not environment_class("Acrobot-v1")


def test_spaces_in_spaces_are_served() -> None:
    made = environment_class("Tests/Nested-v0?size=3")
    types = environment_types(made)
    with RunningServer(create_app(made, types.action, types.observation)) as server:
        mine, theirs = GymnasiumEnv(server.url), gymnasium.make("Tests/Nested-v0", size=3)
        assert (mine.action_space, mine.observation_space) == (theirs.action_space, theirs.observation_space)
        theirs.action_space.seed(1)
        mine.reset(seed=1)
        theirs.reset(seed=1)
        for _ in range(5):
            action = theirs.action_space.sample()
            seen, expected = mine.step(action), theirs.step(action)
            assert np.array_equal(seen[0]["picture"], expected[0]["picture"])
            assert seen[0]["picture"].dtype == np.uint8
            assert seen[0]["note"] == expected[0]["note"]
            assert seen[1:4] == expected[1:4]
            assert seen[4]["flags"].tolist() == expected[4]["flags"].tolist()
        mine.close()
        theirs.close()


def test_a_typed_client_is_made_of_the_class() -> None:
    made = environment_class("CartPole-v1")
    types = environment_types(made)
    with RunningServer(create_app(made, types.action, types.observation)) as server:
        client_class = client_for(made)
        assert client_class.__name__ == "CartPoleV1Env"
        with client_class(base_url=server.url).sync() as client:
            client.reset(seed=1)
            assert len(client.step(types.action(action=1)).observation.observation) == 4


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("CartPol-v1", r"no environment 'CartPol-v1'\. Did you mean CartPole-v1 or"),
        ("CartPole-v9", r"Did you mean CartPole-v1 or CartPole-v0"),
        ("taxi-v4", r"Did you mean Taxi-v4"),
        ("Zzzzzz-v0", r"no environment 'Zzzzzz-v0'\. It knows those that are registered"),
        ("no_such_module:CartPole-v1", r"imports the module no_such_module, but there is no no_such_module"),
    ],
)
def test_a_wrong_id_lists_what_is_close(env_id: str, told: str) -> None:
    with pytest.raises(EnvironmentNotFoundError, match=told):
        environment_class(env_id)


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("FrozenLake-v1?map_name=9x9", "can't be made: KeyError: '9x9'"),
        ("FrozenLake-v1?desc=3", "can't be made: ValueError"),
        ("CartPole-v1?color=red", "can't be made: .*unexpected keyword argument 'color'"),
        ("FrozenLake-v1?map_name", "to end like"),
        ("Tests/Odd-v0", "Expected a Box, Discrete, .* got Sequence"),
        ("LunarLander-v3", "can't be made: DependencyNotInstalled: Box2D is not installed"),
    ],
)
def test_what_can_not_be_made_says_why(env_id: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        environment_class(env_id)


def test_a_module_is_imported_that_registers_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "import gymnasium\ngymnasium.register('Far-v0', entry_point='gymnasium.envs.toy_text:CliffWalkingEnv')\n"
    (tmp_path / "far_environments.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert environment_class("far_environments:Far-v0").id == "Far-v0"
    del gymnasium.registry["Far-v0"], sys.modules["far_environments"]


async def test_a_copy_that_would_begin_anew_is_refused_and_a_replay_made() -> None:
    made = environment_class("Tests/PickledAnew-v0")
    types = environment_types(made)
    env = made()
    with pytest.raises(EnvironmentFailedError, match="PickledAnewEnv would start from the beginning"):
        copy.deepcopy(env)
    action = {"action": {"move": [1, [True, False]], "say": "ab"}}
    with RunningServer(create_app(made, types.action, types.observation, max_concurrent_envs=2)) as server:
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset(seed=1)
            await client.step(action)
            (twin,) = await client.fork(1)
            assert (await client.step(action)).observation == (await twin.step(action)).observation
            await twin.close()


async def test_each_session_has_a_process_of_its_own() -> None:
    made = environment_class("FrozenLake-v1?is_slippery=true")
    types = environment_types(made)
    app = create_app(made, types.action, types.observation, max_concurrent_envs=2, isolation="process")
    theirs = gymnasium.make("FrozenLake-v1", is_slippery=True)
    with RunningServer(app) as server:
        async with GenericEnvClient(base_url=server.url) as client:
            first = await client.reset(seed=4)
            assert first.observation["observation"] == theirs.reset(seed=4)[0]
            for action in (2, 1, 2):
                result, expected = await client.step({"action": action}), theirs.step(action)
                assert (result.observation["observation"], result.reward, result.done) == expected[:3]
                if result.done:
                    break
    theirs.close()


def test_a_box_is_a_picture_only_where_its_id_says_so() -> None:
    cells, screen = (environment_class(f"Tests/Cells-v0{more}") for more in ("", "?picture=true"))
    schemas = [environment_types(made).observation.model_json_schema() for made in (cells, screen)]
    assert [pixel_fields(schema) for schema in schemas] == [frozenset(), {"observation"}]
    assert pixel_fields_of(environment_types(screen).observation) == {"observation"}
    with RunningServer(create_app(screen)) as server, GymnasiumEnv(server.url) as env:
        assert env.observation_space == CellsEnv.observation_space
        shown, _ = env.reset(seed=1)
        assert shown.tolist() == CellsEnv().reset(seed=1)[0].tolist()


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("CliffWalking-v1?picture=true", "Expected a Box of uint8"),
        ("Pendulum-v1?picture=true", "Expected a picture of uint8"),
        ("Tests/Cells-v0?picture=yes", "expected picture=true or picture=false, got 'yes'"),
    ],
)
def test_what_can_be_no_picture_is_refused(env_id: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        environment_class(env_id)
