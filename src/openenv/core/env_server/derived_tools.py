"""The tools that an environment's actions make: one for each class of actions, whose fields are its parameters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from openenv.core.env_server.action_unions import action_members
from openenv.core.env_server.mcp_types import LONGEST_TOOL_NAME, RESERVED_TOOL_NAMES, Tool
from openenv.core.env_server.protocol import decode_action
from openenv.core.env_server.tool_schemas import model_description, model_parameters
from openenv.core.exceptions import InvalidRequestError

_LONGEST_QUOTE = 100
_METADATA = "metadata"


class DerivedTool:
    """One class of actions as a tool.

    Args:
        name: What agents call it.
        model: The class.

    Attributes:
        described: What an agent is told of it.
    """

    def __init__(self, name: str, model: type[BaseModel]) -> None:
        self._model = model
        self._constants = dict(_constants(model))
        parameters = model_parameters(model, (_METADATA, *self._constants))
        self._takes_any = model.model_config.get("extra") == "allow" or not model.model_fields.keys() - {"root"}
        self.described = Tool(name=name, description=model_description(model), input_schema=parameters)

    def action(self, arguments: Mapping[str, Any]) -> BaseModel:
        """Make the action of a call.

        Raises:
            InvalidRequestError: The arguments do not fit.
        """
        unknown = arguments.keys() - self.described.input_schema["properties"].keys()
        if unknown and not (self._takes_any and unknown.isdisjoint((_METADATA, *self._constants))):
            faults = [
                {"type": "extra_forbidden", "loc": [name[:_LONGEST_QUOTE]], "msg": "Extra inputs are not permitted"}
                for name in sorted(unknown)
            ]
            raise InvalidRequestError("Invalid arguments", errors=faults)
        return decode_action({**arguments, **self._constants}, self._model)


def derived_tools(action_class: type[BaseModel], taken: frozenset[str]) -> dict[str, DerivedTool]:
    """Make the tools of an environment's actions.

    Args:
        action_class: The class of actions, or what stands for a union of such.
        taken: Names that they can't have.

    Returns:
        The tools by their names, in the order of the union.
    """
    members = action_members(action_class)
    names = tool_names([member.__name__ for member in members], taken)
    return {name: DerivedTool(name, member) for name, member in zip(names, members, strict=True)}


def tool_names(classes: Sequence[str], taken: frozenset[str] = frozenset()) -> list[str]:
    """Name the tools of classes: ``GuessAction`` is ``guess``, unless that is no name or another one's.

    Args:
        classes: Names of the classes.
        taken: Names that they can't have.
    """
    names: list[str] = []
    for name in classes:
        unusable = RESERVED_TOOL_NAMES.union(taken, names, ("",))
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
    """Find the fields that can have one value only, such as what tells the members of a union apart."""
    for name, field in model.model_fields.items():
        values = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        if len(values) == 1:
            yield _shown_name(name, field), values[0]


def _shown_name(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name
