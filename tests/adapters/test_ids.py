"""Ids with parameters, and what is close to a wrong one."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.adapters.ids import class_name, did_you_mean, import_registering, read_id, short_name
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def test_an_id_without_parameters_stays_as_it_is() -> None:
    assert read_id("ale_py:ALE/Pong-v5") == ("ale_py:ALE/Pong-v5", {})


@given(parameters=st.dictionaries(st.text(min_size=1), JSON, max_size=4))
def test_parameters_are_json(parameters: dict[str, object]) -> None:
    query = "&".join(
        f"{quote(name, safe='')}={quote(json.dumps(value), safe='')}" for name, value in parameters.items()
    )
    assert read_id(f"Game-v1?{query}") == ("Game-v1", parameters)


def test_what_is_no_json_is_text() -> None:
    assert read_id("Game-v1?map_name=8x8&empty=&eval=import os").parameters == {
        "map_name": "8x8",
        "empty": "",
        "eval": "import os",
    }
    deep = "[" * 100_000
    assert read_id(f"Game-v1?a={deep}").parameters == {"a": deep}


@pytest.mark.parametrize("env_id", ["Game-v1?seed", "Game-v1?a=1&&b=2"])
def test_a_parameter_without_a_value_is_told(env_id: str) -> None:
    with pytest.raises(ConfigurationError, match=r"to end like \?name=value&other=value"):
        read_id(env_id)


def test_close_matches_are_found_whatever_the_case() -> None:
    known = ["CartPole-v1", "Taxi-v4"]
    assert did_you_mean("cartpole-v0", known) == " Did you mean CartPole-v1?"
    assert did_you_mean("zzz", known) == ""


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("CartPole-v1", "CartPole-v1"),
        ("ALE/Pong-v5?mode=1", "ALE/Pong-v5"),
        ("my_pkg.games:Maze-v1?file=/home/ann/a:b", "Maze-v1"),
        ("https://example.com:8080/ors/?split=test", "example.com:8080/ors"),
        ("", ""),
    ],
)
def test_a_short_name_tells_nothing_but_the_name(env_id: str, name: str) -> None:
    assert short_name(env_id) == name


def test_a_module_before_the_id_is_imported() -> None:
    assert import_registering("json:Game-v1") == import_registering("Game-v1") == "Game-v1"
    with pytest.raises(EnvironmentNotFoundError, match=r"imports the module json\.nothing, but there is no json"):
        import_registering("json.nothing:Game-v1")


@pytest.mark.parametrize("env_id", [":x", "..:x", ".a:x", "a/b:x", "a b:x", "a\0:x", "a::x", "1:x"])
def test_what_can_be_no_module_is_not_imported(env_id: str) -> None:
    with pytest.raises(EnvironmentNotFoundError, match="Expected MODULE:ID"):
        import_registering(env_id)


@given(st.text())
def test_every_id_gives_a_class_a_name(env_id: str) -> None:
    assert class_name(env_id).isidentifier()
