"""Type hints of Python and JSON Schemas: the hint that a schema stands for, and the schema of a hint."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from openenv.core.schema.reader import Schema

SCALARS = (str, int, float, bool, type(None))
"""Types of the values that ``Literal`` may hold."""

_TYPES: dict[str, Any] = {
    "integer": int,
    "number": float,
    "string": str,
    "boolean": bool,
    "null": None,
    "array": list,
    "object": dict,
}
_NAMES = {**{hint: name for name, hint in _TYPES.items()}, type(None): "null", tuple: "array"}


def hint_of(schema: Schema) -> Any:
    """Return the type hint that says most of what a schema does.

    Args:
        schema: A JSON Schema without references.

    Example:
        >>> hint_of({"type": "array", "items": {"enum": ["left", "right"]}})
        list[typing.Literal['left', 'right']]
        >>> hint_of({"type": "object", "properties": {"x": {"type": "integer"}}})
        <class 'dict'>
    """
    hint = _hint_of_values(schema)
    return _union([hint, None]) if schema.get("nullable") is True and hint is not Any else hint


def hint_schema(hint: Any) -> dict[str, Any]:
    """Return what ``transformers`` makes of a hint that `hint_of` gave.

    Example:
        >>> hint_schema(list[int] | None)
        {'type': 'array', 'items': {'type': 'integer'}, 'nullable': True}
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if origin is Literal:
        return literal_schema(arguments)
    if origin in (Union, UnionType):
        return _union_schema(arguments)
    if origin is list:
        return {"type": "array", "items": hint_schema(arguments[0])}
    if origin is tuple:
        return {"type": "array", "prefixItems": [hint_schema(argument) for argument in arguments]}
    if origin is dict:
        return {"type": "object", "additionalProperties": hint_schema(arguments[1])}
    return {"type": _NAMES[hint]}


def _hint_of_values(schema: Schema) -> Any:
    values = schema.get("enum")
    if isinstance(values, list) and values and all(type(value) in SCALARS for value in values):
        return Literal[tuple(values)]
    members = schema.get("anyOf")
    if isinstance(members, list) and members:
        return _union([hint_of(member) for member in members])
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        return _union([hint_of({**schema, "type": each}) for each in kind])
    if kind == "array":
        return _array_hint(schema)
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return dict[str, hint_of(schema["additionalProperties"])]  # type: ignore[misc]  # of hints that are found out
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


def _array_hint(schema: Schema) -> Any:
    items = schema.get("prefixItems")
    if isinstance(items, list) and len(items) > 1:  # transformers takes no tuple of one
        return tuple[tuple(map(hint_of, items))]  # type: ignore[misc]  # as above
    if isinstance(schema.get("items"), Mapping):
        return list[hint_of(schema["items"])]  # type: ignore[misc]  # as above
    return list


def _union(hints: Iterable[Any]) -> Any:
    """Make a union; whatever may be anything makes it that."""
    members = list(hints)
    if any(member is Any for member in members):
        return Any
    return reduce(or_, members[1:], Union[members[0], None] if None in members else members[0])  # noqa: UP007


def literal_schema(values: Sequence[Any]) -> dict[str, Any]:
    """Return the schema of a choice.

    Args:
        values: The values, of the types in ``SCALARS``.
    """
    types = list(dict.fromkeys(_NAMES[type(value)] for value in values))
    return {"type": types[0] if len(types) == 1 else types, "enum": list(values)}


def _union_schema(hints: Sequence[Any]) -> dict[str, Any]:
    members = [hint_schema(hint) for hint in hints if hint is not type(None)]
    schema = members[0] if len(members) == 1 else members_schema(members)
    return {**schema, "nullable": True} if type(None) in hints else schema


def members_schema(members: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of a union.

    Args:
        members: Schemas of the members, without null.
    """
    if not all(member.keys() == {"type"} and isinstance(member["type"], str) for member in members):
        return {"anyOf": list(members)}
    types = sorted({member["type"] for member in members})
    return {"type": types[0] if len(types) == 1 else types}
