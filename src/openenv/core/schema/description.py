"""Values that a JSON Schema allows, in words for people."""

import json
from typing import Any

from openenv.core.schema.reader import Schema

_MOST_VALUES = 12
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}


def values_of(schema: Schema) -> str:
    """Describe the values that a JSON Schema allows.

    Example:
        >>> values_of({"enum": ["left", "right"]}), values_of({"type": "integer", "minimum": 0, "maximum": 4})
        ('left or right', '0 to 4')
        >>> values_of({"type": "array", "items": {"type": "string"}}), values_of({"type": ["integer", "null"]})
        ('list of text', 'whole number or null')
    """
    if "const" in schema:
        return _literal(schema["const"])
    if "enum" in schema:
        shown = [_literal(value) for value in schema["enum"][:_MOST_VALUES]]
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


def _range(schema: Schema) -> str:
    """Describe the bounds of a number; empty without bounds."""
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
