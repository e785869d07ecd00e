"""Examples of JSON values, made from their JSON Schemas for the API's documentation."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

_DEEPEST = 8
_PLAIN: dict[str, Any] = {"string": "text", "boolean": True, "null": None}


def example_of(model: type[BaseModel]) -> dict[str, Any] | None:
    """Return an example of a class; ``None`` if the generated example is not valid.

    Args:
        model: The class. Its fields' ``examples`` win; else defaults, the first of several choices, and bounds.

    Example:
        >>> from typing import Literal
        >>> from pydantic import Field
        >>> class Move(BaseModel):
        ...     way: Literal["left", "right"]
        ...     steps: int = Field(ge=1)
        >>> example_of(Move)
        {'way': 'left', 'steps': 1}
    """
    schema = model.model_json_schema()
    example = _example(schema, schema.get("$defs", {}), 0)
    try:
        model.model_validate(example)
    except ValidationError:
        return None
    return example if isinstance(example, dict) else None


def _example(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        return _example(definitions.get(schema["$ref"].rpartition("/")[2], {}), definitions, depth + 1)
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    members = schema.get("oneOf") or schema.get("anyOf")
    if members:
        return _example(members[0], definitions, depth + 1)
    return None if depth > _DEEPEST else _of_type(schema, definitions, depth)


def _of_type(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int) -> Any:
    match schema.get("type"):
        case "object":
            fields, required = schema.get("properties", {}), schema.get("required", ())
            shown = [name for name in fields if name in required or "const" in fields[name]] or _fillable(fields)
            return {name: _example(fields[name], definitions, depth + 1) for name in shown}
        case "array":
            item = _example(schema.get("items", {}), definitions, depth + 1)
            return [item] * max(1, schema.get("minItems", 1))
        case "integer" | "number":
            return _number(schema)
        case kind:
            return _PLAIN.get(str(kind), _PLAIN["string"])


def _fillable(fields: Mapping[str, Any]) -> list[str]:
    """Return the fields that a client fills in when none is required."""
    return [name for name in fields if name != "metadata"]


def _number(schema: Mapping[str, Any]) -> Any:
    if "minimum" in schema:
        return schema["minimum"]
    return schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema)
