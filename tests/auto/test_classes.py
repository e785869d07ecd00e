"""Names of classes that follow from an environment's name; ``test_package`` covers the search for classes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.auto.classes import class_prefix


@pytest.mark.parametrize(
    ("name", "prefix"),
    [("my_env", "My"), ("my_cool_game", "MyCoolGame"), ("my_cool_env", "MyCool"), ("env", "Env"), ("a2c_env", "A2c")],
)
def test_prefix(name: str, prefix: str) -> None:
    assert class_prefix(name) == prefix


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,20}", fullmatch=True))
def test_a_prefix_makes_a_class_name(name: str) -> None:
    assert f"{class_prefix(name)}Action".isidentifier()
    assert class_prefix(name)
