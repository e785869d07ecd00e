"""Reader of JSON Schemas, for code that shows, fills in or checks values.

The reader supports the schemas of pydantic and of MCP servers: references within the document, unions, constants,
choices and bounds of integers. It validates nothing.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from math import ceil, floor
from typing import Any, NamedTuple

Schema = Mapping[str, Any]

ARRAY_KEYWORD = "x-array"
"""Keyword with the type and the shape of an array, and whether it is a picture."""

_CALL_TOOL, _LIST_TOOLS = "call_tool", "list_tools"


class Member(NamedTuple):
    """Member of a union.

    Attributes:
        name: Name of the member's definition, else its title.
        schema: Its schema, with the document's ``$defs``.
    """

    name: str
    schema: Schema


def target(reference: str, root: Schema) -> Schema | None:
    """Return the schema that a reference names.

    Args:
        reference: The value of ``$ref``.
        root: The whole document.

    Returns:
        The schema; ``None`` if the document has no such schema.

    Example:
        >>> target("#/$defs/Way", {"$defs": {"Way": {"enum": ["left", "right"]}}})
        {'enum': ['left', 'right']}
    """
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def resolved(field: Schema, root: Schema) -> Schema:
    """Resolve a field's references, and an ``anyOf`` with one alternative beside null; the field's own keys win.

    Such an alternative is marked with OpenAPI's keyword ``nullable``.

    Args:
        field: The field's schema.
        root: The whole document.

    Example:
        >>> way = {"$ref": "#/$defs/Way", "default": "left"}
        >>> resolved(way, {"$defs": {"Way": {"enum": ["left", "right"]}}})
        {'enum': ['left', 'right'], 'default': 'left'}
    """
    return _resolved(field, root, frozenset())


def _resolved(field: Schema, root: Schema, above: frozenset[str]) -> Schema:
    reference = field.get("$ref")
    if isinstance(reference, str):
        found = None if reference in above else target(reference, root)
        return field if found is None else _beside(_resolved(found, root, above | {reference}), field, "$ref")
    options = field.get("anyOf", ())
    alternatives = [_resolved(option, root, above) for option in options if option.get("type") != "null"]
    if len(alternatives) == 1:
        nullable = {"nullable": True} if len(options) > 1 else {}
        return {**_beside(alternatives[0], field, "anyOf"), **nullable}
    null = [{"type": "null"}] if len(alternatives) < len(options) else []
    return {**field, "anyOf": [*alternatives, *null]} if alternatives else field


def _beside(found: Schema, field: Schema, followed: str) -> Schema:
    return {**found, **{key: value for key, value in field.items() if key != followed}}


def members(schema: Schema) -> list[Member]:
    """List the members of a union, including those of nested unions and behind references, without null.

    Args:
        schema: A whole document.

    Returns:
        The members; the document itself if it is no union.

    Example:
        >>> [member.name for member in members({"title": "Guess", "properties": {}})]
        ['Guess']
    """
    return list(_members(schema, schema, frozenset()))


def _members(schema: Schema, root: Schema, above: frozenset[str]) -> Iterator[Member]:
    reference = schema.get("$ref")
    found = target(reference, root) if isinstance(reference, str) and reference not in above else None
    if found is not None and ("$ref" in found or "oneOf" in found or "anyOf" in found):
        yield from _members(found, root, above | {str(reference)})
    elif found is not None:
        yield Member(str(reference).rpartition("/")[2], {**found, "$defs": root.get("$defs", {})})
    elif "oneOf" in schema or "anyOf" in schema:
        for option in schema.get("oneOf", schema.get("anyOf", ())):
            yield from _members(option, root, above)
    elif reference is None and schema.get("type") != "null":
        yield Member(str(schema.get("title", "Action")), {**schema, "$defs": root.get("$defs", {})})


def constants(schema: Schema) -> dict[str, Any]:
    """Return the fields of an object that have a single possible value, with that value.

    Example:
        >>> constants({"properties": {"type": {"const": "guess"}, "word": {"type": "string"}}})
        {'type': 'guess'}
    """
    return {key: field["const"] for key, field in schema.get("properties", {}).items() if "const" in field}


def allows_null(schema: Any) -> bool:
    """Return whether a value may be null; a schema without a type accepts everything.

    Args:
        schema: The schema, or a boolean, which is a schema, too.

    Example:
        >>> allows_null({"type": ["integer", "null"]}), allows_null({"enum": ["left", "right"]})
        (True, False)
    """
    if not isinstance(schema, Mapping):
        return bool(schema)
    if schema.get("nullable") is True:
        return True
    if "const" in schema or "enum" in schema:
        return None in schema.get("enum", [schema.get("const")])
    alternatives = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    if alternatives:
        return any(map(allows_null, alternatives))
    kinds = schema.get("type")
    return "$ref" not in schema if kinds is None else kinds == "null" or (isinstance(kinds, list) and "null" in kinds)


def calls_tool(schema: Schema) -> bool:
    """Whether a schema is of the action that calls a tool."""
    return "tool_name" in schema.get("properties", {}) and constants(schema).get("type") == _CALL_TOOL


def concerns_tools(schema: Schema) -> bool:
    """Whether a schema is of an action that lists or calls tools."""
    return constants(schema).get("type") in (_CALL_TOOL, _LIST_TOOLS)


def finite_values(field: Schema, most: int) -> list[Any] | None:
    """List the possible values of a field.

    Args:
        field: The field's schema, resolved.
        most: Maximum length of a range of integers.

    Returns:
        The values, null as the last one; ``None`` if there are too many, or the schema does not limit them.

    Example:
        >>> finite_values({"type": "integer", "minimum": 1, "exclusiveMaximum": 4}, 10)
        [1, 2, 3]
        >>> finite_values({"enum": ["left", "right"], "nullable": True}, 10)
        ['left', 'right', None]
    """
    if field.get("type") == "null":
        return [None]
    alternatives = [finite_values(option, most) for option in field.get("anyOf", ())]
    listed = [option for option in alternatives if option is not None]
    values = list(chain.from_iterable(listed)) if alternatives else _values_of_one_type(field, most)
    if values is None or len(listed) < len(alternatives) or len(values) > most:
        return None
    return [*(value for value in values if value is not None), *([None] if allows_null(field) else [])]


def _values_of_one_type(field: Schema, most: int) -> list[Any] | None:
    if "const" in field:
        return [field["const"]]
    if "enum" in field:
        return list(field["enum"])
    kind = field.get("type")
    kinds = [each for each in kind if each != "null"] if isinstance(kind, list) else [kind]
    if kinds == ["boolean"]:
        return [False, True]
    integers = integers_of(field) if kinds == ["integer"] else None
    return None if integers is None or len(integers) > most else list(integers)


def integers_of(field: Schema) -> range | None:
    """Return the integers that the bounds of a field leave.

    Args:
        field: The field's schema, resolved.

    Returns:
        The integers; ``None`` where a bound is missing, or there are none, or more than 2^63.

    Example:
        >>> integers_of({"minimum": 0, "maximum": 10, "multipleOf": 5})
        range(0, 11, 5)
    """
    low, high = integer_bounds(field)
    step = field.get("multipleOf", 1)
    if low is None or high is None or high - low >= 2**63 or not isinstance(step, int):
        return None
    return range(low + -low % step, high + 1, step) or None


def integer_bounds(field: Schema) -> tuple[int | None, int | None]:
    """Return the least and the greatest integer of a field; ``None`` for each without a bound."""
    low = [ceil(field["minimum"])] if "minimum" in field else []
    low += [floor(field["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in field else []
    high = [floor(field["maximum"])] if "maximum" in field else []
    high += [ceil(field["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in field else []
    return max(low, default=None), min(high, default=None)


def pixel_fields(schema: Schema) -> frozenset[str]:
    """Return the fields of an object whose numbers are the pixels of a picture, which only the schema can say.

    Args:
        schema: A whole document.

    Example:
        >>> screen = {"type": "array", "x-array": {"dtype": "uint8", "shape": [84, 84, 3], "picture": True}}
        >>> sorted(pixel_fields({"properties": {"screen": screen, "map": {"type": "array"}}}))
        ['screen']
    """
    fields = _resolved_fields(schema)
    return frozenset(name for name, field in fields.items() if field.get(ARRAY_KEYWORD, {}).get("picture") is True)


def image_fields(schema: Schema) -> dict[str, str]:
    """Return the fields of an object that hold the file of an image in base64, with its media type.

    Args:
        schema: A whole document.

    Example:
        >>> page = {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}
        >>> image_fields({"properties": {"page": page, "title": {"type": "string"}}})
        {'page': 'image/png'}
    """
    kinds = {name: str(field.get("contentMediaType", "")) for name, field in _resolved_fields(schema).items()}
    return {name: kind for name, kind in kinds.items() if kind.startswith("image/")}


def _resolved_fields(schema: Schema) -> dict[str, Schema]:
    return {name: resolved(field, schema) for name, field in schema.get("properties", {}).items()}
