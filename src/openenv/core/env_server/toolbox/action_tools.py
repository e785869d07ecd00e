"""Tools for an environment's actions: one tool for each action class, whose fields are the tool's parameters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from openenv.core.exceptions import InvalidRequestError
from openenv.core.schema.generator import described_schema, model_description, model_parameters
from openenv.core.schema.reader import Member, constants, members
from openenv.core.wire.actions import action_members, decode_action, member_action
from openenv.core.wire.errors import validates_itself
from openenv.core.wire.mcp_types import LONGEST_TOOL_NAME, RESERVED_TOOL_NAMES, ListedTool, Tool

_LONGEST_QUOTE = 100
_METADATA = "metadata"


@dataclass(frozen=True)
class ActionTool:
    """Tool for an action class.

    Attributes:
        described: The tool's description for agents.
        constants: Fields with one possible value, which an agent does not fill in.
        model: The class that makes the action of a call: a member of the environment's action class, or that class.
        action_class: The environment's action class.
        takes_any: Whether the action has further fields, of any name.
    """

    described: ListedTool
    constants: Mapping[str, Any]
    model: type[BaseModel]
    action_class: type[BaseModel]
    takes_any: bool = False

    def action(self, arguments: Mapping[str, Any]) -> BaseModel:
        """Create the action of a tool call.

        Raises:
            InvalidRequestError: The arguments are invalid.
        """
        unknown = arguments.keys() - self.described.input_schema["properties"].keys()
        if unknown and not (self.takes_any and unknown.isdisjoint((_METADATA, *self.constants))):
            faults = [
                {"type": "extra_forbidden", "loc": [name[:_LONGEST_QUOTE]], "msg": "Extra inputs are not permitted"}
                for name in sorted(unknown)
            ]
            raise InvalidRequestError("Invalid arguments", errors=faults)
        return member_action(decode_action({**arguments, **self.constants}, self.model), self.action_class)


@lru_cache(maxsize=64)
def action_tools(action_class: type[BaseModel], reserved: frozenset[str]) -> Mapping[str, ActionTool]:
    """Create the tools for an environment's actions.

    Args:
        action_class: The action class; of several, the ``ActionUnion`` or a ``RootModel`` of the union.
        reserved: Reserved names.

    Returns:
        The tools by name, in the order of the union.
    """
    models = action_members(action_class)
    if len(models) == 1 and validates_itself(action_class):
        kinds = members(action_class.model_json_schema())
        if len(kinds) > 1:  # a class whose own methods make it stand for several
            names = tool_names([kind.name for kind in kinds], reserved)
            return {name: _schema_tool(name, kind, action_class) for name, kind in zip(names, kinds, strict=True)}
    names = tool_names([model.__name__ for model in models], reserved)
    return {name: _model_tool(name, model, action_class) for name, model in zip(names, models, strict=True)}


def _model_tool(name: str, model: type[BaseModel], action_class: type[BaseModel]) -> ActionTool:
    fixed = dict(_constants(model))
    described = ListedTool(
        name=name,
        description=model_description(model),
        input_schema=model_parameters(model, (_METADATA, *fixed)),
        action=model.__name__,
    )
    takes_any = model.model_config.get("extra") == "allow" or not model.model_fields.keys() - {"root"}
    return ActionTool(described, fixed, model, action_class, takes_any)


def _schema_tool(name: str, kind: Member, action_class: type[BaseModel]) -> ActionTool:
    described = ListedTool(**described_tool(name, kind.schema).model_dump(), action=kind.name)
    return ActionTool(described, constants(kind.schema), action_class, action_class)


def described_tool(name: str, schema: Mapping[str, Any]) -> Tool:
    """Return the description of an action's tool for agents.

    Args:
        name: Name of the tool.
        schema: The action's JSON Schema.
    """
    hidden = {_METADATA, *constants(schema)}
    chosen = {key: field for key, field in schema.get("properties", {}).items() if key not in hidden}
    required = [key for key in schema.get("required", ()) if key in chosen]
    described = described_schema({**schema, "properties": chosen, "required": required})
    return Tool(name=name, description=described.pop("description"), input_schema=described)


def tool_names(classes: Sequence[str], reserved: frozenset[str] = frozenset()) -> list[str]:
    """Return tool names for action classes: ``guess`` for ``GuessAction``, unless that is empty, reserved or in use.

    Args:
        classes: Names of the classes.
        reserved: Reserved names.
    """
    names: list[str] = []
    for name in classes:
        unusable = RESERVED_TOOL_NAMES.union(reserved, names, ("",))
        names.append(next(candidate for candidate in _candidates(name) if candidate not in unusable))
    return names


def _candidates(name: str) -> Iterator[str]:
    yield _snake_case(name.removesuffix("Action"))
    whole = _snake_case(name) or "act"
    yield whole
    number = 2
    while True:
        yield f"{whole[: LONGEST_TOOL_NAME - 10]}_{number}"
        number += 1


def _snake_case(name: str) -> str:
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[^a-z0-9_]+", "_", parted.lower()).strip("_")[:LONGEST_TOOL_NAME]


def _constants(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    """Yield the fields with a single possible value, such as the discriminator of a union."""
    for name, field in model.model_fields.items():
        values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        if len(values) == 1:
            yield _shown_name(name, field), values[0]


def _shown_name(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name
