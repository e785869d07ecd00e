"""Actions and observations as dictionaries."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.environments.common import Add, PlainTotal, Shown, Total

from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.env_server.serialization import (
    deserialize_action,
    deserialize_action_with_preprocessing,
    serialize_observation,
)
from openenv.core.env_server.types import Action
from openenv.core.exceptions import EnvironmentFailedError


def test_metadata_stands_inside_and_beside() -> None:
    assert serialize_observation(Total(total=1, reward=True, done=True, metadata={"m": 1})) == {
        "observation": {"metadata": {"m": 1}, "total": 1},
        "reward": True,
        "done": True,
        "metadata": {"m": 1},
    }


def test_empty_metadata_stands_inside_only() -> None:
    assert serialize_observation(Total(total=1)) == {
        "observation": {"metadata": {}, "total": 1},
        "reward": None,
        "done": False,
    }


def test_a_plain_model() -> None:
    assert serialize_observation(PlainTotal(total=1)) == {"observation": {"total": 1}, "reward": None, "done": False}


@given(st.floats())
def test_numbers_that_json_has_not_are_null(value: float) -> None:
    shown = serialize_observation(Shown(value=value))["observation"]["value"]
    assert shown == (value if abs(value) < float("inf") else None)


@pytest.mark.parametrize("value", [pytest.param(object(), id="object"), "\ud800", b"\xff"], ids=repr)
def test_what_cannot_be_sent(value: Any) -> None:
    with pytest.raises(EnvironmentFailedError, match="cannot be sent as JSON"):
        serialize_observation(Shown(value=value))


def test_bytes_that_cannot_be_sent_say_how_they_can() -> None:
    with pytest.raises(EnvironmentFailedError, match="declare Annotated"):
        serialize_observation(Shown(value=b"\xff"))
    assert serialize_observation(Shown(value=b"a"))["observation"]["value"] == "a"


def test_deserialize_action() -> None:
    assert deserialize_action({"amount": 2}, Add) == Add(amount=2)
    assert deserialize_action(action_data={"amount": 2}, action_cls=Add) == Add(amount=2)


@pytest.mark.parametrize("data", [{}, {"amount": "x"}, {"amount": 1, "x": 1}, {"type": "call_tool", "tool_name": "t"}])
def test_fields_that_do_not_fit(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        deserialize_action(data, Add)


class OwnCall(Action):
    """Makes actions by a method of its own."""

    several: list[str]
    type: str = "call_tool"

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Any:
        if obj.get("type") == "list_tools":
            return ListToolsAction.model_validate(obj)
        if "several" not in obj:
            raise KeyError("several")
        return super().model_validate(obj, **options)


def test_a_class_s_own_model_validate_comes_before_the_actions_of_tools_as_on_servers() -> None:
    made = deserialize_action({"type": "call_tool", "several": ["a"]}, OwnCall)
    assert made == OwnCall(several=["a"])
    fields = {"type": "call_tool", "tool_name": "a", "arguments": {}}
    assert deserialize_action(fields, OwnCall) == CallToolAction(tool_name="a", arguments={})
    assert deserialize_action({"type": "list_tools"}, OwnCall) == ListToolsAction()
    with pytest.raises(ValidationError):
        deserialize_action({"type": "call_tool"}, OwnCall)


@pytest.mark.parametrize("kind", [Action, CallToolAction, ListToolsAction])
def test_the_classes_of_tools_make_each_other(kind: type[Action]) -> None:
    assert deserialize_action({"type": "list_tools"}, kind) == ListToolsAction()
    made = deserialize_action({"type": "call_tool", "tool_name": "a", "arguments": {"b": 1}}, kind)
    assert made == CallToolAction(tool_name="a", arguments={"b": 1})


class Typed(Action):
    """Action with a number, as a form of the web sends it."""

    action_id: int


class TestFormFields:
    def test_arguments_of_a_tool_call_are_read_as_json(self) -> None:
        fields = {"type": "call_tool", "tool_name": "add", "arguments": '{"a": 1}'}
        assert deserialize_action_with_preprocessing(fields, CallToolAction) == CallToolAction(
            tool_name="add", arguments={"a": 1}
        )

    def test_an_empty_field_of_arguments_is_no_arguments(self) -> None:
        fields = {"type": "call_tool", "tool_name": "add", "arguments": ""}
        assert deserialize_action_with_preprocessing(fields, Action) == CallToolAction(tool_name="add")

    def test_an_action_id_becomes_a_number(self) -> None:
        assert deserialize_action_with_preprocessing({"action_id": "3"}, Typed) == Typed(action_id=3)

    @pytest.mark.parametrize("text", ["", "left", "1.5", "[1]"])
    def test_other_text_is_refused_by_the_class(self, text: str) -> None:
        with pytest.raises(ValidationError):
            deserialize_action_with_preprocessing({"action_id": text}, Typed)
