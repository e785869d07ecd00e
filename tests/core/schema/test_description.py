"""Values that a schema allows, in words."""

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter

from openenv.core.schema.description import values_of


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
def test_the_values_of_a_type(annotation: Any, words: str) -> None:
    assert values_of(TypeAdapter(annotation).json_schema()) == words


def test_of_many_choices_the_first_ones_are_described() -> None:
    assert values_of({"enum": list(range(40))}) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."


@given(
    st.recursive(
        st.fixed_dictionaries({}, optional={"type": st.text(), "minimum": st.integers(), "enum": st.lists(st.none())}),
        lambda inner: st.fixed_dictionaries({}, optional={"anyOf": st.lists(inner), "items": inner}),
    )
)
def test_any_schema_has_words(schema: dict[str, Any]) -> None:
    assert isinstance(values_of(schema), str)
