"""Fields of an action, an observation or a reset, in words for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openenv.core.schema.description import values_of


@dataclass(frozen=True)
class FieldAbout:
    """Field of an action or an observation, as people see it.

    Attributes:
        name: Its name.
        values: Its values, as in ``left, stay or right``, ``0 to 4`` or ``text``.
        description: Its meaning; empty where it is not documented.
        required: Whether it has no default.
        default: Its default; ``None`` also where it is required.
    """

    name: str
    values: str
    description: str = ""
    required: bool = True
    default: Any = None


def fields_of(schema: Mapping[str, Any], left_out: frozenset[str] = frozenset()) -> list[FieldAbout]:
    """Return the fields of an object's JSON Schema, which refers to nothing elsewhere."""
    required = schema.get("required", ())
    return [
        FieldAbout(
            name,
            values_of(field),
            field.get("description", "").strip(),
            required=name in required,
            default=field.get("default"),
        )
        for name, field in schema.get("properties", {}).items()
        if name not in left_out
    ]
