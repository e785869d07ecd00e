"""The classes of an environment's actions, observations and state, read off its class by clients and servers alike."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any, Generic, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from typing_extensions import TypeVar

from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.actions import action_model
from openenv.core.wire.types import Action, Observation, State, dataclass_advice

# The defaults are for a class with tools alone, which names no types.
ActT = TypeVar("ActT", bound=BaseModel, default=Action)
ObsT = TypeVar("ObsT", bound=BaseModel, default=Observation)
StateT = TypeVar("StateT", bound=BaseModel, default=State)


class TypedEnvironment(Generic[ActT, ObsT, StateT]):
    """Base of ``Environment``: its type parameters name the classes of actions, observations and the state."""


@dataclass(frozen=True)
class EnvironmentTypes:
    """The classes of an environment's actions, observations and state.

    Attributes:
        action: Class of the actions; of several kinds, an ``ActionUnion``.
        observation: Class of the observations.
        state: Class of the state.
    """

    action: type[BaseModel]
    observation: type[BaseModel]
    state: type[BaseModel]


def environment_types(environment: type) -> EnvironmentTypes:
    """Read the classes off an environment's generic parameters or, without these, its annotations.

    Args:
        environment: The environment's class: ``class MyEnvironment(Environment[MyAction, MyObservation, MyState])``,
            or one whose ``step`` is annotated. The action may be a union.

    Returns:
        The classes. The state is ``State`` where nothing names another.

    Raises:
        ConfigurationError: Neither names the action and the observation.
    """
    arguments = generic_arguments(environment, TypedEnvironment) or (None, None, None)
    action = action_model(arguments[0])
    observation, state = (_model(argument) for argument in arguments[1:])
    hints = type_hints(environment.step)  # type: ignore[attr-defined]
    action = action or action_model(hints.get(_action_parameter(environment.step)))  # type: ignore[attr-defined]
    observation = observation or _model(hints.get("return"))
    if action is None or observation is None:
        named = (*arguments, *hints.values())
        for advice in filter(None, map(dataclass_advice, named)):
            raise ConfigurationError(advice)
        raise ConfigurationError(
            f"{environment.__name__} does not say what its actions and observations are. Name them once, as in "
            f"class {environment.__name__}(Environment[MyAction, MyObservation, State]), or annotate its step method."
        )
    return EnvironmentTypes(action, observation, state or _state_annotation(environment) or State)


def generic_arguments(cls: type, generic: type) -> tuple[Any, ...] | None:
    """Find what a class fills the parameters of one of its generic bases with, however far up that base is.

    Args:
        cls: The class.
        generic: The generic base.

    Returns:
        An argument for each parameter of ``generic``, a ``TypeVar`` where it is still open; ``None`` where no base
        fills them.

    Example:
        >>> from typing import Generic, TypeVar
        >>> A, B = TypeVar("A"), TypeVar("B")
        >>> class Pair(Generic[A, B]): ...
        >>> class Named(Pair[str, B]): ...
        >>> class Age(Named[int]): ...
        >>> generic_arguments(Age, Pair)
        (<class 'str'>, <class 'int'>)
    """
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        if not isinstance(origin, type) or not issubclass(origin, generic):
            continue
        arguments = get_args(base)
        if origin is generic:
            return arguments or None
        inherited = generic_arguments(origin, generic)
        if inherited is not None:
            filled = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False))
            return tuple(filled.get(argument, argument) for argument in inherited)
    return None


def _action_parameter(step: Callable[..., Any]) -> str:
    """Name of the parameter that takes the action: the first one after ``self``."""
    return next(iter(list(inspect.signature(step).parameters)[1:]), "")


def _state_annotation(environment: type) -> type[BaseModel] | None:
    state = inspect.getattr_static(environment, "state", None)
    function = state.fget if isinstance(state, property) else state
    return _model(type_hints(function).get("return")) if callable(function) else None


def type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's annotations; none where one of them exists for the type checker only.

    Args:
        function: The function.
    """
    try:
        return get_type_hints(function)
    except NameError:
        return {}


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model class that an annotation names; in ``tuple[Observation, float, bool]`` or a union, the first one."""
    if get_origin(annotation) in (tuple, Union, UnionType):
        return next((model for argument in get_args(annotation) if (model := _model(argument))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
