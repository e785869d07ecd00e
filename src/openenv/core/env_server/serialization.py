"""Actions and observations as dictionaries, for programs that build their own transport."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from openenv.core.env_server.outcomes import outcome_of
from openenv.core.env_server.protocol import outcome_json

ActT = TypeVar("ActT", bound=BaseModel)


def deserialize_action(data: Mapping[str, Any], action_cls: type[ActT]) -> ActT:
    """Make an action from its fields.

    Raises:
        pydantic.ValidationError: The fields do not fit the class.
    """
    return action_cls.model_validate(data)


def serialize_observation(observation: BaseModel) -> dict[str, Any]:
    """Turn an observation into what a client receives.

    Args:
        observation: Any pydantic model; ``reward``, ``done`` and ``metadata`` are read where it has them.

    Returns:
        ``{"observation": ..., "reward": ..., "done": ...}``, with ``"metadata"`` where there is any.

    Raises:
        EnvironmentFailedError: Some value has no form in JSON.
    """
    document: dict[str, Any] = json.loads(outcome_json(outcome_of(observation)))
    return document
