"""Spaces as JSON Schemas and back."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import Space, spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from jsonschema import Draft202012Validator

from openenv.adapters.gymnasium.codecs import codec_for_space
from openenv.adapters.gymnasium.space_schemas import HINT, describe_space, space_from_schema, space_schema
from openenv.adapters.gymnasium.spaces import action_codec, observation_codec
from openenv.core.exceptions import ConfigurationError

SHAPES = npst.array_shapes(min_dims=0, max_dims=3, max_side=3)
INTEGERS = st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16])


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Box:
    dtype: Any = np.dtype(draw(st.sampled_from([np.float32, np.float64]) | INTEGERS))
    shape = draw(SHAPES)
    if dtype.kind == "f":
        elements: dict[str, Any] = {"min_value": -1e6, "max_value": 1e6}
    else:
        # Gymnasium draws floats for samples and rounds them, which larger numbers do not survive.
        limits, exact = np.iinfo(dtype), 2**53
        elements = {"min_value": max(int(limits.min), -exact), "max_value": min(int(limits.max), exact)}
    first, second = (draw(npst.arrays(dtype, shape, elements=elements)) for _ in range(2))
    low, high = np.minimum(first, second), np.maximum(first, second)
    if dtype.kind == "f" and draw(st.booleans()):
        low = np.where(draw(npst.arrays(np.bool_, shape)), low, -np.inf).astype(dtype)
        high = np.where(draw(npst.arrays(np.bool_, shape)), high, np.inf).astype(dtype)
    return spaces.Box(low, high, shape, dtype.type)


@st.composite
def multi_discretes(draw: st.DrawFn) -> spaces.MultiDiscrete[Any]:
    shape = draw(npst.array_shapes(max_dims=2, max_side=3))
    counts = draw(npst.arrays(np.int64, shape, elements=st.integers(1, 9)))
    starts = draw(npst.arrays(np.int64, shape, elements=st.integers(-9, 9)))
    dtype = draw(st.sampled_from([np.int8, np.int64]))
    return spaces.MultiDiscrete(counts, dtype, start=starts)


SIMPLE = (
    boxes()
    | multi_discretes()
    | st.builds(
        spaces.Discrete, st.integers(1, 100), start=st.integers(-20, 20), dtype=st.sampled_from([np.int8, np.int64])
    )
    | st.builds(spaces.MultiBinary, st.integers(1, 4) | st.lists(st.integers(1, 3), min_size=1, max_size=2))
    | st.builds(
        spaces.Text,
        st.integers(3, 9),
        min_length=st.integers(0, 3),
        # Gymnasium draws characters as NumPy's strings, which lose a NUL at their end.
        charset=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1).map(
            lambda text: "".join(sorted(set(text)))
        ),
    )
)
SPACES: st.SearchStrategy[Space[Any]] = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple)
        | st.dictionaries(st.text(min_size=1), inner, min_size=1, max_size=3).map(spaces.Dict)
    ),
    max_leaves=4,
)


def carried(value: Any) -> Any:
    return json.loads(json.dumps(value))


@settings(max_examples=150, deadline=None)
@given(SPACES)
@example(spaces.Text(3, charset="\0a"))
@example(spaces.Box(np.iinfo(np.int64).min, np.iinfo(np.int64).max, (2,), np.int64))
def test_a_space_comes_back_from_its_schema(space: Space[Any]) -> None:
    assert space_from_schema(carried(space_schema(space))) == space


@settings(max_examples=150, deadline=None)
@given(SPACES, st.integers(0, 2**31))
def test_a_sample_fits_the_schema_and_comes_back(space: Space[Any], seed: int) -> None:
    schema, codec = carried(space_schema(space)), codec_for_space(space)
    space.seed(seed)
    sample = space.sample()
    written = carried(codec.encode(sample))
    Draft202012Validator(schema).validate(written)
    back = codec.decode(written)
    assert space.contains(back)
    assert carried(codec.encode(back)) == written


@settings(max_examples=50, deadline=None)
@given(SPACES)
def test_readers_of_models_find_the_very_space(space: Space[Any]) -> None:
    schema = {"type": "object", "properties": {"value": space_schema(space)}, "required": ["value"]}
    assert action_codec(schema).space == space
    assert observation_codec(schema).space == space


@settings(max_examples=50, deadline=None)
@given(SPACES)
def test_every_space_has_words(space: Space[Any]) -> None:
    assert describe_space(space).startswith(("a ", "an ", "text of "))


def test_the_words_say_what_is_legal() -> None:
    box = spaces.Box(np.array([-1, -np.inf], np.float32), np.array([0.5, np.inf], np.float32))
    assert describe_space(box) == "a list of 2 numbers, from -1 to 0.5, of any size"
    assert describe_space(spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary((2, 3))])) == (
        "a list of a whole number from 0 to 1; a list of 2 lists of 3 flags, true or false"
    )
    assert describe_space(spaces.Dict(a=spaces.Box(0, 255, (), np.uint8))) == (
        "an object of a: a whole number from 0 to 255"
    )


def test_a_large_picture_has_a_small_schema() -> None:
    assert len(json.dumps(space_schema(spaces.Box(0, 255, (210, 160, 3), np.uint8)))) < 500


@pytest.mark.parametrize("space", [spaces.Sequence(spaces.Discrete(2)), spaces.OneOf([spaces.Discrete(2)])])
def test_other_kinds_are_told(space: Space[Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"Expected a Box, Discrete, .* or Tuple space, got"):
        space_schema(space)


def test_a_kind_of_a_newer_server_is_told() -> None:
    with pytest.raises(ConfigurationError, match="'Hyper', which is not known here; upgrade openenv-core"):
        space_from_schema({HINT: {"space": "Hyper"}})
