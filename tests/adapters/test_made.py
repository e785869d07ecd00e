"""Names by which other processes import classes that are made from an id."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.adapters.made import made_from, name_made_class


@given(st.text())
def test_a_name_says_what_to_make(env_id: str) -> None:
    made = type("Made", (), {})
    name_made_class(made, "some.module", "action", env_id)
    assert "." not in made.__qualname__
    assert made_from("some.module", made.__qualname__) == ("action", env_id)


@pytest.mark.parametrize("name", ["__path__", "action", "action(", "a b(c)", "(c)"])
def test_other_names_are_no_attributes(name: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute"):
        made_from("some.module", name)
