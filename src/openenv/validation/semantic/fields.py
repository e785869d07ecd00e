"""Fields of actions that an agent writes freely, and the kind of text that each holds: where exploits are sent."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from openenv.core.env_server.mcp_types import Tool
from openenv.core.schema.reader import finite_values, resolved
from openenv.core.schema.values import example_value

MAX_CHOICES = 64
_NAMES = {
    "code": ("code", "source", "program", "python", "script", "patch", "solution_code", "kernel"),
    "shell": ("command", "cmd", "bash", "shell", "keystrokes", "commands"),
    "sql": ("sql",),
    "path": ("path", "file", "filename", "file_path", "filepath"),
    "browser": ("url", "action_str", "browser_action", "html"),
}
_SQL = re.compile(r"\s*(select|with|insert|update|delete)\s", re.IGNORECASE)
_BROWSER = re.compile(r"\s*(click|fill|goto|press|send_msg_to_user|scroll)\(")


class FieldRole(Enum):
    """Kind of text that a field holds."""

    ANSWER = "text"
    CODE = "code"
    SHELL = "shell"
    SQL = "SQL"
    PATH = "path"
    BROWSER = "browser"
    NUMBER = "number"
    VALUES = "values"


@dataclass(frozen=True)
class OpenField:
    """Field of an action with so many values that an agent can't list them.

    Attributes:
        tool: Name of the tool, or of the kind of action.
        name: Name of the field.
        role: Kind of its text.
        schema: Its JSON Schema.
        others: Values of the other fields, from the oracle's action or as an example.
    """

    tool: str
    name: str
    role: FieldRole
    schema: Mapping[str, Any] = field(compare=False, hash=False)
    others: Mapping[str, Any] = field(compare=False, hash=False)

    @property
    def key(self) -> tuple[str, str]:
        """Names of its tool and of itself."""
        return self.tool, self.name

    @property
    def label(self) -> str:
        """Its name for people."""
        return f"{self.tool}.{self.name}"


def open_fields(tools: list[Tool], used: Mapping[str, Mapping[str, Any]]) -> list[OpenField]:
    """List the open fields of tools.

    Args:
        tools: The tools.
        used: Arguments with which the oracle called each tool, by the tool's name.
    """
    return [each for tool in tools for each in _fields_of(tool, used.get(tool.name, {}))]


def choices_of(tools: list[Tool]) -> dict[str, list[dict[str, Any]]]:
    """List the arguments of each tool all of whose required fields have few possible values."""
    return {tool.name: found for tool in tools if (found := _choices(tool.input_schema)) is not None}


def _choices(schema: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    properties = schema.get("properties", {})
    required = [name for name in schema.get("required", ()) if name != "metadata"]
    found: list[dict[str, Any]] = [{}]
    for name in required:
        values = finite_values(resolved(properties.get(name, {}), schema), MAX_CHOICES)
        if values is None or len(values) * len(found) > MAX_CHOICES:
            return None
        found = [{**each, name: value} for each in found for value in values]
    return found


def _fields_of(tool: Tool, used: Mapping[str, Any]) -> Iterator[OpenField]:
    schema = tool.input_schema
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    names = [name for name in properties if name in required or name in used] or list(properties)
    examples = example_value(schema) if properties else {}
    for name in names:
        field_schema = resolved(properties[name], schema)
        role = None if name == "metadata" else role_of(name, field_schema, used.get(name))
        if role is not None:
            others = {other: used.get(other, examples.get(other)) for other in names if other in (used or required)}
            others.pop(name, None)
            yield OpenField(tool.name, name, role, field_schema, others)


def role_of(name: str, schema: Mapping[str, Any], value: Any) -> FieldRole | None:
    """Return the kind of text that a field holds; ``None`` for a field with few possible values.

    Args:
        name: Its name.
        schema: Its schema, without references.
        value: A value that the oracle gave it; ``None`` where it gave none.

    Example:
        >>> role_of("code", {"type": "string"}, None), role_of("way", {"enum": ["left", "right"]}, None)
        (<FieldRole.CODE: 'code'>, None)
    """
    if finite_values(schema, MAX_CHOICES) is not None:
        return None
    kinds = _types(schema)
    if kinds and "string" not in kinds:
        return FieldRole.NUMBER if kinds <= {"number", "integer", "null"} else FieldRole.VALUES
    for role, names in _NAMES.items():
        if name.lower() in names:
            return FieldRole[role.upper()]
    text = value if isinstance(value, str) else ""
    if _SQL.match(text):
        return FieldRole.SQL
    if _BROWSER.match(text):
        return FieldRole.BROWSER
    return FieldRole.CODE if is_code(text) else FieldRole.ANSWER


def is_code(text: str) -> bool:
    """Return whether a text is a program in Python that defines or imports something."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom) for node in tree.body)


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Return the JSON types of a field; empty where it accepts any."""
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return set().union(*(_types(each) for each in alternatives))
    kind = schema.get("type")
    return set(kind) if isinstance(kind, list) else {kind} if isinstance(kind, str) else set()
