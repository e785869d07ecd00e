"""Keys of tasks by what they hold."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.tasks.task_keys import content_key

VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(), VALUE, max_size=4))
def test_the_order_of_columns_is_no_part_of_a_key(task: dict[str, object]) -> None:
    assert content_key(dict(reversed(task.items()))) == content_key(task)
    assert content_key({**task, "another": 1}) != content_key({**task, "another": "1"})


def test_values_that_libraries_make_of_the_same_row_have_one_key() -> None:
    assert content_key({"size": 3, "grid": [1, 2]}) == content_key({"size": 3.0, "grid": np.array([1, 2])})
    assert content_key({"day": date(2026, 1, 2), "image": b"\x00"}) != content_key({"day": None, "image": b"\x00"})


@pytest.mark.parametrize("value", [object(), {("a", "b"): 1}], ids=["an object", "a key that is no text"])
def test_what_has_no_form_in_json_has_no_key(value: object) -> None:
    with pytest.raises(ValueError, match="its content makes no key"):
        content_key({"value": value})
