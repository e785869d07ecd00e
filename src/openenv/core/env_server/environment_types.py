"""Find an environment's action, observation and state classes, and what its methods accept."""

import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State
from openenv.core.exceptions import ConfigurationError


@dataclass(frozen=True)
class EnvironmentTypes:
    """The three classes that an environment speaks in."""

    action: type[BaseModel]
    observation: type[BaseModel]
    state: type[BaseModel]


def environment_types(environment: type) -> EnvironmentTypes:
    """Read the classes off an environment's generic parameters or, without these, its annotations.

    Args:
        environment: The environment's class: ``class MyEnvironment(Environment[MyAction, MyObservation, MyState])``,
            or one whose ``step`` is annotated.

    Returns:
        The classes. The state is ``State`` where nothing names another.

    Raises:
        ConfigurationError: Neither names the action and the observation.
    """
    parameters = _generic_parameters(environment)
    action = parameters[0] or _model(_hints(environment.step).get("action"))  # type: ignore[attr-defined]
    observation = parameters[1] or _model(_hints(environment.step).get("return"))  # type: ignore[attr-defined]
    state = parameters[2] or _state_annotation(environment) or State
    if action is None or observation is None:
        raise ConfigurationError(
            f"{environment.__name__} does not say what its actions and observations are. Name them once, as in "
            f"class {environment.__name__}(Environment[MyAction, MyObservation, State]), or annotate its step method."
        )
    return EnvironmentTypes(action, observation, state)


def _generic_parameters(environment: type) -> tuple[type[BaseModel] | None, ...]:
    for cls in environment.__mro__:
        for base in cls.__dict__.get("__orig_bases__", ()):
            origin, arguments = get_origin(base), get_args(base)
            if isinstance(origin, type) and issubclass(origin, Environment) and len(arguments) == 3:
                return tuple(_model(argument) for argument in arguments)
    return None, None, None


def _state_annotation(environment: type) -> type[BaseModel] | None:
    state = inspect.getattr_static(environment, "state", None)
    function = state.fget if isinstance(state, property) else state
    return _model(_hints(function).get("return")) if callable(function) else None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # an annotation that exists for the type checker only
        return {}


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model class that an annotation names; of ``tuple[Observation, float, bool]`` it is the first."""
    if get_origin(annotation) is tuple:
        annotation = get_args(annotation)[0]
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


@dataclass(frozen=True)
class EnvironmentMethod:
    """How one method of an environment class wants to be called.

    Attributes:
        name: The method to call: the ``async`` form where the class has one.
        awaited: Whether it returns something to await.
        arguments: Names that it accepts, without ``self`` and a step's action; ``None`` where it takes any.
    """

    name: str
    awaited: bool
    arguments: frozenset[str] | None


@cache
def environment_method(environment: Hashable, name: str) -> EnvironmentMethod:
    """Find out how a class's ``reset`` or ``step`` wants to be called; the answer is kept.

    Args:
        environment: The environment's class.
        name: ``"reset"`` or ``"step"``.
    """
    async_name = f"{name}_async"
    override = getattr(environment, async_name, None)
    chosen = name if override in (None, getattr(Environment, async_name)) else async_name
    function = getattr(environment, chosen)
    return EnvironmentMethod(
        name=chosen,
        awaited=inspect.iscoroutinefunction(function),
        arguments=_accepted(function, skip=1 if name == "reset" else 2),
    )


def _accepted(function: Callable[..., Any], skip: int) -> frozenset[str] | None:
    """Names that can be passed by keyword, without the first ``skip`` parameters (``self``, the action)."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(parameter.name for parameter in parameters if parameter.kind in by_keyword)


class EnvironmentFactory:
    """What makes the environments of a server: a class, a function or partial, or one instance that all share.

    Args:
        source: The class, callable or instance.

    Attributes:
        name: Name of the class or function, for messages.
        environment_class: The class where it is known without making an instance, else ``None``.
        shared: The instance that every session uses, where one was given.

    Raises:
        TypeError: ``source`` is neither callable nor an environment.
    """

    def __init__(self, source: Any) -> None:
        self.shared: Any = None
        if not isinstance(source, type) and _looks_like_environment(source):
            self.shared = source
        elif not callable(source):
            raise TypeError(
                f"Expected an environment class, a factory or an environment instance, got {type(source).__name__}."
            )
        self._source = source
        self.environment_class = self._find_class(source)
        self.name = getattr(self.environment_class or source, "__name__", type(source).__name__)

    def make(self) -> Any:
        """Make an environment, or hand out the shared one."""
        return self._source() if self.shared is None else self.shared

    def learn_class(self) -> type:
        """Return the environment's class, making (and closing) an instance if there is no other way to know."""
        if self.environment_class is None:
            probe = self.make()
            self.environment_class = type(probe)
            probe.close()
        return self.environment_class

    def _find_class(self, source: Any) -> type | None:
        if self.shared is not None:
            return type(source)
        inner = source
        while isinstance(inner, partial):
            inner = inner.func
        if isinstance(inner, type):
            return inner
        returned = _hints(inner).get("return") if inspect.isroutine(inner) else None
        if not isinstance(returned, type) or inspect.isabstract(returned):
            return None
        return returned if issubclass(returned, Environment) else None


def _looks_like_environment(source: Any) -> bool:
    return isinstance(source, Environment) or all(hasattr(source, name) for name in ("reset", "step", "state"))
