"""Fields of actions that an agent writes freely."""

import pytest

from openenv.core.env_server.mcp_types import Tool
from openenv.validation.semantic.fields import FieldRole, choices_of, is_code, open_fields, role_of

GUESS = Tool(
    name="guess",
    description="Guess.",
    input_schema={
        "type": "object",
        "properties": {"word": {"type": "string"}, "mode": {"enum": ["slow", "fast"]}, "metadata": {"type": "object"}},
        "required": ["word", "mode"],
    },
)
MOVE = Tool(
    name="move",
    description="Move.",
    input_schema={"type": "object", "properties": {"way": {"enum": ["left", "right"]}}, "required": ["way"]},
)


@pytest.mark.parametrize(
    ("name", "schema", "value", "role"),
    [
        ("answer", {"type": "string"}, None, FieldRole.ANSWER),
        ("code", {"type": "string"}, None, FieldRole.CODE),
        ("text", {"type": "string"}, "def f(x):\n    return x\n", FieldRole.CODE),
        ("query", {"type": "string"}, "SELECT 1", FieldRole.SQL),
        ("command", {"type": "string"}, None, FieldRole.SHELL),
        ("path", {"type": "string"}, None, FieldRole.PATH),
        ("action", {"type": "string"}, "click('a')", FieldRole.BROWSER),
        ("amount", {"type": "number"}, None, FieldRole.NUMBER),
        ("rows", {"type": "array"}, None, FieldRole.VALUES),
        ("way", {"enum": ["left"]}, None, None),
        ("digit", {"type": "integer", "minimum": 1, "maximum": 9}, None, None),
    ],
)
def test_a_field_has_a_role(name: str, schema: dict[str, object], value: object, role: FieldRole | None) -> None:
    assert role_of(name, schema, value) is role


def test_open_fields_are_those_without_a_list_of_values() -> None:
    (field,) = open_fields([GUESS, MOVE], {"guess": {"word": "crane", "mode": "fast"}})
    assert (field.label, field.role, field.others) == ("guess.word", FieldRole.ANSWER, {"mode": "fast"})


def test_choices_are_the_arguments_of_tools_without_open_fields() -> None:
    assert choices_of([GUESS, MOVE]) == {"move": [{"way": "left"}, {"way": "right"}]}


def test_prose_is_no_code() -> None:
    assert not is_code("a river")
    assert not is_code("river")
    assert is_code("import os")
