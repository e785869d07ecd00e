"""Tools for an environment's actions: one tool for each action class, whose fields are the tool's parameters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from openenv.core.exceptions import InvalidRequestError
from openenv.core.schema.generator import model_description, model_parameters
from openenv.core.wire.actions import action_members, decode_action
from openenv.core.wire.mcp_types import LONGEST_TOOL_NAME, RESERVED_TOOL_NAMES, ListedTool

_LONGEST_QUOTE = 100
_METADATA = "metadata"


class ActionTool:
    """Tool for an action class.

    Args:
        name: Name of the tool.
        model: The action class.

    Attributes:
        described: The tool's description for agents.
    """

    def __init__(self, name: str, model: type[BaseModel]) -> None:
        self._model = model
        self._constants = dict(_constants(model))
        parameters = model_parameters(model, (_METADATA, *self._constants))
        self._takes_any = model.model_config.get("extra") == "allow" or not model.model_fields.keys() - {"root"}
        self.described = ListedTool(
            name=name, description=model_description(model), input_schema=parameters, action=model.__name__
        )

    def action(self, arguments: Mapping[str, Any]) -> BaseModel:
        """Create the action of a tool call.

        Raises:
            InvalidRequestError: The arguments are invalid.
        """
        unknown = arguments.keys() - self.described.input_schema["properties"].keys()
        if unknown and not (self._takes_any and unknown.isdisjoint((_METADATA, *self._constants))):
            faults = [
                {"type": "extra_forbidden", "loc": [name[:_LONGEST_QUOTE]], "msg": "Extra inputs are not permitted"}
                for name in sorted(unknown)
            ]
            raise InvalidRequestError("Invalid arguments", errors=faults)
        return decode_action({**arguments, **self._constants}, self._model)


@lru_cache(maxsize=64)
def action_tools(action_class: type[BaseModel], reserved: frozenset[str]) -> Mapping[str, ActionTool]:
    """Create the tools for an environment's actions.

    Args:
        action_class: The action class, or the ``ActionUnion`` of several.
        reserved: Reserved names.

    Returns:
        The tools by name, in the order of the union.
    """
    members = action_members(action_class)
    names = tool_names([member.__name__ for member in members], reserved)
    return {name: ActionTool(name, member) for name, member in zip(names, members, strict=True)}


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
