"""Tools as Python methods, the form in which TRL has an environment's tools: a name, type hints and a docstring.

``transformers.utils.get_json_schema`` makes a schema of a method's hints and its docstring, and a model is shown that.
JSON Schema can express more than hints: the rest of a parameter's schema is behind its description, as
``(JSON Schema: {"minimum": 0})``.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

from openenv.core.env_server.mcp_types import Tool
from openenv.core.schema.hints import hint_of, hint_schema
from openenv.core.schema.plain import plain_schema

__all__ = ["ToolMethod"]

# Keywords of a schema that no hint has to express.
_BESIDE = frozenset({"title", "description", "default", "$defs"})
_SECTIONS = re.compile(r"(Args|Returns|Raises):")
_CHOICES_AT_END = re.compile(r"\(choices:(?:(?!\(choices:).)*\)\s*$", re.IGNORECASE)

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class _ToolParameter:
    """Parameter of a tool.

    Attributes:
        name: Its name in Python.
        key: Its name in the tool's schema, which may be no name in Python.
        hint: Its type hint.
        description: Its meaning, on one line.
        required: Whether every call has it.
        default: Its value where a call leaves it out, if the schema has one.
    """

    name: str
    key: str
    hint: Any
    description: str
    required: bool
    default: Any = None


class ToolMethod:
    """Method that a tool becomes, with a description that is never empty and parameters in the order of its schema.

    Example:
        >>> word = {"type": "string", "description": "five letters", "minLength": 5}
        >>> schema = {"type": "object", "properties": {"word": word}, "required": ["word"]}
        >>> method = ToolMethod(Tool(name="guess", description="Guess the word.", input_schema=schema))
        >>> print(method.docstring)
        Guess the word.
        <BLANKLINE>
        Args:
            word: five letters (JSON Schema: {"minLength": 5})
        >>> method.signature
        <Signature (self, word: str)>
    """

    def __init__(self, tool: Tool) -> None:
        self.name = tool.name
        root = tool.input_schema
        properties: Mapping[str, Any] = root.get("properties") or {}
        names = _python_names(properties)
        required = frozenset(root.get("required") or ())
        self.parameters = tuple(
            _parameter(names[key], key, plain_schema(field, root), required=key in required)
            for key, field in properties.items()
        )
        self.description = _tool_description(tool, self.parameters)

    @property
    def docstring(self) -> str:
        """Docstring of the method, in Google's style."""
        if not self.parameters:
            return self.description
        lines = [f"    {parameter.name}: {parameter.description}" for parameter in self.parameters]
        return "\n".join([self.description, "", "Args:", *lines])

    @property
    def signature(self) -> inspect.Signature:
        """Signature of the method, in which required parameters come first."""
        receiver = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return inspect.Signature([receiver, *map(_signature_parameter, self._in_call_order)])

    @property
    def annotations(self) -> dict[str, Any]:
        """Type hints of the method, in the order of the tool's schema."""
        return {parameter.name: parameter.hint for parameter in self.parameters}

    def schema(self) -> dict[str, Any]:
        """Return the schema that ``transformers.utils.get_json_schema`` makes of the method."""
        properties = {
            parameter.name: {**hint_schema(parameter.hint), "description": parameter.description}
            for parameter in self.parameters
        }
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        required = [parameter.name for parameter in self._in_call_order if parameter.required]
        if required:
            parameters["required"] = required
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}

    def arguments(self, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by their names in the tool's schema.

        Args:
            values: Those that were passed by position.
            named: Those that were passed by their names in Python, and unknown ones.

        Raises:
            TypeError: There are more values than parameters, or one comes twice.
        """
        names = [parameter.name for parameter in self._in_call_order]
        if len(values) > len(names):
            raise TypeError(f"{self.name}() takes {len(names)} arguments, got {len(values)}.")
        positional = dict(zip(names, values, strict=False))
        twice = positional.keys() & named.keys()
        if twice:
            raise TypeError(f"{self.name}() got several values for {', '.join(sorted(twice))}.")
        keys = {parameter.name: parameter.key for parameter in self.parameters}
        return {keys.get(name, name): value for name, value in {**positional, **named}.items()}

    def function(self, call: Callable[[Any, str, dict[str, Any]], Any], attribute: str) -> Callable[..., Any]:
        """Make the method's function.

        Args:
            call: Function of a call, with the instance, the tool's name and the arguments.
            attribute: The attribute's name in its class, for messages of Python's.
        """

        def method(self: Any, /, *values: Any, **named: Any) -> Any:
            return call(self, tool.name, tool.arguments(values, named))

        tool = self
        method.__name__ = self.name
        method.__qualname__ = attribute
        method.__doc__ = self.docstring
        method.__annotations__ = self.annotations
        method.__signature__ = self.signature  # type: ignore[attr-defined]  # inspect looks for it
        return method

    @property
    def _in_call_order(self) -> list[_ToolParameter]:
        return sorted(self.parameters, key=lambda parameter: not parameter.required)


def _parameter(name: str, key: str, schema: dict[str, Any], *, required: bool) -> _ToolParameter:
    hint = hint_of(schema)
    hinted = hint_schema(hint)
    missing = {
        part: value
        for part, value in schema.items()
        if (part not in _BESIDE and hinted.get(part, _BESIDE) != value) or part == "default"
    }
    own = schema.get("description")
    description = _on_one_line(own) if isinstance(own, str) else ""
    description = description or key.replace("_", " ").strip() or "a value"
    return _ToolParameter(
        name, key, hint, _with_rest(description, missing), required=required, default=schema.get("default")
    )


def _with_rest(description: str, missing: Schema) -> str:
    """Return a description with the part of a schema after it that hints can't express."""
    text = _SECTIONS.sub(r"\1 :", description)
    if missing:
        rest = json.dumps(missing, ensure_ascii=False)
        text += f" (JSON Schema: {_SECTIONS.sub(lambda found: found[1] + chr(92) + 'u003a', rest)})"
    # Where it ends like this, transformers reads a list of choices.
    return f"{text}." if _CHOICES_AT_END.search(text) else text


def _tool_description(tool: Tool, parameters: Sequence[_ToolParameter]) -> str:
    text = inspect.cleandoc(tool.description).strip() or f"{tool.name.replace('_', ' ')}."
    root = tool.input_schema
    kept = ("$defs", "definitions") if _refers(parameters) else ()
    rest: dict[str, Any] = {key: root[key] for key in kept if key in root}
    if root.get("additionalProperties") not in (None, False):
        rest["additionalProperties"] = root["additionalProperties"]
    return _with_rest(text, rest)


def _refers(parameters: Sequence[_ToolParameter]) -> bool:
    """Return whether a recursive schema among the parameters' names definitions."""
    return any('"$ref"' in parameter.description for parameter in parameters)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _python_names(keys: Iterable[str]) -> dict[str, str]:
    """Return a valid name in Python for every parameter: its own, where that is one."""
    listed = list(keys)
    used = set(listed)
    names: dict[str, str] = {}
    for key in listed:
        names[key] = key if _is_name(key) else next(name for name in _candidates(key) if name not in used)
        used.add(names[key])
    return names


def _candidates(key: str) -> Iterator[str]:
    close = re.sub(r"\W", "_", key)
    yield from filter(_is_name, (close, f"{close}_", f"argument_{close}"))
    number = 2
    while True:
        yield f"argument_{number}"
        number += 1


def _is_name(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name) and name != "self" and re.fullmatch(r"\w+", name) is not None


def _signature_parameter(parameter: _ToolParameter) -> inspect.Parameter:
    default = inspect.Parameter.empty if parameter.required else parameter.default
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(parameter.name, kind, default=default, annotation=parameter.hint)
