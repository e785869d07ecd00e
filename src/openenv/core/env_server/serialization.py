"""Actions and observations as dictionaries, for programs that build their own transport."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from openenv.core.wire.actions import names_tool_action, takes_tool_actions
from openenv.core.wire.answers import outcome_json
from openenv.core.wire.mcp_types import TOOL_ACTIONS
from openenv.core.wire.results import outcome_of
from openenv.core.wire.types import Action

ActT = TypeVar("ActT", bound=BaseModel)


def deserialize_action(data: Mapping[str, Any], action_cls: type[ActT]) -> ActT | Action:
    """Make an action from its fields.

    Args:
        data: The fields.
        action_cls: The action's class. With ``Action``, ``ListToolsAction`` or ``CallToolAction``, fields with the
            ``type`` of one of the latter two make an action of that class.

    Raises:
        pydantic.ValidationError: The fields do not fit the class.
    """
    if takes_tool_actions(action_cls) and names_tool_action(data):
        return TOOL_ACTIONS[data["type"]].model_validate(data)
    return action_cls.model_validate(data)


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
