"""Values of spaces that were given as JSON and back."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import InvalidAction
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from openenv.adapters.gymnasium.codecs import Choices, codec_for_space, flattened, nested
from openenv.core.exceptions import ConfigurationError

SPACES: list[spaces.Space[Any]] = [
    spaces.Box(-1, 1, (2, 3), np.float32),
    spaces.Box(-1, 1, (2,), np.float64),
    spaces.Box(0, 255, (4, 4, 3), np.uint8),
    spaces.Box(0, 1, (0,), np.float32),
    spaces.Discrete(3, start=-1),
    spaces.Discrete(3, dtype=np.int8),
    spaces.MultiDiscrete([2, 3], np.int8),
    spaces.Tuple([spaces.Discrete(32), spaces.Dict(flags=spaces.MultiBinary(2))]),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[0, -1], [5, 2]])),
    spaces.MultiBinary((2, 2)),
    spaces.MultiBinary(3),
    spaces.Text(5),
    spaces.Dict(inner=spaces.Dict(x=spaces.Box(0, 1, (1,))), number=spaces.Discrete(2)),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_values_of_a_space_come_back_as_they_were(space: spaces.Space[Any]) -> None:
    codec = codec_for_space(space)
    space.seed(3)
    for _ in range(20):
        value = space.sample()
        assert data_equivalence(codec.decode(from_json(to_json(codec.encode(value)))), value, exact=True)


def test_values_are_sent_as_they_are() -> None:
    assert codec_for_space(spaces.Discrete(3, start=5)).encode(np.int64(6)) == 6
    assert codec_for_space(spaces.MultiDiscrete([3, 2], start=[1, -1])).encode(np.array([2, -1])) == [2, -1]
    assert codec_for_space(spaces.MultiBinary(2)).encode(np.array([1, 0], np.int8)) == [True, False]
    assert codec_for_space(spaces.Box(0, 1, (2,))).encode(np.array([0.5, 1.0])) == [0.5, 1.0]


@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        (spaces.Box(0, 1, (1,)), ["1"]),
        (spaces.Box(0, 9, (1,), np.int64), [1.5]),
        (spaces.Box(0, 255, (1,), np.uint8), [256]),
        (spaces.Box(0, 255, (1,), np.uint8), [float("nan")]),
    ],
)
def test_numbers_are_not_made_to_fit(space: spaces.Space[Any], wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"expected (whole )?numbers"):
        codec_for_space(space).decode(wrong)


@pytest.mark.parametrize("number", [4, 8, -1])
def test_a_number_outside_of_its_space(number: int) -> None:
    with pytest.raises(InvalidAction, match=f"Expected a number from 0 to 2, got {number - 5}"):
        codec_for_space(spaces.Discrete(3, start=5)).encode(number)


def test_a_space_that_has_no_form_in_json() -> None:
    with pytest.raises(ConfigurationError, match=r"got Sequence\(.*pass a converter as well: encode_action or decode"):
        codec_for_space(spaces.Sequence(spaces.Discrete(2)))


@pytest.mark.parametrize("values", [range(3, 12, 4), range(2), (True, 1, 1.0, "1", None)], ids=str)
def test_choices_tell_values_of_different_types_apart(values: Any) -> None:
    choices = Choices(values)
    assert [choices.number(value) for value in values] == list(range(len(values)))
    for other in ("3", 4, False, 12, 0.0, [1]):
        with pytest.raises((TypeError, ValueError)):
            choices.number(other)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_nested_lists_are_flattened_and_laid_out_again(shape: list[int]) -> None:
    values = list(range(int(np.prod(shape))))
    lists = nested(values, tuple(shape))
    assert np.shape(lists) == tuple(shape)
    assert flattened(lists, tuple(shape)) == values
    with pytest.raises(ValueError, match="expected lists of the shape"):
        flattened(lists, (*shape[:-1], shape[-1] + 1))
