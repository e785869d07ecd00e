"""JSON Schemas of Gymnasium's spaces, and the spaces back from them.

The schema of a space describes the JSON of its values, as ``codec_for_space`` writes and reads them. What JSON
Schema has no word for, such as the type of an array's numbers, is under the keyword ``x-gymnasium``; readers of schemas
pass over keywords that they do not know.
"""

from collections.abc import Mapping, Sequence
from math import inf, isfinite
from typing import Any

import numpy as np
from gymnasium import Space, spaces

from openenv.core.exceptions import ConfigurationError

__all__ = ["HINT", "describe_space", "space_from_schema", "space_schema"]

HINT = "x-gymnasium"
"""Keyword of the kind of space, and of what else JSON Schema has no word for."""

Schema = dict[str, Any]
Numbers = np.ndarray[Any, np.dtype[Any]]

_MAX_BOUNDS = 8


def space_schema(space: Space[Any]) -> Schema:
    """Write the JSON Schema of a space's values.

    Raises:
        ConfigurationError: It is of a kind whose values have no form in JSON here.

    Example:
        >>> space_schema(spaces.Discrete(3))
        {'type': 'integer', 'minimum': 0, 'maximum': 2, 'x-gymnasium': {'space': 'Discrete', 'dtype': 'int64'}}
    """
    match space:
        case spaces.Box():
            return _arrays(space.low, space.high) | _hint("Box", space.dtype, shape=list(space.shape))
        case spaces.Discrete():
            first = int(space.start)
            return _number(first, first + int(space.n) - 1) | _hint("Discrete", space.dtype)
        case spaces.MultiDiscrete():
            # In Python's integers: an array's type may not hold the sum.
            low, counts = space.start.astype(object), space.nvec.astype(object)
            return _arrays(low, low + counts - 1) | _hint("MultiDiscrete", space.dtype, shape=list(space.shape))
        case spaces.MultiBinary():
            flags: Schema = {"type": "boolean"}
            return _repeated(flags, space.shape) | _hint("MultiBinary", n=space.n)
        case spaces.Text():
            lengths = {"minLength": space.min_length, "maxLength": space.max_length}
            return {"type": "string", **lengths} | _hint("Text", characters="".join(sorted(space.character_set)))
        case spaces.Dict():
            parts = {name: space_schema(part) for name, part in space.items()}
            names = {"properties": parts, "required": list(parts), "additionalProperties": False}
            return {"type": "object", **names} | _hint("Dict")
        case spaces.Tuple():
            items = [space_schema(part) for part in space]
            return {"type": "array", "prefixItems": items, **_length(len(items))} | _hint("Tuple")
    raise ConfigurationError(
        f"Expected a Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict or Tuple space, got {space}. "
        "Wrap the environment with gymnasium.wrappers.TransformObservation or TransformAction to give it one of these."
    )


def space_from_schema(schema: Mapping[str, Any]) -> Space[Any]:
    """Read a space from the schema that ``space_schema`` wrote.

    Raises:
        ConfigurationError: It names a kind of space that is not known here.

    Example:
        >>> space_from_schema(space_schema(spaces.Box(-1, 1, (2,))))
        Box(-1.0, 1.0, (2,), float32)
    """
    hint = schema[HINT]
    match hint["space"]:
        case "Box":
            low, high = _bounds(schema, hint)
            return spaces.Box(low, high, dtype=low.dtype.type)
        case "Discrete":
            count = schema["maximum"] - schema["minimum"] + 1
            return spaces.Discrete(count, start=schema["minimum"], dtype=hint["dtype"])
        case "MultiDiscrete":
            low, high = _bounds(schema, {**hint, "dtype": object})
            return spaces.MultiDiscrete(high - low + 1, dtype=hint["dtype"], start=low)
        case "MultiBinary":
            return spaces.MultiBinary(hint["n"])
        case "Text":
            characters = hint["characters"]
            return spaces.Text(schema["maxLength"], min_length=schema["minLength"], charset=characters)
        case "Dict":
            return spaces.Dict({name: space_from_schema(part) for name, part in schema["properties"].items()})
        case "Tuple":
            return spaces.Tuple([space_from_schema(part) for part in schema["prefixItems"]])
    raise ConfigurationError(
        f"The server's schema has a space of the kind {hint['space']!r}, which is not known here; upgrade openenv-core."
    )


