"""Values that match a JSON Schema: an example for documentation, and random values."""

import random
from collections.abc import Sequence
from typing import Any

from openenv.core.schema.reader import Schema, target

_DEEPEST = 8
_PLAIN: dict[str, Any] = {"string": "text", "boolean": True, "null": None}
# Maximum length of a random list, and maximum number of words of a random text.
_LONGEST = 3


def example_value(schema: Schema) -> Any:
    """Return a value as an example: an ``examples`` entry or default, else the first choice or the lowest number.

    Args:
        schema: A whole document.

    Example:
        >>> example_value({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 2}}})
        {'n': 2}
    """
    return _example(schema, schema, 0)


def _example(schema: Schema, root: Schema, depth: int) -> Any:
    if "$ref" in schema:
        return _example(target(schema["$ref"], root) or {}, root, depth + 1)
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    alternatives = schema.get("oneOf") or schema.get("anyOf")
    if alternatives:
        return _example(alternatives[0], root, depth + 1)
    return None if depth > _DEEPEST else _example_of_type(schema, root, depth)


def _example_of_type(schema: Schema, root: Schema, depth: int) -> Any:
    match schema.get("type"):
        case "object":
            fields, required = schema.get("properties", {}), schema.get("required", ())
            shown = [name for name in fields if name in required or "const" in fields[name]] or _fillable(fields)
            return {name: _example(fields[name], root, depth + 1) for name in shown}
        case "array":
            item = _example(schema.get("items", {}), root, depth + 1)
            return [item] * max(1, schema.get("minItems", 1))
        case "integer" | "number":
            return _lowest(schema)
        case kind:
            return _PLAIN.get(str(kind), _PLAIN["string"])


def _fillable(fields: Schema) -> list[str]:
    """Return the fields that a client fills in when none is required."""
    return [name for name in fields if name != "metadata"]


def _lowest(schema: Schema) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    return schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema)


class RandomValues:
    """Random values that match schemas without references.

    Args:
        generator: Source of the random choices.
        words: Words of random texts.

    Example:
        >>> RandomValues(random.Random(1), ["a"]).value({"enum": ["left"]})
        'left'
    """

    def __init__(self, generator: random.Random, words: Sequence[str]) -> None:
        self._random = generator
        self._words = words

    def value(self, schema: Schema) -> Any:
        """Return a value.

        Args:
            schema: The schema; of a number without bounds, ten whole numbers from 0, or the numbers from 0 to 1.
        """
        options = schema.get("enum") or schema.get("anyOf")
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._random.choice(options or [None])
        if options:
            return self.value(self._random.choice(options))
        return self._value_of_type(schema)

    def _value_of_type(self, schema: Schema) -> Any:
        kind = schema.get("type")
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind == "integer":
            low = int(schema.get("minimum", 0))
            return self._random.randint(low, int(schema.get("maximum", low + 9)))
        if kind == "number":
            least = float(schema.get("minimum", 0.0))
            return self._random.uniform(least, float(schema.get("maximum", least + 1.0)))
        if kind == "array":
            return [self.value(schema.get("items", {})) for _ in range(self._random.randint(1, _LONGEST))]
        if kind == "object":
            return {name: self.value(field) for name, field in schema.get("properties", {}).items()}
        if kind == "null":
            return None
        return " ".join(self._random.choices(self._words, k=self._random.randint(1, _LONGEST)))
