"""Parameters of an environment's ``reset``, from its signature, and validation of the arguments."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, NotRequired, Required, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from openenv.core.env_server.execution.introspection import environment_method
from openenv.core.exceptions import ConfigurationError, InvalidRequestError
from openenv.core.reset_check import ALWAYS_ACCEPTED, nearest_name, unknown_names_text
from openenv.core.tasks.task_set import TaskSet, task_set_of
from openenv.core.wire.errors import fault_entries

_JSON_SCALARS = (str, int, float, bool)


class ResetParameters:
    """Parameters of an environment's ``reset``.

    A parameter accepts any value if it has no annotation, one that pydantic does not support, or one that can't be
    resolved at runtime.

    With a task set, the parameters for a client are those with a default, and what chooses a task: the others are
    columns, which only the task has values for.

    Args:
        reset: The function, with ``self``.
        tasks: The environment's task set.

    Attributes:
        names: Names of the parameters for a client; ``None`` where ``reset`` accepts any.
        schema: JSON Schema of the parameters for a client.
        tasks: The task set.
    """

    def __init__(self, reset: Callable[..., Any], tasks: TaskSet | None = None) -> None:
        parameters = list(inspect.signature(reset).parameters.values())[1:]
        named = [one for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        self.tasks = tasks
        self._own = {one.name: one.default is one.empty for one in named}  # whether each is required
        self._of_function = self._adapter = _adapter(reset, named, takes_any=takes_any)
        if tasks is not None:
            named, takes_any = _for_clients(named), False
            self._adapter = _adapter(reset, named, takes_any=False)
        self.names = None if takes_any else tuple(one.name for one in named)
        self.schema = _schema(self._adapter, named, takes_any=takes_any)

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a call; names that ``reset`` does not accept are left out.

        Args:
            arguments: What a client sent.

        Raises:
            InvalidRequestError: A value does not match its annotation, or a parameter without default is missing.
        """
        try:
            return self._adapter.validate_python(dict(arguments))
        except ValidationError as error:
            faults = fault_entries(error)
            where = "; ".join(map(_fault_text, faults))
            raise InvalidRequestError(f"Wrong parameters of reset: {where}.", errors=faults) from None

    def with_task(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return checked arguments with the columns of the task that they choose; the same without a task set.

        Raises:
            TaskNotFoundError: There is no such task.
            InvalidRequestError: A column of the task is among the arguments.
            ConfigurationError: The task lacks a column that ``reset`` needs, or has a wrong value there.
        """
        if self.tasks is None:
            return arguments
        ref = self.tasks.choose_task(*map(arguments.get, ("split", "index", "seed")))
        chosen = ("split", "index")
        given = {name: value for name, value in arguments.items() if name in self._own and name not in chosen}
        columns = self.tasks.arguments(ref)
        both = [name for name in given if name not in ALWAYS_ACCEPTED and columns.get(name) is not None]
        if both:
            raise InvalidRequestError(f"Expected no {' or '.join(both)} for reset: the task has its own.")
        values = {name: value for name, value in columns.items() if value is not None or self._own.get(name)}
        try:
            return self._of_function.validate_python({**given, **values})
        except ValidationError as error:
            # Without the values: they may be what an agent is to find.
            faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in fault_entries(error))
            raise ConfigurationError(
                f"{self.tasks}, {ref.split}[{ref.index}]: expected a column for each parameter of reset without a "
                f"default; {faults}. There are {', '.join(columns)}."
            ) from None


@cache
def reset_parameters(environment: Hashable) -> ResetParameters:
    """Return the parameters of the ``reset`` that is called of an environment's class; the result is cached."""
    method = environment_method(environment, "reset")
    return ResetParameters(getattr(environment, method.name), task_set_of(environment))


def unknown_names(names: Iterable[str] | None, arguments: Iterable[str]) -> list[str]:
    """Return the names that a ``reset`` does not accept.

    Args:
        names: Names of the parameters; ``None`` where ``reset`` accepts any.
        arguments: Names in the request.
    """
    if names is None:
        return []
    known = ALWAYS_ACCEPTED.union(names)
    return [name for name in arguments if name not in known]


def unknown_names_error(unknown: Iterable[str], names: Iterable[str]) -> InvalidRequestError:
    """Return the error for parameters that a ``reset`` does not accept."""
    unknown, names = list(unknown), list(names)
    entries = [
        {"type": "unknown_parameter", "loc": [name], "msg": unknown_names_text([name], names)} for name in unknown
    ]
    error = InvalidRequestError(unknown_names_text(unknown, names), errors=entries)
    error.details |= {"known": names, "nearest": {name: nearest_name(name, names) for name in unknown}}
    return error


def _fault_text(fault: Mapping[str, Any]) -> str:
    got = f", got {fault['input']!r:.100}" if "input" in fault and fault["type"] != "missing" else ""
    return f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}{got}"


def _annotation(reset: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """Return the annotation of a parameter, or ``Any`` where pydantic can't validate it."""
    if parameter.annotation is parameter.empty:
        return Any
    plain = inspect.unwrap(reset)
    named = SimpleNamespace(
        __annotations__={parameter.name: parameter.annotation}, __globals__=getattr(plain, "__globals__", {})
    )
    try:
        hint = get_type_hints(named, include_extras=True)[parameter.name]
        hint = hint | None if parameter.default is None else hint
        TypeAdapter(hint)
    except (NameError, TypeError, AttributeError, PydanticUserError):
        return Any
    return hint


def _for_clients(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return what a client may pass to a ``reset`` that is passed the columns of tasks."""
    chosen = {one.name: one for one in parameters if one.default is not one.empty and one.name not in TaskSet.LISTED}
    for name, annotation in (("seed", int), ("split", str), ("index", int)):
        by_name = inspect.Parameter.KEYWORD_ONLY
        chosen[name] = inspect.Parameter(name, by_name, default=None, annotation=annotation | None)
    return list(chosen.values())


def _adapter(
    reset: Callable[..., Any], parameters: Iterable[inspect.Parameter], *, takes_any: bool
) -> TypeAdapter[dict[str, Any]]:
    make: Any = TypedDict  # type checkers accept literal fields only
    arguments = make("Parameters", {one.name: _field(one, _annotation(reset, one)) for one in parameters})
    arguments.__pydantic_config__ = ConfigDict(extra="allow" if takes_any else "ignore")
    return TypeAdapter(arguments)


def _field(parameter: inspect.Parameter, annotation: Any) -> Any:
    return Required[annotation] if parameter.default is parameter.empty else NotRequired[annotation]


def _schema(
    adapter: TypeAdapter[dict[str, Any]], parameters: Iterable[inspect.Parameter], *, takes_any: bool
) -> dict[str, Any]:
    try:
        generated = adapter.json_schema()
    except PydanticUserError:  # a type that can be validated and has no JSON Schema
        generated = {"properties": {one.name: {} for one in parameters}}
    properties = generated.get("properties", {})
    for parameter in parameters:
        if parameter.default is None or isinstance(parameter.default, _JSON_SCALARS):
            properties[parameter.name]["default"] = parameter.default
    return {**generated, "type": "object", "properties": properties, "additionalProperties": takes_any}
