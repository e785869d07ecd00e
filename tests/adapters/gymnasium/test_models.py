"""Actions and observations whose one field is a value of a space."""

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import Space, spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.adapters.gymnasium.test_space_schemas import SPACES, carried

from openenv.adapters.gymnasium.codecs import codec_for_space
from openenv.adapters.gymnasium.models import GymnasiumAction, action_model, observation_model
from openenv.adapters.gymnasium.spaces import action_codec

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=30, deadline=None)
@given(SPACES, st.integers(0, 2**31))
def test_every_sample_is_an_action_and_an_observation(space: Space[Any], seed: int) -> None:
    space.seed(seed)
    value = carried(codec_for_space(space).encode(space.sample()))
    assert action_model("Act", space)(action=value).model_dump()["action"] == value
    assert observation_model("See", space)(observation=value).model_dump()["observation"] == value


@settings(max_examples=60, deadline=None)
@given(SPACES, JSON)
def test_what_is_accepted_is_in_the_space(space: Space[Any], value: Any) -> None:
    model = action_model("Act", space)
    try:
        action = model(action=value)
    except ValidationError as error:
        (fault,) = error.errors()
        assert fault["msg"].startswith("Value error, expected ")
        assert fault["loc"] == ("action",)
    else:
        assert space.contains(codec_for_space(space).decode(action.action))


@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        (spaces.Discrete(2), "1"),
        (spaces.Discrete(2), True),
        (spaces.Discrete(2), 1.5),
        (spaces.Discrete(3, start=-1), 2),
        (spaces.Box(-1, 1, (1,)), [1.01]),
        (spaces.Box(-1, 1, (1,)), [float("nan")]),
        (spaces.Box(-1, 1, (1,)), ["0"]),
        (spaces.Box(-1, 1, (1,)), 0.5),
        (spaces.Box(-1, 1, (1,)), [None]),
        (spaces.Box(0, 255, (2,), np.uint8), [0, 256]),
        (spaces.Box(0, 255, (2,), np.uint8), [0, 0.5]),
        (spaces.Box(0, 255, (2,), np.uint8), [0, 2**80]),
        (spaces.MultiDiscrete([2, 3]), [0, 3]),
        (spaces.MultiBinary(2), [True]),
        (spaces.Text(3, charset="ab"), "abc"),
        (spaces.Dict(a=spaces.Discrete(2)), {}),
        (spaces.Tuple([spaces.Discrete(2)]), [0, 0]),
    ],
)
def test_what_is_not_in_the_space_is_refused(space: Space[Any], wrong: Any) -> None:
    with pytest.raises(ValidationError, match=r"expected .*, got"):
        action_model("Act", space)(action=wrong)


def test_the_schema_is_for_people_and_models() -> None:
    model = action_model("Steer", spaces.Discrete(2), "- 0: left\n- 1: right", "A car.")
    schema = model.model_json_schema()
    assert (schema["title"], schema["description"]) == ("Steer", "A car.")
    assert schema["properties"]["action"]["description"] == "A whole number from 0 to 1.\n\n- 0: left\n- 1: right"
    assert schema["required"] == ["action"]


def test_an_action_goes_to_another_process_without_its_space() -> None:
    action = action_model("Act", spaces.Box(0, 255, (3,), np.uint8))(action=[1, 2, 3], metadata={"note": 1})
    arrived = pickle.loads(pickle.dumps(action))
    assert isinstance(arrived, GymnasiumAction)
    assert (arrived.action, arrived.metadata) == ([1, 2, 3], {"note": 1})


def test_a_codec_reads_the_very_space_off_the_model() -> None:
    space = spaces.Discrete(3, start=-1)
    codec = action_codec(action_model("Act", space))
    assert codec.space == space
    assert codec.encode(np.int64(-1)) == {"action": -1}
