"""Infos as JSON and back."""

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from openenv.adapters.gymnasium.infos import ARRAYS, plain_info, restored_info

ARRAY_VALUES = npst.arrays(
    st.sampled_from([np.bool_, np.int8, np.int64, np.uint8, np.float32, np.float64]),
    npst.array_shapes(min_dims=0, min_side=0, max_side=3),
)
PLAIN_VALUES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats()
VALUES = st.recursive(
    PLAIN_VALUES | ARRAY_VALUES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
)


@given(st.dictionaries(st.text().filter(lambda name: name != ARRAYS), VALUES, max_size=4))
def test_arrays_come_back_as_arrays(info: dict[str, Any]) -> None:
    carried = json.loads(json.dumps(plain_info(info), allow_nan=False))
    assert_equal(restored_info(carried), info)


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(other, dict):
        assert one.keys() == other.keys()
        for name in other:
            assert_equal(one[name], other[name])
    elif isinstance(other, list):
        for part, other_part in zip(one, other, strict=True):
            assert_equal(part, other_part)
    elif isinstance(other, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other or (one != one and other != other)


def test_numbers_of_numpy_are_plain_ones_and_odd_things_are_text() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    info: dict[Any, Any] = {
        "a": np.float64(0.5),
        "b": np.bool_(True),
        "c": (1, 2),
        3: Odd(),
        "d": np.array(["x"]),
    }
    assert plain_info(info) == {
        "a": 0.5,
        "b": True,
        "c": [1, 2],
        "3": "odd",
        "d": ["x"],
    }


def test_another_servers_metadata_stays_as_it_is() -> None:
    assert restored_info({"numpy": "1.26", "a": [1]}) == {"numpy": "1.26", "a": [1]}
