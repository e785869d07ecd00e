"""Clients that are made from an environment's classes, without a line of parsing by hand."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel

from openenv.core.client.client import EnvClient
from openenv.core.client.results import ActT, ObsT, StateT, StepResult
from openenv.core.environment_types import environment_types, generic_arguments
from openenv.core.exceptions import ConfigurationError, InvalidAnswerError
from openenv.core.plain_values import plain_value
from openenv.core.wire.actions import action_model
from openenv.core.wire.mcp_types import CallToolObservation, GenericMCPObservation, tool_observation_class

ModelT = TypeVar("ModelT", bound=BaseModel)


class TypedEnvClient(EnvClient[ActT, ObsT, StateT]):
    """A client whose three hooks follow from its type parameters.

    Example:
        >>> class EchoEnv(TypedEnvClient[EchoAction, EchoObservation, State]):  # doctest: +SKIP
        ...     '''A session with an echo server.'''
    """

    action_class: ClassVar[type[BaseModel]]
    observation_class: ClassVar[type[BaseModel]]
    state_class: ClassVar[type[BaseModel]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Note the classes that a subclass names; a generic one may leave some of them open.

        Raises:
            ConfigurationError: One of them is no pydantic model.
        """
        super().__init_subclass__(**kwargs)
        named = generic_arguments(cls, TypedEnvClient) or ()
        for name, parameter in zip(("action_class", "observation_class", "state_class"), named, strict=False):
            if not isinstance(parameter, TypeVar):
                model = (action_model(parameter) or parameter) if name == "action_class" else parameter
                _check_model(cls, model)
                setattr(cls, name, model)

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        if not isinstance(action, BaseModel):
            raise TypeError(f"Expected {self.action_class.__name__}, got {type(action).__name__}: {action!r}.")
        # A server takes the names that its schema shows, which are the aliases.
        payload = action.model_dump(mode="json", by_alias=True, fallback=plain_value)
        if not payload.get("metadata", True):  # an older server's action may not have this field
            del payload["metadata"]
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        reward, done, shown = payload.get("reward"), payload.get("done", False), payload.get("observation")
        if not isinstance(shown, dict):
            raise InvalidAnswerError(f"Expected an observation in the server's answer, got {shown!r}.")
        observation_class = self.observation_class
        known = observation_class.model_fields
        if "result" in known or "tool_name" in shown or "tools" in shown:
            observation_class = _with_tools(observation_class, shown)
            known = observation_class.model_fields
        beside = {name: value for name, value in (("reward", reward), ("done", done)) if name in known}
        observation = cast("ObsT", _from_wire(observation_class, shown | beside))
        return StepResult(observation, reward, done, payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        return cast("StateT", _from_wire(self.state_class, payload))


def client_for(environment: type, name: str | None = None) -> type[TypedEnvClient[Any, Any, Any]]:
    """Make the client class of an environment.

    Args:
        environment: The environment's class.
        name: Name of the client; by default ``XEnvironment`` gives ``XEnv``.

    Raises:
        ConfigurationError: The class does not say what its actions and observations are.

    Example:
        >>> CatchEnv = client_for(CatchEnvironment)  # doctest: +SKIP
        >>> env = CatchEnv(base_url="http://localhost:8000")  # doctest: +SKIP
    """
    types = environment_types(environment)
    members = {
        "__doc__": f"A session with a {environment.__name__}.",
        "__module__": environment.__module__,
        "action_class": types.action,
        "observation_class": types.observation,
        "state_class": types.state,
    }
    return type(name or _client_name(environment.__name__), (TypedEnvClient,), members)


def _client_name(environment: str) -> str:
    return environment.removesuffix("ironment") if environment.endswith("Environment") else f"{environment}Env"


def _with_tools(own: type[BaseModel], shown: Mapping[str, Any]) -> type[BaseModel]:
    """Choose the class of an observation that may be one of tools, which stand beside an environment's own."""
    found = tool_observation_class(shown)
    if own is CallToolObservation:
        return found
    return own if found is GenericMCPObservation or shown.keys() <= own.model_fields.keys() else found


def _check_model(client: type, parameter: Any) -> None:
    if not (isinstance(parameter, type) and issubclass(parameter, BaseModel)):
        raise ConfigurationError(f"Expected {client.__name__} to name three pydantic models, got {parameter!r}.")


def _from_wire(model: type[ModelT], fields: Mapping[str, Any]) -> ModelT:
    """Make a model from what the server wrote of it: all fields by their names, computed ones among them."""
    computed = model.model_computed_fields
    if computed:
        fields = {name: value for name, value in fields.items() if name not in computed}
    return model.model_validate(fields, by_name=True)
