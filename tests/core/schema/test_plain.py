"""Schemas in one form."""

from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter

from openenv.core.schema.hints import hint_of
from openenv.core.schema.plain import plain_schema


class Way(BaseModel):
    way: Literal["left"]
    then: "Way | None" = None


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        (True, {}),
        (False, {"not": {}}),
        ({"title": "N", "x-own": 1, "type": "integer"}, {"type": "integer"}),
        ({"const": 3}, {"type": "integer", "enum": [3]}),
        ({"allOf": [{"type": "string"}], "description": "It."}, {"type": "string", "description": "It."}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"type": ["integer", "string"]}),
    ],
)
def test_one_form(schema: Any, plain: dict[str, Any]) -> None:
    assert plain_schema(schema, {}) == plain


def test_references_are_followed_but_recursive_ones() -> None:
    root = Way.model_json_schema()
    fields = plain_schema(root, root)["properties"]
    assert fields["way"] == {"type": "string", "enum": ["left"]}
    assert fields["then"] == {"$ref": "#/$defs/Way", "nullable": True, "default": None}


@pytest.mark.parametrize("hint", [int, str | None, list[str], dict[str, int], Literal["a", 2], list[Literal[1, None]]])
def test_the_hint_of_pydantic_s_schema_is_the_hint(hint: Any) -> None:
    root = TypeAdapter(hint).json_schema()
    assert hint_of(plain_schema(root, root)) == hint
