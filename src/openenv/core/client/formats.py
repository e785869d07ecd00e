"""How actions, results and states look on the wire, without state of its own: sessions may share a format."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Generic, cast

from pydantic import BaseModel

from openenv.core.client.results import ActT, ObsT, StateT, StepResult
from openenv.core.exceptions import InvalidAnswerError
from openenv.core.plain_values import plain_value
from openenv.core.schema.json_models import model_reader
from openenv.core.wire.array_fields import holds_arrays
from openenv.core.wire.errors import validates_itself
from openenv.core.wire.mcp_types import (
    TOOL_KEYS,
    CallToolObservation,
    GenericMCPObservation,
    tool_observation_class,
)

_OF_EVERY_OBSERVATION = {"done", "reward", "metadata"}


class WireFormat(ABC, Generic[ActT, ObsT, StateT]):
    """Writes the actions of a session and reads its answers."""

    @abstractmethod
    def step_payload(self, action: ActT) -> dict[str, Any]:
        """Return the fields that go on the wire for an action."""

    @abstractmethod
    def parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Make a result from ``{"observation", "reward", "done"[, "metadata"]}``."""

    @abstractmethod
    def parse_state(self, payload: dict[str, Any]) -> StateT:
        """Make a state from its fields."""


class GenericFormat(WireFormat[Any, dict[str, Any], dict[str, Any]]):
    """Plain dictionaries."""

    def step_payload(self, action: Any) -> dict[str, Any]:
        """Take a mapping, a pydantic model, or any object with attributes."""
        if isinstance(action, Mapping):
            return dict(action)
        if isinstance(action, BaseModel):
            fields: dict[str, Any] = action.model_dump(mode="json", by_alias=True, fallback=plain_value)
            return fields
        attributes: dict[str, Any] = vars(action)
        return attributes

    def parse_result(self, payload: dict[str, Any]) -> StepResult[dict[str, Any]]:
        """Hand the observation out as it came."""
        return StepResult(
            payload.get("observation", {}), payload.get("reward"), payload.get("done", False), payload.get("metadata")
        )

    def parse_state(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Hand the state out as it came."""
        return payload


class TypedFormat(WireFormat[ActT, ObsT, StateT]):
    """Pydantic models.

    Args:
        action: The class of actions.
        observation: The class of observations.
        state: The class of states.
    """

    def __init__(self, action: type[BaseModel], observation: type[BaseModel], state: type[BaseModel]) -> None:
        self._action_class = action
        self._observation_class = observation
        self._state_class = state

    def step_payload(self, action: ActT) -> dict[str, Any]:
        """Write an action.

        Raises:
            TypeError: It is no model.
        """
        if not isinstance(action, BaseModel):
            raise TypeError(f"Expected {self._action_class.__name__}, got {type(action).__name__}: {action!r}.")
        # A server takes the names that its schema shows, which are the aliases.
        payload = action.model_dump(mode="json", by_alias=True, fallback=plain_value)
        if not payload.get("metadata", True):  # an older server's action may not have this field
            del payload["metadata"]
        return payload

    def parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Make the observation's model; one of tools where the answer is a tool's.

        Raises:
            InvalidAnswerError: There is no observation.
            pydantic.ValidationError: It does not fit the class.
        """
        reward, done, shown = payload.get("reward"), payload.get("done", False), payload.get("observation")
        if not isinstance(shown, dict):
            raise InvalidAnswerError(f"Expected an observation in the server's answer, got {shown!r}.")
        observation_class = self._observation_class
        known = observation_class.model_fields
        if "result" in known or not TOOL_KEYS.isdisjoint(shown):
            observation_class = _with_tools(observation_class, shown)
            known = observation_class.model_fields
        beside = {name: value for name, value in (("reward", reward), ("done", done)) if name in known}
        observation = cast("ObsT", _reader(observation_class)(shown | beside))
        return StepResult(observation, reward, done, payload.get("metadata"))

    def parse_state(self, payload: dict[str, Any]) -> StateT:
        """Make the state's model.

        Raises:
            pydantic.ValidationError: It does not fit the class.
        """
        return cast("StateT", _reader(self._state_class)(payload))


def foreign_observation_warning(sent: Any, read: Any) -> str | None:
    """Say that an observation which a client has read has none of the fields that the server sent.

    A client whose parser has a default for each field gives empty observations of another environment's server.

    Args:
        sent: The observation's fields as the server sent them.
        read: The observation that the client has made of them.

    Returns:
        What is wrong and what to do; ``None`` where a field is the same, or nothing can be compared.
    """
    if not isinstance(sent, Mapping) or not isinstance(read, BaseModel):
        return None
    there, here = sent.keys() - _OF_EVERY_OBSERVATION, type(read).model_fields.keys() - _OF_EVERY_OBSERVATION
    if not there or not here or not here.isdisjoint(there) or type(read).model_config.get("extra") == "allow":
        return None
    name, theirs, own = type(read).__name__, ", ".join(sorted(there)), ", ".join(sorted(here))
    return (
        f"the server's observation has the fields {theirs}, and {name} has none of them but {own}. The server is "
        "probably another environment's; start the one of this client."
    )


def _with_tools(own: type[BaseModel], shown: Mapping[str, Any]) -> type[BaseModel]:
    """Choose the class of an observation that may be one of tools, which stand beside an environment's own.

    A class that declares the keys comes before what they look like.
    """
    found = tool_observation_class(shown)
    if own is CallToolObservation:
        return found
    declared = _declared_names(own)
    of_tools = shown.keys() <= found.model_fields.keys()
    if found is GenericMCPObservation or not of_tools or shown.keys() <= declared:
        return own
    accepts_others = own.model_config.get("extra") == "allow"
    return own if accepts_others and not declared.isdisjoint(TOOL_KEYS & shown.keys()) else found


@lru_cache(maxsize=1024)
def _declared_names(model: type[BaseModel]) -> frozenset[str]:
    """Return the names under which a model's fields may be written: their own and aliases, computed ones included."""
    fields, computed = model.model_fields, model.model_computed_fields
    aliases = (field.serialization_alias for field in fields.values()), (field.alias for field in computed.values())
    return frozenset({*fields, *computed, *(alias for alias in chain(*aliases) if alias is not None)})


@lru_cache(maxsize=1024)
def _reader(model: type[BaseModel]) -> Callable[[Mapping[str, Any]], Any]:
    """Return the function that makes a model from what the server wrote of it."""
    return partial(_read_itself, model) if validates_itself(model) else model_reader(model, holds_arrays(model))


def _read_itself(model: type[BaseModel], fields: Mapping[str, Any]) -> BaseModel:
    """Make a model by its own ``model_validate``, which is not to meet computed fields."""
    own = {name: value for name, value in fields.items() if name not in model.model_computed_fields}
    return model.model_validate(own, by_name=True)
