"""Fields in words."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from openenv.auto.fields import FieldAbout, fields_of, values_of
from openenv.core.schema.generator import described_schema


class Move(BaseModel):
    """Move.

    Attributes:
        where: Which way.
            It matters.
    """

    where: Literal["left", "right"]
    by: int = Field(default=2, ge=1, le=9, description="How far\n\nMore of it.")
    metadata: dict[str, Any] = Field(default_factory=dict)


def test_each_field_is_told_with_what_the_docstring_or_the_field_says() -> None:
    told = fields_of(described_schema(Move.model_json_schema()), frozenset({"metadata"}))
    assert told == [
        FieldAbout("where", "left or right", "Which way. It matters.", required=True),
        FieldAbout("by", "1 to 9", "How far\n\nMore of it.", required=False, default=2),
    ]


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (str, "text"),
        (bool, "true or false"),
        (list[int], "list of whole number"),
        (list, "list"),
        (dict[str, int], "object"),
        (Any, "anything"),
        (int | str, "whole number or text"),
        (float | None, "number or null"),
        (Annotated[int, Field(ge=0)], "whole number from 0"),
        (Annotated[float, Field(le=1.5)], "number up to 1.5"),
        (Annotated[float, Field(ge=-1, le=1)], "-1 to 1"),
        (Literal[3], "3"),
        (Literal[1, "two", True], "1, two or true"),
    ],
)
def test_what_may_be_there(annotation: Any, words: str) -> None:
    assert values_of(TypeAdapter(annotation).json_schema()) == words


def test_of_many_choices_the_first_ones_are_told() -> None:
    assert values_of({"enum": list(range(40))}) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."


@given(
    st.recursive(
        st.fixed_dictionaries({}, optional={"type": st.text(), "minimum": st.integers(), "enum": st.lists(st.none())}),
        lambda inner: st.fixed_dictionaries({}, optional={"anyOf": st.lists(inner), "items": inner}),
    )
)
def test_any_schema_has_words(schema: dict[str, Any]) -> None:
    assert isinstance(values_of(schema), str)
