"""The fields of an action, an observation or a reset, in words for people."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_VALUES = 12
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}


@dataclass(frozen=True)
class FieldAbout:
    """What people are told of a field.

    Attributes:
        name: Its name.
        values: What it may be, as in ``left, stay or right``, ``0 to 4`` or ``text``.
        description: What it means; empty where nothing says so.
        required: Whether it has no default.
        default: What it is where nobody says; ``None`` also where it is required.
    """

    name: str
    values: str
    description: str = ""
    required: bool = True
    default: Any = None


def fields_of(schema: Mapping[str, Any], left_out: frozenset[str] = frozenset()) -> list[FieldAbout]:
    """Tell the fields of an object's JSON Schema, which refers to nothing elsewhere.

    Args:
        schema: The schema.
        left_out: Names of fields that are not to be told of.
    """
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


def values_of(schema: Mapping[str, Any]) -> str:
    """Say what a JSON Schema allows.

    Example:
        >>> values_of({"enum": ["left", "right"]}), values_of({"type": "integer", "minimum": 0, "maximum": 4})
        ('left or right', '0 to 4')
        >>> values_of({"type": "array", "items": {"type": "string"}}), values_of({"type": ["integer", "null"]})
        ('list of text', 'whole number or null')
    """
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        shown = [_literal(value) for value in schema["enum"][:MAX_VALUES]]
        return _either(shown) if len(shown) == len(schema["enum"]) else f"{', '.join(shown)}, ..."
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return _either(list(dict.fromkeys(map(values_of, options))))
    kind = schema.get("type")
    if isinstance(kind, list):
        return _either([values_of({"type": each}) for each in kind])
    if kind == "array":
        items = schema.get("items")
        return f"list of {values_of(items)}" if items else "list"
    return _range(schema) or _WORDS.get(str(kind), "anything")


def _range(schema: Mapping[str, Any]) -> str:
    """Say between what a number lies; empty where nothing bounds it."""
    if schema.get("type") not in ("integer", "number"):
        return ""
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    word = _WORDS[schema["type"]]
    if low is not None:
        return f"{word} from {low:g}"
    return "" if high is None else f"{word} up to {high:g}"


def _literal(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _either(words: list[str]) -> str:
    if not words:
        return "nothing"
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
