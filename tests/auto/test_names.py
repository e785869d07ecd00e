"""The forms of an environment's name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.auto.names import class_prefix, environment_key


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


@given(st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True))
def test_every_form_of_a_name_has_one_key(name: str) -> None:
    forms = {name, name.upper(), name.replace("_", "-"), name.replace("_", "."), name.capitalize()}
    assert {environment_key(form) for form in forms} == {environment_key(name)}


def test_the_suffix_may_be_left_out() -> None:
    assert {environment_key(name) for name in ("wordle", "wordle_env", "wordle-env", "Wordle-Env")} == {"wordle"}
