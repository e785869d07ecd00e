"""Hints and schemas: each says what the other does, as far as it can."""

from typing import Any, Literal

import pytest

from openenv.core.schema.hints import hint_of, hint_schema


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ({"type": "string"}, str),
        ({"type": ["integer", "null"]}, int | None),
        ({"enum": ["a", 1, None]}, Literal["a", 1, None]),
        ({"type": "array"}, list),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, list),
        ({"anyOf": [{"type": "integer"}, {}]}, Any),
        ({"enum": [["a"], ["b"]]}, Any),
        ({"type": "unheard of"}, Any),
    ],
)
def test_a_schema_has_the_hint_that_says_most(schema: dict[str, Any], hint: Any) -> None:
    assert hint_of(schema) == hint


@pytest.mark.parametrize("hint", [int, list, dict, list[str] | None, dict[str, int], tuple[int, str], Literal["a", 2]])
def test_a_hint_s_schema_is_transformers_own(hint: Any) -> None:
    from transformers.utils.chat_template_utils import get_json_schema

    def function(value) -> None:  # type: ignore[no-untyped-def]
        """Do it.

        Args:
            value: It.
        """

    function.__annotations__["value"] = hint
    found = get_json_schema(function)["function"]["parameters"]["properties"]["value"]

    assert found == {**hint_schema(hint), "description": "It."}
