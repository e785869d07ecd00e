"""Names by which other processes import classes that are made from an id."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.adapters.class_names import class_by_name, name_classes


@given(st.text())
def test_a_name_says_what_to_make(env_id: str) -> None:
    made = type("Made", (), {})
    name_classes(SimpleNamespace(action=made), "some.module", env_id)
    assert "." not in made.__qualname__
    again = {env_id: SimpleNamespace(action=made)}
    assert class_by_name("some.module", made.__qualname__, again.__getitem__) is made


@pytest.mark.parametrize("name", ["__path__", "action", "action(", "a b(c)", "(c)"])
def test_other_names_are_no_attributes(name: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute"):
        class_by_name("some.module", name, str)
