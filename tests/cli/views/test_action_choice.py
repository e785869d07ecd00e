"""Which actions and tools a person may choose from; ``test_play`` covers the asking."""

import io
from contextlib import suppress
from typing import Any, Literal

import pytest
from rich.console import Console

from openenv.cli.views.action_choice import action_kinds, form_of, refuses_listing, tool_kinds
from openenv.cli.views.action_form import QuitGameError
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


def kind(name: str, **fields: Any) -> dict[str, Any]:
    """A tool whose fields without a default are required."""
    required = [field for field, schema in fields.items() if "default" not in schema]
    return {"name": name, "description": f"{name}.", "input_schema": {"properties": fields, "required": required}}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
SEVERAL = [
    kind("guess", word=TEXT, hard={"type": "boolean", "default": False}),
    kind("move", way={"enum": ["left", "right", "leap"]}, steps=NUMBER),
    kind("mull", over={"type": "string", "default": ""}),
    kind("wait"),
]


def asked(monkeypatch: pytest.MonkeyPatch, tools: list[dict[str, Any]], *typed: str) -> tuple[list[Any], str]:
    """What comes of the lines that somebody types, and what that person sees."""
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in typed)))
    screen = io.StringIO()
    form = form_of(tool_kinds(tools), Console(file=screen, width=200))
    form.show_help()
    calls: list[Any] = []
    with suppress(QuitGameError):
        while True:
            step = form.fill()
            calls.append((step["tool_name"], step["arguments"]))
    return calls, screen.getvalue()


@pytest.mark.parametrize(
    ("typed", "call"),
    [
        (["guess crane"], ("guess", {"word": "crane"})),
        (["g two words"], ("guess", {"word": "two words"})),
        (["g a\\", "b"], ("guess", {"word": "a\nb"})),
        (["guess", "crane", "true"], ("guess", {"word": "crane", "hard": True})),
        (["mo ri", "3"], ("move", {"way": "right", "steps": 3})),
        (["mull over it"], ("mull", {"over": "over it"})),
        (["w"], ("wait", {})),
    ],
)
def test_one_line_is_a_move_where_it_can_be(monkeypatch: pytest.MonkeyPatch, typed: list[str], call: Any) -> None:
    calls, _ = asked(monkeypatch, SEVERAL, *typed)
    assert calls == [call]


def test_what_is_wrong_is_said_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = ["m left", "wait now", "move l", "lef", "x", "1", "?", "wait"]
    calls, seen = asked(monkeypatch, SEVERAL, *typed)
    assert calls == [("move", {"way": "left", "steps": 1}), ("wait", {})]
    assert "expected one of guess, move, mull, wait; got 'm'" in seen
    assert "wait takes no value; type its name alone." in seen
    assert "expected one of left, right, leap; got 'l'" in seen
    assert "A value may follow the name, as in `guess VALUE`." in seen


def test_the_only_tool_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, seen = asked(monkeypatch, SEVERAL[1:2], "r", "2", "", "")
    assert calls == [("move", {"way": "right", "steps": 2})]
    assert "move." in seen
    assert "tool" not in seen
