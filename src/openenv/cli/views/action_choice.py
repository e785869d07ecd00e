"""Forms in which a person chooses an action or a tool, and fills in its fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape

from openenv.cli.views.action_form import InputForm
from openenv.core.env_server.toolbox.action_tools import tool_names
from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.reader import calls_tool, constants, members

_LIST_TOOLS, _CALL_TOOL = "list_tools", "call_tool"
LIST_TOOLS = {"type": _LIST_TOOLS}
"""The step that lists tools and does nothing else."""


@dataclass(frozen=True)
class Kind:
    """Kind of action, or a tool.

    Attributes:
        name: Text that a person types to choose it.
        description: Description of it.
        schema: JSON Schema of its fields.
        constants: Fields with one possible value.
        is_tool: Whether it is a tool.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    is_tool: bool = False

    def step(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the content of a step."""
        if self.is_tool:
            return {"type": _CALL_TOOL, "tool_name": self.name, "arguments": fields}
        return {**fields, **self.constants}


def action_kinds(schema: Mapping[str, Any], tools: frozenset[str] = frozenset()) -> list[Kind]:
    """Find the kinds of actions in an action's JSON Schema: several in a union; none where it only calls tools."""
    kinds = {} if calls_tool(schema) else dict(members(schema))
    names = tool_names(list(kinds), tools)  # agents call them the same
    return [_kind(name, kind) for name, kind in zip(names, kinds.values(), strict=True)]


def tool_kinds(tools: Sequence[Mapping[str, Any]]) -> list[Kind]:
    """Make kinds of the tools that a server lists."""
    return [Kind(tool["name"], tool.get("description", ""), tool["input_schema"], is_tool=True) for tool in tools]


def refuses_listing(schema: Mapping[str, Any]) -> bool:
    """Return whether ``LIST_TOOLS`` is no action by a JSON Schema, so that the request does nothing without tools."""
    if calls_tool(schema):
        return True
    return all(_refuses(kind.schema, kind.constants) for kind in action_kinds(schema))


def form_of(kinds: Sequence[Kind], console: Console) -> InputForm:
    """Make the form of all kinds.

    Raises:
        ConfigurationError: There are none.
    """
    if not kinds:
        raise ConfigurationError("The environment offers no tools, so there is nothing to play.")
    if len(kinds) == 1:
        return ToolInputForm(kinds[0], console) if kinds[0].is_tool else InputForm(kinds[0].schema, console)
    return ChoiceForm(kinds, console)


class ToolInputForm(InputForm):
    """Form of the only tool, which need not be named."""

    def __init__(self, tool: Kind, console: Console) -> None:
        super().__init__(tool.schema, console, left_out=())
        self._tool = tool

    def fill(self) -> dict[str, Any]:
        """Read the tool's fields, and return the content of a step."""
        return self._tool.step(super().fill())

    def remember(self, action: Mapping[str, Any]) -> None:
        """Keep the values of a call as those that the next form offers."""
        super().remember(action["arguments"])

    def _explain(self) -> None:
        self._console.print(_explained(self._tool))
        super()._explain()


class ChoiceForm(InputForm):
    """Form for the name of a kind, and for its fields where the name has no value behind it."""

    def __init__(self, kinds: Sequence[Kind], console: Console) -> None:
        self._question = "tool" if all(kind.is_tool for kind in kinds) else "action"
        names = {"enum": [kind.name for kind in kinds]}
        super().__init__({"properties": {self._question: names}, "required": [self._question]}, console)
        self._kinds = {kind.name: kind for kind in kinds}
        self._forms = {kind.name: _fields_form(kind, console) for kind in kinds}

    def fill(self) -> dict[str, Any]:
        """Read a kind and its fields, and return the content of a step."""
        name, typed = self._read_kind()
        super().remember({self._question: name})
        form = self._forms[name]
        if not form.has_fields:  # its name said all
            return self._kinds[name].step({})
        return self._kinds[name].step(form.fill_rest(typed) if typed else form.fill())

    def show_help(self) -> None:
        """Explain the kinds, and how to choose in one line."""
        super().show_help()
        takers = [kind.name for kind in self._kinds.values() if self._forms[kind.name].has_fields]
        if takers:
            self._console.print(f"A value may follow the name, as in `{takers[0]} VALUE`.", style="dim", markup=False)

    def _read_kind(self) -> tuple[str, str]:
        """Read a kind's name, and the value of the first field that may stand behind it."""
        (question,) = self._fields
        while True:
            typed, _, value = self._answer(question).partition(" ")
            name, problem = question.read(typed)
            if problem is None and value.strip() and not self._forms[name].has_fields:
                problem = f"{name} takes no value; type its name alone."
            if problem is None:
                return name, value.strip()
            self._console.print(f"[yellow]{escape(problem)}[/]")

    def _explain(self) -> None:
        for kind in self._kinds.values():
            self._console.print(_explained(kind))

    def remember(self, action: Mapping[str, Any]) -> None:
        """Keep nothing: the name is kept already, and the fields of the next call are rarely the same."""


def _explained(kind: Kind) -> str:
    lines = kind.description.splitlines() or [""]
    return f"[bold]{escape(kind.name)}[/]  {escape(lines[0])}"


def _fields_form(kind: Kind, console: Console) -> InputForm:
    return InputForm(kind.schema, console, left_out=() if kind.is_tool else ("metadata", *kind.constants))


def _kind(name: str, schema: Mapping[str, Any]) -> Kind:
    return Kind(name, schema.get("description", ""), schema, constants(schema))


def _refuses(schema: Mapping[str, Any], fixed: Mapping[str, Any]) -> bool:
    missing = set(schema.get("required", ())) - {"type"}
    unknown = schema.get("additionalProperties") is False and "type" not in schema.get("properties", {})
    return bool(missing) or unknown or fixed.get("type", _LIST_TOOLS) != _LIST_TOOLS
