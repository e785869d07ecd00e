"""Find an environment's action, observation and state classes, and what its methods accept."""

import asyncio
import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, partial
from threading import Thread
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from openenv.core.env_server.action_unions import action_model
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State
from openenv.core.exceptions import ConfigurationError


@dataclass(frozen=True)
class EnvironmentTypes:
    """The three classes that an environment speaks in.

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
    arguments = generic_arguments(environment, Environment) or (None, None, None)
    action = action_model(arguments[0])
    observation, state = (_model(argument) for argument in arguments[1:])
    hints = _hints(environment.step)  # type: ignore[attr-defined]
    action = action or action_model(hints.get(_action_parameter(environment.step)))  # type: ignore[attr-defined]
    observation = observation or _model(hints.get("return"))
    if action is None or observation is None:
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
    return _model(_hints(function).get("return")) if callable(function) else None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # an annotation that exists for the type checker only
        return {}


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model class that an annotation names; in ``tuple[Observation, float, bool]`` or a union, the first one."""
    if get_origin(annotation) in (tuple, Union, UnionType):
        return next((model for argument in get_args(annotation) if (model := _model(argument))), None)
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

    The ``async`` form is chosen where the class has one, unless a class derived from that one overrides the plain form
    alone.

    Args:
        environment: The environment's class.
        name: ``"reset"`` or ``"step"``.
    """
    async_name = f"{name}_async"
    override = getattr(environment, async_name, None)
    has_async = override not in (None, getattr(Environment, async_name))
    chosen = async_name if has_async and not _is_newer(environment, name, async_name) else name
    function = getattr(environment, chosen)
    return EnvironmentMethod(
        name=chosen,
        awaited=inspect.iscoroutinefunction(function),
        arguments=_accepted(function, skip=1 if name == "reset" else 2),
    )


def _is_newer(environment: Any, name: str, other: str) -> bool:
    """Whether a class derived later than the one that has ``other`` overrides ``name``, and so means it to be used."""
    return _place(environment, name) < _place(environment, other)


def _place(environment: Any, attribute: str) -> int:
    ancestors = environment.__mro__
    return next((place for place, cls in enumerate(ancestors) if attribute in vars(cls)), len(ancestors))


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
        source: The class or callable, or the instance.
        name: Name of the class or function, for messages.
        environment_class: The class where it is known without making an instance, else ``None``.
        shared: The instance that every session uses, where one was given.

    Raises:
        ConfigurationError: The class has abstract methods, or the callable needs arguments.
        TypeError: ``source`` is neither callable nor an environment.
    """

    def __init__(self, source: Any) -> None:
        self.shared: Any = None
        if looks_like_environment(source):
            self.shared = source
        elif not callable(source):
            raise TypeError(
                f"Expected an environment class, a factory or an environment instance, got {type(source).__name__}."
            )
        self.source = source
        self.environment_class = self._find_class(source)
        self.name = getattr(self.environment_class or source, "__name__", type(source).__name__)
        if self.shared is None:
            _check_callable(source)

    def make(self) -> Any:
        """Make an environment, or hand out the shared one."""
        return self.source() if self.shared is None else self.shared

    def learn_class(self) -> type:
        """Return the environment's class, making (and closing) an instance if there is no other way to know."""
        if self.environment_class is None:
            probe = self.make()
            self.environment_class = type(probe)
            closing = probe.close()
            if inspect.iscoroutine(closing):  # in a thread, because this one may run a loop already
                thread = Thread(target=asyncio.run, args=(closing,), name="close-probe")
                thread.start()
                thread.join()
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


def _check_callable(source: Callable[..., Any]) -> None:
    """Refuse what can't be called without arguments to make an environment."""
    inner = source
    while isinstance(inner, partial):
        inner = inner.func
    name = getattr(inner, "__name__", type(inner).__name__)
    if inspect.isabstract(inner):
        missing = sorted(inner.__abstractmethods__)  # type: ignore[attr-defined]
        raise ConfigurationError(
            f"{name} lacks {_listed(missing)}, so no instance of it can be made. Every environment has the methods "
            "reset and step, and the property state."
        )
    needed = _needed_arguments(source)
    if needed:
        raise ConfigurationError(
            f"{name} is called without arguments for each session, and needs {_listed(needed)}. Give each a default "
            f"value, or serve functools.partial({name}, {needed[0]}=...)."
        )


def _needed_arguments(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters without a default; none for a callable that says nothing of its parameters."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in optional]


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def has_snapshots(environment: type) -> bool:
    """Whether a class has the two optional methods ``snapshot`` and ``restore``."""
    return all(
        callable(method := getattr(environment, name, None)) and method is not getattr(Environment, name)
        for name in ("snapshot", "restore")
    )


def looks_like_environment(source: Any) -> bool:
    """Whether an object has what every environment has."""
    if isinstance(source, type):
        return False
    return isinstance(source, Environment) or all(hasattr(source, name) for name in ("reset", "step", "state"))
