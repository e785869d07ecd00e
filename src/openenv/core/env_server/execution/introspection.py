"""Environment classes: their methods, what the methods accept, and how an instance is created."""

import asyncio
import inspect
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache, partial
from threading import Thread
from types import CodeType
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.environment_types import type_hints
from openenv.core.exceptions import ConfigurationError


@dataclass(frozen=True)
class EnvironmentMethod:
    """Method of an environment class, and how to call it.

    Attributes:
        name: The method to call: the ``async`` form where the class has one.
        awaited: Whether the method returns an awaitable.
        arguments: Names of the arguments, without ``self`` and a step's action; ``None`` where the method accepts any.
    """

    name: str
    awaited: bool
    arguments: frozenset[str] | None


@cache
def environment_method(environment: Hashable, name: str) -> EnvironmentMethod:
    """Return how to call a class's ``reset`` or ``step``; the result is cached.

    The ``async`` form is chosen where the class has one, unless a subclass overrides only the plain form.

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
    """Return whether ``name`` is defined in a subclass of the class that defines ``other``, and so takes precedence."""
    return _depth(environment, name) < _depth(environment, other)


def _depth(environment: Any, attribute: str) -> int:
    ancestors = environment.__mro__
    return next((position for position, cls in enumerate(ancestors) if attribute in vars(cls)), len(ancestors))


def _accepted(function: Callable[..., Any], skip: int) -> frozenset[str] | None:
    """Return the names of keyword arguments, without the first ``skip`` parameters (``self``, the action)."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(parameter.name for parameter in parameters if parameter.kind in by_keyword)


class EnvironmentFactory:
    """Factory of a server's environments: a class, a function or partial, or one instance that all sessions share.

    Args:
        source: The class, callable or instance.

    Attributes:
        source: The class or callable, or the instance.
        name: Name of the class or function, for messages.
        environment_class: The class where it is known without making an instance, else ``None``.
        shared: The instance that every session uses, where ``source`` is an instance.
        measures_cpu: Whether runners measure the CPU time of the environments.

    Raises:
        ConfigurationError: The class has abstract methods, or the callable needs arguments.
        TypeError: ``source`` is neither callable nor an environment.
    """

    def __init__(self, source: Any) -> None:
        self.shared: Any = None
        self.measures_cpu = False
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
        """Create an environment, or return the shared one."""
        made = self.source() if self.shared is None else self.shared
        if getattr(type(made), "CODE_SANDBOX", "none") != "none":
            made.is_served = True  # which has MCPEnvironment.execute_code leave it to the server where code runs
        return made

    def learn_class(self) -> type:
        """Return the environment's class; create (and close) an instance if only that shows the class."""
        if self.environment_class is None:
            probe = self.make()
            self.environment_class = type(probe)
            closing = probe.close()
            if inspect.iscoroutine(closing):  # in a thread, because this thread may already run an event loop
                thread = Thread(target=asyncio.run, args=(closing,), name="close-probe")
                thread.start()
                thread.join()
        return self.environment_class

    @property
    def supports_many(self) -> bool:
        """Whether the environment's class is known, and says that a server may hold several instances."""
        return self.shared is None and bool(getattr(self.environment_class, "SUPPORTS_CONCURRENT_SESSIONS", False))

    def _find_class(self, source: Any) -> type | None:
        if self.shared is not None:
            return type(source)
        inner = source
        while isinstance(inner, partial):
            inner = inner.func
        if isinstance(inner, type):
            return inner
        returned = type_hints(inner).get("return") if inspect.isroutine(inner) else None
        if not isinstance(returned, type) or inspect.isabstract(returned):
            return None
        return returned if issubclass(returned, Environment) else None


def _check_callable(source: Callable[..., Any]) -> None:
    """Refuse a callable that can't create an environment without arguments."""
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
    """Return the names of the parameters without a default; none for a callable without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in optional]


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def has_snapshots(environment: type) -> bool:
    """Return whether a class has the two optional methods ``snapshot`` and ``restore``."""
    return all(
        callable(method := getattr(environment, name, None)) and method is not getattr(Environment, name)
        for name in ("snapshot", "restore")
    )


def runs_code(environment: type | None) -> bool:
    """Return whether agents run code by ``MCPEnvironment.execute_code`` where the environment runs.

    That holds of a class whose methods call it, and of one with ``CODE_SANDBOX = "process"``.

    Args:
        environment: The class; ``None`` where it is not known.
    """
    sandbox = getattr(environment, "CODE_SANDBOX", "none")
    if environment is None or sandbox == "none":
        return False
    return sandbox == "process" or any(_calls_execute_code(cls) for cls in environment.__mro__)


def _calls_execute_code(cls: type) -> bool:
    members = (getattr(member, "fget", None) or member for member in vars(cls).values())
    codes = (getattr(inspect.unwrap(getattr(member, "__func__", member)), "__code__", None) for member in members)
    return any(_names(code, "execute_code") for code in codes if code is not None)


def _names(code: CodeType, name: str) -> bool:
    """Return whether a function, or one inside it, has an attribute or a global of this name."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return name in code.co_names or any(_names(each, name) for each in inner)


def looks_like_environment(source: Any) -> bool:
    """Return whether an object has the methods that every environment has."""
    if isinstance(source, type):
        return False
    return isinstance(source, Environment) or all(hasattr(source, name) for name in ("reset", "step", "state"))
