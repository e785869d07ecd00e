"""Pieces of manifests."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.kubernetes.manifests import (
    check_name,
    image_name,
    name_from,
    overlay,
    quantity,
    resources_of,
)
from openenv.core.providers.resources import Resources

JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(st.text(), st.integers(1, 63))
def test_any_text_becomes_a_name_that_kubernetes_takes(text: str, room: int) -> None:
    name = name_from(text, room)
    assert check_name(name, "name") == name


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("echo", "echo"),
        ("echo:1", "echo"),
        ("localhost:5000/echo", "echo"),
        ("registry.test:5000/a/b/echo-env:v1@sha256:00", "echo-env"),
        ("registry.hf.space/openenv-echo:latest", "openenv-echo"),
    ],
)
def test_an_image_is_called_by_its_last_part(image: str, name: str) -> None:
    assert image_name(image) == name


@given(OBJECTS)
def test_no_change_leaves_a_manifest_as_it_is(manifest: dict[str, Any]) -> None:
    assert overlay(manifest, {}) == manifest


@given(OBJECTS, OBJECTS)
def test_a_change_made_twice_is_a_change_made_once(manifest: dict[str, Any], change: dict[str, Any]) -> None:
    once = overlay(manifest, change)
    assert overlay(once, change) == once


def test_overlaying_changes_neither_of_the_two() -> None:
    manifest = {"containers": [{"name": "server", "env": [{"name": "A", "value": "1"}]}]}
    change = {"containers": [{"name": "server", "env": [{"name": "B", "value": "2"}]}, {"name": "sidecar"}]}
    before = repr((manifest, change))

    assert [entry["name"] for entry in overlay(manifest, change)["containers"]] == ["server", "sidecar"]
    assert repr((manifest, change)) == before


def test_lists_without_names_are_replaced() -> None:
    assert overlay({"args": ["a"]}, {"args": ["b", "c"]}) == {"args": ["b", "c"]}
    assert overlay({"env": [{"name": "A"}]}, {"env": [{"value": 1}]}) == {"env": [{"value": 1}]}


@given(st.integers(1, 2**50))
def test_an_amount_of_memory_is_written_exactly(size: int) -> None:
    text = quantity(size)
    assert (int(text[:-2]) * 1024 * 1024 if text.endswith("Mi") else int(text)) == size


def test_docker_s_512m_is_not_taken_for_kubernetes_half_a_byte() -> None:
    assert resources_of(Resources(memory="512m")) == {"requests": {"memory": "512Mi"}, "limits": {"memory": "512Mi"}}


def test_resources_that_say_nothing_limit_nothing() -> None:
    assert resources_of(Resources()) == {}


def test_processes_can_t_be_limited() -> None:
    with pytest.raises(ConfigurationError, match="got pids=5"):
        resources_of(Resources(pids=5))
