"""JSON Schemas in one form: without references, titles and constants, with one way to write choices and unions."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from openenv.core.schema.hints import SCALARS, literal_schema, members_schema
from openenv.core.schema.reader import Schema, target


def plain_schema(schema: Any, root: Schema) -> dict[str, Any]:
    """Return a schema in one form: no references but recursive ones, no titles, constants as choices, null as nullable.

    Args:
        schema: The schema, or a boolean, which is a schema, too.
        root: The document that the references point into.

    Example:
        >>> way = {"title": "Way", "anyOf": [{"const": "left"}, {"type": "null"}]}
        >>> plain_schema(way, {})
        {'enum': ['left'], 'type': 'string', 'nullable': True}
    """
    return _plain(schema, root, ())


def _plain(schema: Any, root: Schema, above: tuple[str, ...]) -> dict[str, Any]:
    """Return a schema in one form; ``above`` are the references that led to it."""
    if not isinstance(schema, Mapping):
        return {} if schema else {"not": {}}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = None if reference in above else target(reference, root)
        if found is None:
            return dict(schema)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _plain({**found, **beside}, root, (*above, reference))
    merged = _merged(schema)
    kept = {key: value for key, value in merged.items() if key != "title" and not key.startswith("x-")}
    plain = {key: _plain_part(key, value, root, above) for key, value in kept.items()}
    return _with_nullable(_with_union(_with_choices(plain)))


def _merged(schema: Schema) -> Schema:
    """Put a lone schema of ``allOf`` where it belongs."""
    alone = schema.get("allOf")
    if not isinstance(alone, list) or len(alone) != 1 or not isinstance(alone[0], Mapping) or "$ref" in alone[0]:
        return schema
    return {**alone[0], **{key: value for key, value in schema.items() if key != "allOf"}}


def _plain_part(key: str, value: Any, root: Schema, above: tuple[str, ...]) -> Any:
    if key in ("properties", "patternProperties") and isinstance(value, Mapping):
        return {name: _plain(field, root, above) for name, field in value.items()}
    if key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
        return [_plain(member, root, above) for member in value]
    if key in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
        return _plain(value, root, above)
    return value


def _with_choices(schema: dict[str, Any]) -> dict[str, Any]:
    """Write a constant as a choice of one, and a choice with the type of its values."""
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
        del schema["const"]
    values = schema.get("enum")
    if isinstance(values, list) and values and all(type(value) in SCALARS for value in values):
        return {**schema, **literal_schema(get_args(Literal[tuple(values)]))}
    return schema


def _with_union(schema: dict[str, Any]) -> dict[str, Any]:
    """Write alternatives as ``anyOf``, or where they are plain types as a list of these."""
    if "oneOf" in schema and "anyOf" not in schema:
        kept = {key: value for key, value in schema.items() if key not in ("oneOf", "discriminator")}
        schema = {**kept, "anyOf": schema["oneOf"]}
    members = schema.get("anyOf")
    if not isinstance(members, list) or not members:
        return schema
    others = [member for member in members if member != {"type": "null"}]
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    if len(others) < len(members) and others:
        beside["nullable"] = True
    if len(others) == 1:
        return {**others[0], **beside}
    return {**beside, **(members_schema(others) if "type" not in beside else {"anyOf": others})}


def _with_nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Write ``null`` among several types as ``nullable``."""
    kinds = schema.get("type")
    if not isinstance(kinds, list) or "enum" in schema:
        return schema
    others = sorted({kind for kind in kinds if kind != "null"})
    if not others:
        return {**schema, "type": "null"}
    nullable = {"nullable": True} if "null" in kinds else {}
    return {**schema, "type": others[0] if len(others) == 1 else others, **nullable}
