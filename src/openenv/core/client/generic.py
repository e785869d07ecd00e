"""A client for any environment, in plain dictionaries."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from openenv.core.client.client import EnvClient
from openenv.core.client.results import StepResult
from openenv.core.plain_values import plain_value


class GenericAction(dict[str, Any]):
    """An action as a dictionary, written with keywords.

    Example:
        >>> GenericAction(word="crane")
        GenericAction(word='crane')
    """

    def __repr__(self) -> str:
        """Show it as it was written."""
        fields = ", ".join(f"{name}={value!r}" for name, value in self.items())
        return f"GenericAction({fields})"


class GenericEnvClient(EnvClient[Any, dict[str, Any], dict[str, Any]]):
    """A client that needs no classes: observations and states are dictionaries.

    An action may be a mapping, a pydantic model, or any object with attributes.
    """

    def _step_payload(self, action: Any) -> dict[str, Any]:
        if isinstance(action, Mapping):
            return dict(action)
        if isinstance(action, BaseModel):
            fields: dict[str, Any] = action.model_dump(mode="json", by_alias=True, fallback=plain_value)
            return fields
        attributes: dict[str, Any] = vars(action)
        return attributes

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
        return StepResult(
            payload.get("observation", {}), payload.get("reward"), payload.get("done", False), payload.get("metadata")
        )

    def _parse_state(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload
