"""The client for any environment, in plain dictionaries."""

from collections import OrderedDict
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tests.support.environments.common import Add, PlainAdd
from tests.support.servers import RunningServer

from openenv.core.client.generic import GenericAction, GenericEnvClient


@dataclass
class DataclassAction:
    amount: int


@pytest.mark.parametrize(
    "action",
    [
        {"amount": 2},
        OrderedDict(amount=2),
        MappingProxyType({"amount": 2}),
        GenericAction(amount=2),
        Add(amount=2),
        PlainAdd(amount=2),
        DataclassAction(2),
        SimpleNamespace(amount=2),
    ],
    ids=lambda action: type(action).__name__,
)
def test_an_action_of_any_kind(counter_server: RunningServer, action: Any) -> None:
    with GenericEnvClient(base_url=counter_server.url).sync() as client:
        client.reset()
        result = client.step(action)
        assert result.observation == {"metadata": {}, "total": 2}
        assert (result.reward, result.done, result.metadata) == (2, False, None)
        assert client.state() == {"episode_id": None, "step_count": 1}


@pytest.mark.parametrize("action", [3, None, "text", [1]])
def test_what_is_no_action_is_a_type_error(counter_server: RunningServer, action: Any) -> None:
    with GenericEnvClient(base_url=counter_server.url).sync() as client:
        client.reset()
        with pytest.raises(TypeError):
            client.step(action)
        assert client.step({"amount": 1}).observation["total"] == 1


def test_an_action_that_is_sent_is_not_changed() -> None:
    action = {"amount": [1]}
    payload = GenericEnvClient(base_url="h")._step_payload(action)  # part of the public interface
    payload["x"] = 1
    assert action == {"amount": [1]}


def test_a_model_is_sent_under_the_names_that_its_schema_shows() -> None:
    class Named(BaseModel):
        class_name: str = Field(alias="className")

    payload = GenericEnvClient(base_url="h")._step_payload(Named(className="x"))  # part of the public interface
    assert payload == {"className": "x"}


def test_metadata_is_the_payload_s() -> None:
    client = GenericEnvClient(base_url="h")
    result = client._parse_result({"observation": {"a": 1}, "reward": 0.5, "done": True, "metadata": {"m": 1}})
    assert (result.observation, result.reward, result.done, result.metadata) == ({"a": 1}, 0.5, True, {"m": 1})


def test_generic_action_is_a_dictionary_that_shows_how_it_was_written() -> None:
    action = GenericAction(word="crane", n=1)
    assert action == {"word": "crane", "n": 1}
    assert repr(action) == "GenericAction(word='crane', n=1)"


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.integers() | st.text()))
def test_generic_action_keeps_every_field(fields: dict[str, Any]) -> None:
    assert GenericAction(**fields) == fields
