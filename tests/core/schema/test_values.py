"""Values made from schemas."""

import random
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from openenv.core.schema.values import RandomValues, example_value

HINTS = [
    int,
    float,
    str,
    bool,
    None,
    Annotated[int, Field(ge=3, le=5)],
    Annotated[float, Field(ge=2)],
    list[bool],
    Literal["a", 2],
    int | None,
]


class Inner(BaseModel):
    word: str = "crane"


class Outer(BaseModel):
    inner: Inner
    above: Annotated[int, Field(gt=3)]
    choice: Literal["x", "y"]
    maybe: Annotated[int | None, Field(examples=[7])]


@pytest.mark.parametrize("hint", HINTS)
def test_random_values_match_their_schema(hint: Any) -> None:
    adapter, values = TypeAdapter(hint), RandomValues(random.Random(1), ["a", "b"])
    for _ in range(50):
        adapter.validate_python(values.value(adapter.json_schema()), strict=True)


def test_the_same_seed_gives_the_same_values() -> None:
    schema = TypeAdapter(list[int]).json_schema()
    first, second = (RandomValues(random.Random(3), ["a"]) for _ in range(2))
    assert [first.value(schema) for _ in range(20)] == [second.value(schema) for _ in range(20)]


def test_an_example_follows_references() -> None:
    example = example_value(Outer.model_json_schema())
    assert example == {"inner": {"word": "crane"}, "above": 4, "choice": "x", "maybe": 7}


def test_an_example_of_a_recursive_schema_ends() -> None:
    node = {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/$defs/Node"}}}
    assert "next" in example_value({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
