"""Gymnasium spaces for actions and observations, from their pydantic models or JSON Schemas.

What counts of an action are its required fields, or all of them where none is required; ``metadata`` never does. What
counts of an observation are all its fields but ``done``, ``reward`` and ``metadata``. A single field gives its own
space, several give a ``Dict``:

================================================== ==================================================================
a field                                            its space
================================================== ==================================================================
``Literal``, ``Enum``, ``bool``, an integer with   ``Discrete``; number 0 stands for the first value
both bounds
a list of fixed length of these                    ``MultiDiscrete``; of flags, ``MultiBinary``
a number, or a list of fixed length of numbers     ``Box`` of ``float32``, with the bounds of each number; of integers,
                                                   ``int64``
an ``NDArray`` of fixed lengths                    ``Box`` of its type
nested lists of fixed lengths of numbers           ``Box`` likewise; ``uint8`` if all are from 0 to 255, as in a picture
a string                                           ``Text``
a model                                            ``Dict``
what a Gymnasium environment was served with       the very space, which its schema names
================================================== ==================================================================

The ``float32`` space of an action lies within the bounds, so that everything in it is a valid action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from pydantic import BaseModel

from openenv.adapters.gymnasium.codecs import (
    ArrayCodec,
    BinaryCodec,
    Codec,
    DiscreteCodec,
    FieldCodec,
    FieldsCodec,
    JsonText,
    MultiDiscreteCodec,
    TextCodec,
    codec_for_space,
)
from openenv.adapters.gymnasium.space_schemas import HINT, space_from_schema
from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.reader import ARRAY_KEYWORD, integer_bounds, integers_of

__all__ = ["action_codec", "action_fields", "observation_codec", "observation_fields"]

Schema = Mapping[str, Any]
Purpose = Literal["action", "observation"]
Bounds = np.ndarray[Any, np.dtype[Any]]

NO_ACTION = frozenset({"metadata"})
NO_OBSERVATION = frozenset({"done", "reward", "metadata"})
LARGEST_INTEGERS: Mapping[Purpose, tuple[int, int]] = {
    # Gymnasium samples in float64, which holds every integer up to this.
    "action": (-(2**53), 2**53),
    "observation": (-(2**63), 2**63 - 2),
}


def action_codec(action: type[BaseModel] | Schema) -> Codec:
    """Make the space of an environment's actions.

    Args:
        action: The action's class, or its JSON Schema.

    Returns:
        The space, with what turns its values into an action's fields and back.

    Raises:
        ConfigurationError: A field has no space.

    Example:
        >>> from typing import Literal
        >>> class Move(BaseModel):
        ...     direction: Literal["left", "stay", "right"]
        >>> codec = action_codec(Move)
        >>> codec.space, codec.encode(2)
        (Discrete(3), {'direction': 'right'})
    """
    schema = _schema(action)
    return _top_codec(_SchemaReader(schema, "action"), action_fields(schema))


def observation_codec(observation: type[BaseModel] | Schema) -> Codec:
    """Make the space of an environment's observations.

    Args:
        observation: The observation's class, or its JSON Schema.

    Returns:
        The space, with what turns an observation's fields into its values and back.

    Raises:
        ConfigurationError: A field has no space.
    """
    schema = _schema(observation)
    return _top_codec(_SchemaReader(schema, "observation"), observation_fields(schema))


def action_fields(schema: Schema) -> dict[str, Schema]:
    """Return the fields of an action that an agent fills in, with the schema of each."""
    fields = _fields(schema, NO_ACTION)
    required = [name for name in schema.get("required", ()) if name in fields]
    return {name: fields[name] for name in required or fields}


def observation_fields(schema: Schema) -> dict[str, Schema]:
    """Return the fields of an observation that an agent sees, with the schema of each."""
    return _fields(schema, NO_OBSERVATION)


def _fields(schema: Schema, left_out: frozenset[str]) -> dict[str, Schema]:
    return {name: field for name, field in schema.get("properties", {}).items() if name not in left_out}


def _schema(source: type[BaseModel] | Schema) -> Schema:
    return source.model_json_schema() if isinstance(source, type) else source


def _top_codec(reader: "_SchemaReader", fields: Mapping[str, Schema]) -> Codec:
    codecs = {name: reader.codec(field, name) for name, field in fields.items()}
    if not codecs:
        raise reader.no_space("it", "has no fields of its own")
    return FieldCodec(*codecs.popitem()) if len(codecs) == 1 else FieldsCodec(codecs)


@dataclass(frozen=True)
class _SchemaReader:
    """Makes codecs for the parts of one schema.

    Attributes:
        root: The whole schema, which ``$ref`` refers to.
        purpose: Kind of its subject.
    """

    root: Schema
    purpose: Purpose

    def codec(self, schema: Schema, path: str, within: tuple[str, ...] = ()) -> Codec:
        """Make the codec of a field."""
        schema, within = self._resolved(schema, path, within)
        if HINT in schema:
            return codec_for_space(space_from_schema(schema))
        if ARRAY_KEYWORD in schema:
            return ArrayCodec(self._declared_box(schema[ARRAY_KEYWORD], path))
        values = _finite_values(schema)
        if values is not None:
            return DiscreteCodec(values)
        match schema.get("type"):
            case "integer" | "number":
                return ArrayCodec(self._box([schema], (), path))
            case "string":
                return TextCodec(self._text(schema, path))
            case "array":
                return self._array(schema, path, within)
            case "object":
                return self._object(schema, path, within)
        raise self.no_space(path, f"is {_kind(schema)}")

    def no_space(self, path: str, reason: str) -> ConfigurationError:
        """Make the error for what has no space."""
        converter = "encode_action" if self.purpose == "action" else "decode_observation"
        title = self.root.get("title", f"the {self.purpose}")
        return ConfigurationError(
            f"{title}: {path} {reason}, for which there is no Gymnasium space. "
            f"Pass {self.purpose}_space= with {converter}= to map it by hand."
        )

    def _resolved(self, schema: Schema, path: str, within: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Follow references, and for an action choose the one alternative beside null."""
        if "$ref" in schema:
            reference = schema["$ref"]
            if reference in within:
                raise self.no_space(path, "contains itself")
            return self._resolved(self._referred(reference), path, (*within, reference))
        alternatives = schema.get("anyOf", ())
        if self.purpose == "action":
            alternatives = [alternative for alternative in alternatives if alternative.get("type") != "null"]
        if len(alternatives) == 1:
            return self._resolved(alternatives[0], path, within)
        return schema, within

    def _referred(self, reference: str) -> Schema:
        target: Any = self.root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        return dict(target)

    def _object(self, schema: Schema, path: str, within: tuple[str, ...]) -> Codec:
        fields = action_fields(schema) if self.purpose == "action" else _fields(schema, frozenset())
        if not fields:
            raise self.no_space(path, "has no fields that are known")
        return FieldsCodec({name: self.codec(field, f"{path}.{name}", within) for name, field in fields.items()})

    def _text(self, schema: Schema, path: str) -> JsonText:
        # What an agent reads may look as it likes; what it writes must be accepted.
        if self.purpose == "action" and ("pattern" in schema or "format" in schema):
            raise self.no_space(path, "is text of a special form")
        return JsonText(schema.get("minLength", 0), schema.get("maxLength"))

    def _array(self, schema: Schema, path: str, within: tuple[str, ...]) -> Codec:
        shape, items = self._items(schema, path, within)
        kinds = {_kind(item) for item in items}
        if kinds == {"boolean"}:
            return BinaryCodec(shape)
        values = [choice for item in items if (choice := _finite_values(item)) is not None]
        is_finite = len(values) == len(items)
        if is_finite and not (len(shape) > 1 and all(_is_interval(choice) for choice in values)):
            return MultiDiscreteCodec(values, shape)
        if kinds in ({"integer"}, {"number"}):
            return ArrayCodec(self._box(items, shape, path))
        raise self.no_space(path, f"is a list of {' and '.join(sorted(kinds))}")

    def _items(self, schema: Schema, path: str, within: tuple[str, ...]) -> tuple[tuple[int, ...], list[Schema]]:
        """Return the shape of nested lists, and the schemas of what is in them."""
        schema, within = self._resolved(schema, path, within)
        if schema.get("type") != "array":
            return (), [schema]
        parts = [self._items(part, path, within) for part in self._parts(schema, path)]
        shapes = {shape for shape, _ in parts}
        if len(shapes) != 1:
            raise self.no_space(path, "is a list of lists with different lengths")
        repeats = 1 if "prefixItems" in schema else schema["maxItems"]
        items = [item for _, part in parts for item in part] * repeats
        return (len(parts) * repeats, *shapes.pop()), items

    def _parts(self, schema: Schema, path: str) -> Sequence[Schema]:
        """Return the schemas of a list's items: of each, or of all."""
        length = schema.get("maxItems")
        if length is None or length != schema.get("minItems"):
            raise self.no_space(path, "is a list whose length is not fixed")
        if schema.get("uniqueItems"):
            raise self.no_space(path, "is a set")
        parts: Sequence[Schema] = schema.get("prefixItems", [schema.get("items", {})])
        if length == 0 or ("prefixItems" in schema and len(parts) != length):
            raise self.no_space(path, "is a list of another form than n items")
        return parts

    def _box(self, items: Sequence[Schema], shape: tuple[int, ...], path: str) -> spaces.Box:
        if self.purpose == "action" and any("multipleOf" in item for item in items):
            raise self.no_space(path, "is a multiple of a number")
        is_integer = items[0]["type"] == "integer"
        low, high = self._integer_bounds(items, shape) if is_integer else self._number_bounds(items, shape)
        if np.any(low > high):
            raise self.no_space(path, f"has bounds between which there is no {low.dtype}")
        return spaces.Box(low, high, shape, low.dtype.type)

    def _declared_box(self, declared: Mapping[str, Any], path: str) -> spaces.Box:
        """Make the space of a field of the type ``NDArray``, whose numbers may be any that its type holds."""
        shape, dtype = declared["shape"], np.dtype(declared["dtype"])
        if None in shape:
            raise self.no_space(path, "is an array whose shape is not fixed")
        if dtype.kind == "b":
            raise self.no_space(path, "is an array of flags")
        low, high = (-inf, inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return spaces.Box(low, high, tuple(shape), dtype.type)

    def _integer_bounds(self, items: Sequence[Schema], shape: tuple[int, ...]) -> tuple[Bounds, Bounds]:
        limits = np.array([self._integers(item) for item in items], np.int64)
        low, high = limits.T.reshape(2, *shape)
        is_picture = len(shape) > 1 and bool(np.all(low == 0) and np.all(high == 255))
        return (low.astype(np.uint8), high.astype(np.uint8)) if is_picture else (low, high)

    def _number_bounds(self, items: Sequence[Schema], shape: tuple[int, ...]) -> tuple[Bounds, Bounds]:
        limits = np.array([_number_limits(item) for item in items], np.float64)
        low, high = limits.T.reshape(2, *shape)
        return self._single(low, inf), self._single(high, -inf)

    def _integers(self, schema: Schema) -> tuple[int, int]:
        """Return the lowest and the highest integer that the space of a field holds."""
        low, high = integer_bounds(schema)
        lowest, highest = LARGEST_INTEGERS[self.purpose]
        return lowest if low is None else max(low, lowest), highest if high is None else min(high, highest)

    def _single(self, bounds: Bounds, inwards: float) -> Bounds:
        """Round bounds to ``float32``: to the nearest for an observation, whose value is rounded alike."""
        with np.errstate(over="ignore"):
            single = bounds.astype(np.float32)
        if self.purpose == "observation":
            return single
        outside = single < bounds if inwards > 0 else single > bounds
        return np.where(outside, np.nextafter(single, np.float32(inwards)), single)


def _kind(schema: Schema) -> str:
    """Return the types of a field, for messages and to distinguish kinds."""
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return f"{union} of {len(schema[union])} schemas"
    return "one of listed values" if "enum" in schema or "const" in schema else str(schema.get("type", "any value"))


def _finite_values(schema: Schema) -> Sequence[Any] | None:
    """Return the values of a field that has a finite number of them."""
    if "const" in schema:
        return (schema["const"],)
    if "enum" in schema:
        return tuple(schema["enum"])
    if schema.get("type") == "boolean":
        return (False, True)
    return integers_of(schema) if schema.get("type") == "integer" else None


def _is_interval(values: Sequence[Any]) -> bool:
    return isinstance(values, range) and values.step == 1


def _number_limits(schema: Schema) -> tuple[float, float]:
    low, high = float(schema.get("minimum", -inf)), float(schema.get("maximum", inf))
    if "exclusiveMinimum" in schema:
        low = max(low, nextafter(schema["exclusiveMinimum"], inf))
    if "exclusiveMaximum" in schema:
        high = min(high, nextafter(schema["exclusiveMaximum"], -inf))
    return low, high
