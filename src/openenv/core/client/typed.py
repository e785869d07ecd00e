"""Clients that are made from an environment's classes, without a line of parsing by hand."""

from functools import cached_property
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel

from openenv.core.client.client import FormattedClient
from openenv.core.client.formats import TypedFormat, WireFormat
from openenv.core.client.results import ActT, ObsT, StateT
from openenv.core.environment_types import environment_types, generic_arguments
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.actions import action_model
from openenv.core.wire.array_fields import holds_arrays
from openenv.core.wire.types import State, dataclass_advice

ModelT = TypeVar("ModelT", bound=BaseModel)


class TypedEnvClient(FormattedClient[ActT, ObsT, StateT]):
    """A client whose three hooks follow from its type parameters.

    Example:
        >>> class EchoEnv(TypedEnvClient[EchoAction, EchoObservation, State]):  # doctest: +SKIP
        ...     '''A session with an echo server.'''
    """

    action_class: ClassVar[type[BaseModel]]
    observation_class: ClassVar[type[BaseModel]]
    state_class: ClassVar[type[BaseModel]] = State

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

    def _takes_arrays(self) -> bool:
        return super()._takes_arrays() or holds_arrays(self.observation_class)

    @cached_property
    def _wire_format(self) -> WireFormat[ActT, ObsT, StateT]:
        return TypedFormat(self.action_class, self.observation_class, self.state_class)


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


def _check_model(client: type, parameter: Any) -> None:
    if advice := dataclass_advice(parameter):
        raise ConfigurationError(advice)
    if not (isinstance(parameter, type) and issubclass(parameter, BaseModel)):
        raise ConfigurationError(f"Expected {client.__name__} to name three pydantic models, got {parameter!r}.")
