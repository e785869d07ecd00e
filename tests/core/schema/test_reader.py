"""The reader of JSON Schema: references, members of unions, constants and values."""

from typing import Annotated, Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel, Field

from openenv.core.schema.reader import (
    allows_null,
    calls_tool,
    concerns_tools,
    constants,
    finite_values,
    image_fields,
    members,
    pixel_fields,
    resolved,
    target,
)
from openenv.core.wire.actions import action_model
from openenv.core.wire.array_fields import MediaType, NDArray, pixel_fields_of
from openenv.core.wire.mcp_types import CallToolAction, ListToolsAction


class Guess(BaseModel):
    kind: Literal["guess"] = "guess"
    word: str


class Hint(BaseModel):
    kind: Literal["hint"] = "hint"
    letter: Annotated[int, Field(ge=1, le=5)] | None = None


def schema_of(annotation: Any) -> dict[str, Any]:
    model = action_model(annotation)
    assert model is not None
    return model.model_json_schema()


class TestTarget:
    def test_a_pointer_with_escaped_names(self) -> None:
        assert target("#/$defs/a~1b~0c", {"$defs": {"a/b~c": {"type": "string"}}}) == {"type": "string"}

    @pytest.mark.parametrize("reference", ["#/$defs/Other", "#/$defs/Guess/word/type", "https://example.org/schema"])
    def test_nothing_is_there(self, reference: str) -> None:
        assert target(reference, {"$defs": {"Guess": {"word": "x"}}}) is None


class TestResolved:
    def test_the_field_s_own_keys_win(self) -> None:
        root = {"$defs": {"Way": {"enum": ["left", "right"], "description": "A way."}}}

        assert resolved({"$ref": "#/$defs/Way", "description": "Where to go."}, root) == {
            "enum": ["left", "right"],
            "description": "Where to go.",
        }

    def test_one_alternative_beside_null(self) -> None:
        assert resolved({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, {}) == {
            "type": "integer",
            "default": None,
            "nullable": True,
        }

    def test_references_of_several_alternatives(self) -> None:
        root = {"$defs": {"Way": {"enum": ["left", "right"]}}}
        field = {"anyOf": [{"$ref": "#/$defs/Way"}, {"type": "boolean"}, {"type": "null"}]}
        found = resolved(field, root)
        assert found == {"anyOf": [{"enum": ["left", "right"]}, {"type": "boolean"}, {"type": "null"}]}
        assert finite_values(found, 9) == ["left", "right", False, True, None]

    def test_several_alternatives_stay(self) -> None:
        field = {"anyOf": [{"type": "integer"}, {"type": "string"}]}

        assert resolved(field, {}) == field

    @pytest.mark.parametrize("reference", ["#/$defs/Loop", "#/$defs/Missing"])
    def test_a_reference_that_leads_nowhere_stays(self, reference: str) -> None:
        root = {"$defs": {"Loop": {"$ref": "#/$defs/Loop"}}}

        assert resolved({"$ref": reference}, root) == {"$ref": reference}


class TestMembers:
    def test_one_class(self) -> None:
        schema = schema_of(Guess)

        assert [(member.name, member.schema["properties"]) for member in members(schema)] == [
            ("Guess", schema["properties"])
        ]

    @pytest.mark.parametrize("union", [Guess | Hint, Annotated[Guess | Hint, Field(discriminator="kind")]])
    def test_a_union_in_its_order(self, union: Any) -> None:
        found = members(schema_of(union))

        assert [member.name for member in found] == ["Guess", "Hint"]
        assert found[1].schema["properties"].keys() == {"kind", "letter"}
        assert found[1].schema["$defs"].keys() == {"Guess", "Hint"}

    def test_unions_within_a_union(self) -> None:
        schema = {
            "anyOf": [{"$ref": "#/$defs/Inner"}, {"title": "Pass", "properties": {}}],
            "$defs": {"Inner": {"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]}, "A": {}, "B": {"title": "b"}},
        }

        assert [member.name for member in members(schema)] == ["A", "B", "Pass"]

    def test_a_union_that_has_itself_as_a_member(self) -> None:
        union = {"anyOf": [{"$ref": "#/$defs/U"}, {"$ref": "#/$defs/A"}]}

        assert [member.name for member in members({**union, "$defs": {"U": union, "A": {"title": "A"}}})] == ["A", "A"]


def test_constants_are_fields_with_one_value() -> None:
    assert constants(schema_of(Guess)) == {"kind": "guess"}


@pytest.mark.parametrize(
    ("model", "calls", "concerns"),
    [(CallToolAction, True, True), (ListToolsAction, False, True), (Guess, False, False)],
)
def test_actions_that_concern_tools(model: type[BaseModel], calls: bool, concerns: bool) -> None:
    schema = model.model_json_schema()

    assert (calls_tool(schema), concerns_tools(schema)) == (calls, concerns)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ({"const": 3}, [3]),
        ({"enum": ["left", "right"]}, ["left", "right"]),
        ({"type": "boolean"}, [False, True]),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 2, 3]),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2}, [1]),
        ({"type": "integer", "minimum": 0, "maximum": 10}, None),
        ({"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 5}, [0, 5, 10]),
        ({"type": "integer", "minimum": -5, "exclusiveMaximum": 4, "multipleOf": 4, "nullable": True}, [-4, 0, None]),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": 0, "maximum": 5, "exclusiveMaximum": 3}, [1, 2]),
        ({"type": "integer", "minimum": 0.5, "maximum": 2.5}, [1, 2]),
        ({"type": "integer", "minimum": 0}, None),
        ({"type": "string"}, None),
    ],
)
def test_finite_values(field: dict[str, Any], values: list[Any] | None) -> None:
    assert finite_values(field, 10) == values


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        (True, True),
        (False, False),
        ({}, True),
        ({"type": "null"}, True),
        ({"type": ["integer", "null"]}, True),
        ({"enum": ["left", None]}, True),
        ({"enum": ["left", "null"]}, False),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True),
        ({"type": "string", "nullable": True}, True),
        ({"type": "string"}, False),
        ({"const": 3}, False),
        ({"$ref": "#/$defs/Way"}, False),
    ],
)
def test_null_is_allowed(schema: Any, allowed: bool) -> None:
    assert allows_null(schema) is allowed


class Shown(BaseModel):
    screen: Annotated[np.ndarray[Any, Any], NDArray("uint8", (2, 2, 3), picture=True)]
    last: Annotated[np.ndarray[Any, Any], NDArray("uint8", (None, None, 4), picture=True)] | None = None
    cells: Annotated[np.ndarray[Any, Any], NDArray("uint8", (16, 16, 3))]
    board: list[list[tuple[int, int, int]]] = []
    page: Annotated[bytes, MediaType("image/png")] | None = None
    sound: Annotated[bytes, MediaType("audio/wav")] = b""
    several: list[Annotated[np.ndarray[Any, Any], NDArray("uint8", (2, 2, 3), picture=True)]] = []


def test_only_what_is_declared_as_a_picture_is_one() -> None:
    schema = Shown.model_json_schema()
    assert pixel_fields(schema) == pixel_fields_of(Shown) == {"screen", "last"}
    assert image_fields(schema) == {"page": "image/png"}
    assert (pixel_fields({}), image_fields({"type": "string"})) == (frozenset(), {})
