"""Which actions and tools a person may choose from; ``test_play`` covers the asking."""

from typing import Literal

import pytest
from rich.console import Console

from openenv.cli.action_choice import action_kinds, form_of, refuses_listing, tool_kinds
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Action
from openenv.core.exceptions import ConfigurationError


class GuessAction(Action):
    """Guess."""

    word: str


class Give(Action):
    type: Literal["give"] = "give"
    up: bool


class Anything(Action):
    note: str = ""


def test_kinds_have_the_names_that_agents_have_for_them() -> None:
    (kind,) = action_kinds(GuessAction.model_json_schema())
    assert (kind.name, kind.description) == ("guess", "Guess.")
    (beside_a_tool,) = action_kinds(GuessAction.model_json_schema(), frozenset({"guess"}))
    assert beside_a_tool.name != "guess"
    union = {
        "anyOf": [{"$ref": "#/$defs/GuessAction"}, {"$ref": "#/$defs/Give"}],
        "$defs": {cls.__name__: cls.model_json_schema() for cls in (GuessAction, Give)},
    }
    assert [kind.name for kind in action_kinds(union)] == ["guess", "give"]


def test_constants_are_sent_and_not_asked_for() -> None:
    (kind,) = action_kinds(Give.model_json_schema())
    assert kind.step({"up": True}) == {"type": "give", "up": True}


def test_a_call_of_a_tool_is_no_action_of_its_own() -> None:
    assert action_kinds(CallToolAction.model_json_schema()) == []
    (tool,) = tool_kinds([{"name": "look", "description": "Look.", "input_schema": {"properties": {}}}])
    assert tool.step({"at": "it"}) == {"type": "call_tool", "tool_name": "look", "arguments": {"at": "it"}}


def test_a_server_is_asked_for_its_tools_only_where_that_does_nothing_else() -> None:
    for cls in (GuessAction, Give, CallToolAction):
        assert refuses_listing(cls.model_json_schema())
    open_to_all = {"title": "Anything", "properties": {"note": {"type": "string"}}}
    assert not refuses_listing(open_to_all)
    assert refuses_listing(Anything.model_json_schema())


def test_without_actions_and_tools_there_is_nothing_to_play() -> None:
    with pytest.raises(ConfigurationError, match="offers no tools"):
        form_of([], Console())
