"""Actions and observations as dictionaries, for programs that build their own transport."""

import json
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from pydantic import BaseModel

from openenv.core.schema.json_models import read_model
from openenv.core.wire.actions import names_tool_action, own_action, takes_tool_actions
from openenv.core.wire.answers import outcome_json
from openenv.core.wire.errors import validates_itself
from openenv.core.wire.mcp_types import TOOL_ACTIONS
from openenv.core.wire.mcp_types import CallToolAction as CallToolAction
from openenv.core.wire.mcp_types import ListToolsAction as ListToolsAction
from openenv.core.wire.results import outcome_of
from openenv.core.wire.types import Action
from openenv.core.wire.types import Observation as Observation

ActT = TypeVar("ActT", bound=BaseModel)


def deserialize_action(action_data: Mapping[str, Any], action_cls: type[ActT]) -> ActT | Action:
    """Make an action from its fields.

    Args:
        action_data: The fields.
        action_cls: The action's class. With ``Action``, ``ListToolsAction`` or ``CallToolAction``, fields with the
            ``type`` of one of the latter two make an action of that class. A ``model_validate`` of the class's own
            comes first, as on a server.

    Raises:
        pydantic.ValidationError: The fields do not fit the class.
    """
    if takes_tool_actions(action_cls) and names_tool_action(action_data):
        own: Any = own_action(action_data, action_cls)
        return TOOL_ACTIONS[action_data["type"]].model_validate(action_data) if own is None else own
    return (
        action_cls.model_validate(action_data) if validates_itself(action_cls) else read_model(action_cls, action_data)
    )


def deserialize_action_with_preprocessing(action_data: Mapping[str, Any], action_cls: type[ActT]) -> ActT | Action:
    """Make an action from the fields of a form, whose values are text.

    Read as JSON are the ``arguments`` of a tool call and ``tokens``, which become a tensor where torch is installed; an
    ``action_id`` becomes a number.

    Args:
        action_data: The fields.
        action_cls: As for ``deserialize_action``.

    Raises:
        pydantic.ValidationError: The fields do not fit the class.
    """
    return deserialize_action(read_form_fields(action_data), action_cls)


def read_form_fields(action_data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form with those values read that ``deserialize_action_with_preprocessing`` reads.

    Args:
        action_data: The fields.
    """
    fields = dict(action_data)
    if fields.get("type") == "call_tool" and isinstance(fields.get("arguments"), str):
        fields["arguments"] = _read_json(fields["arguments"] or "{}")
    if isinstance(fields.get("tokens"), str | list):
        fields["tokens"] = _tensor_of(_read_json(fields["tokens"]))
    if isinstance(fields.get("action_id"), str):
        fields["action_id"] = _read_json(fields["action_id"])
    return fields


def _read_json(value: Any) -> Any:
    """Return the value of a text in JSON; other values, and text that is no JSON, stay as they are."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _tensor_of(tokens: Any) -> Any:
    """Return a list of token ids as a tensor; unchanged where torch is not installed, and any other value."""
    if not isinstance(tokens, list) or find_spec("torch") is None:
        return tokens
    torch = import_module("torch")
    try:
        return torch.tensor(tokens, dtype=torch.long)
    except (TypeError, ValueError):  # no list of numbers, which the action's class says better
        return tokens


def serialize_observation(observation: BaseModel) -> dict[str, Any]:
    """Return an observation in the form that a client receives.

    Args:
        observation: Any pydantic model; its ``reward``, ``done`` and ``metadata`` are read if it has them.

    Returns:
        ``{"observation": ..., "reward": ..., "done": ...}``, with ``"metadata"`` if there is any.

    Raises:
        EnvironmentFailedError: Some value has no form in JSON.
    """
    document: dict[str, Any] = json.loads(outcome_json(outcome_of(observation)))
    return document