def describe_space(space: Space[Any]) -> str:
    """Describe in words the JSON of a space's values, for people and language models.

    Example:
        >>> describe_space(spaces.Discrete(4))
        'a whole number from 0 to 3'
        >>> describe_space(spaces.Box(-2, 2, (1,)))
        'a list of 1 number from -2 to 2'
    """
    match space:
        case spaces.Box():
            number = "number" if space.dtype.kind == "f" else "whole number"
            return _listed(space.shape, number, _range_in_words(space.low, space.high))
        case spaces.Discrete():
            return f"a whole number from {space.start} to {space.start + space.n - 1}"
        case spaces.MultiDiscrete():
            low = space.start.astype(object)
            return _listed(space.shape, "whole number", _range_in_words(low, low + space.nvec.astype(object) - 1))
        case spaces.MultiBinary():
            return _listed(space.shape, "flag", ", true or false")
        case spaces.Text():
            return f"text of {space.min_length} to {space.max_length} characters"
        case spaces.Dict():
            return "an object of " + ", ".join(f"{name}: {describe_space(part)}" for name, part in space.items())
        case spaces.Tuple():
            return "a list of " + "; ".join(describe_space(part) for part in space)
    return str(space)


def _hint(kind: str, dtype: Any = None, **further: Any) -> Schema:
    types = {} if dtype is None else {"dtype": np.dtype(dtype).name}
    return {HINT: {"space": kind, **types, **further}}


def _length(count: int) -> Schema:
    return {"minItems": count, "maxItems": count}


def _repeated(item: Schema, shape: Sequence[int]) -> Schema:
    for count in reversed(shape):
        item = {"type": "array", "items": item, **_length(count)}
    return item


def _arrays(low: Numbers, high: Numbers) -> Schema:
    """Describe nested lists of numbers between bounds, in as few words as the bounds allow."""
    if low.size and (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return _repeated(_number(low.flat[0], high.flat[0]), low.shape)
    if low.ndim == 0 or not low.size:
        return _repeated({"type": "number"}, low.shape)
    # An array of Python's integers gives up single ones as they are.
    parts = [_arrays(np.asarray(a, low.dtype), np.asarray(b, high.dtype)) for a, b in zip(low, high, strict=True)]
    return {"type": "array", "prefixItems": parts, **_length(len(parts))}


def _number(low: Any, high: Any) -> Schema:
    """Describe a number between bounds, of which an infinite bound is none."""
    is_integer = isinstance(low, int | np.integer)
    bounds = {"minimum": low, "maximum": high}
    known = {word: int(bound) if is_integer else float(bound) for word, bound in bounds.items() if isfinite(bound)}
    return {"type": "integer" if is_integer else "number", **known}


def _bounds(schema: Mapping[str, Any], hint: Mapping[str, Any]) -> tuple[Numbers, Numbers]:
    """Read the bounds of an array's numbers."""
    shape, dtype = hint["shape"], hint["dtype"]
    return _filled(schema, "minimum", -inf, shape, dtype), _filled(schema, "maximum", inf, shape, dtype)


def _filled(schema: Mapping[str, Any], word: str, otherwise: float, shape: Sequence[int], dtype: Any) -> Numbers:
    bounds = np.empty(shape, dtype)
    if "prefixItems" not in schema:
        while "items" in schema:
            schema = schema["items"]
        bounds.fill(schema.get(word, otherwise))
        return bounds
    for index, part in enumerate(schema["prefixItems"]):
        bounds[index] = _filled(part, word, otherwise, shape[1:], dtype)
    return bounds


def _listed(shape: tuple[int, ...], item: str, suffix: str) -> str:
    if not shape:
        return f"a {item}{suffix}"
    lists = " lists of ".join(str(count) for count in shape)
    return f"a list of {lists} {item}{'' if shape[-1] == 1 else 's'}{suffix}"


def _range_in_words(low: Numbers, high: Numbers) -> str:
    """Describe the bounds of numbers: those of all, or those of each where they are few."""
    ranges = [_bound_in_words(*bounds) for bounds in zip(low.flat, high.flat, strict=True)]
    if len(set(ranges)) == 1:
        return f" {ranges[0]}"
    return f", {', '.join(ranges)}" if 0 < len(ranges) <= _MAX_BOUNDS else ""


def _bound_in_words(low: Any, high: Any) -> str:
    if not isfinite(low) and not isfinite(high):
        return "of any size"
    return f"from {_in_words(low)} to {_in_words(high)}"


def _in_words(number: Any) -> str:
    return str(number) if isinstance(number, int | np.integer) else f"{number:g}"
