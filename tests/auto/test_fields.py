"""Fields in words."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from openenv.auto.fields import FieldAbout, fields_of
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
