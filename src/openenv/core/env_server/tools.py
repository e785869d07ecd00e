"""Tools: methods of an environment that an agent calls by name.

A class with tools is an environment like any other. Its ``step`` answers ``ListToolsAction`` and ``CallToolAction``
itself and passes any other action to the author's own ``step``, so that tool calls are served, recorded, replayed and
isolated as steps are, by code that need not know about tools.
"""

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from inspect import isawaitable
from types import MethodType
from typing import Any, TypeVar, overload

from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError, InvalidRequestError
from openenv.core.schema.generator import ToolSignature, parameters_of
from openenv.core.wire.mcp_types import (
    LONGEST_TOOL_NAME,
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.wire.media import portable
from openenv.core.wire.redaction import message_of, redact
from openenv.core.wire.types import Scalar, State

logger = logging.getLogger(__name__)

FunctionT = TypeVar("FunctionT")

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST_TOOL_NAME}}}")
# Attributes of a function that is a tool, of one that task_tools returned, of a class with tools, and of a step that
# answers the actions of tools.
_MARK, _MADE = "__openenv_tool__", "__openenv_authored_tool__"
_TOOLS = "__openenv_tools__"
_ANSWERS = "__openenv_answers_tools__"
_TOOL_ACTIONS = (CallToolAction, ListToolsAction)
# Methods that can't be tools, under any name.
_OF_TRAINERS = RESERVED_TOOL_NAMES | {"reset_async", "step_async", "snapshot", "restore"}


@dataclass(frozen=True)
class ToolResult:
    """Result of a tool with a reward, a done flag or metadata.

    Attributes:
        value: The value for the agent.
        reward: The reward of this step; ``None`` for none.
        done: Whether the episode has ended.
        metadata: Further values to report, which the agent does not see.

    Example:
        >>> ToolResult("Correct.", reward=1.0, done=True)
        ToolResult(value='Correct.', reward=1.0, done=True, metadata={})
    """

    value: Any = None
    reward: Scalar | None = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


@overload
def tool(function: FunctionT) -> FunctionT: ...


@overload
def tool(
    *, name: str | None = None, description: str | None = None, terminal: bool = False
) -> Callable[[FunctionT], FunctionT]: ...


def tool(
    function: Any = None, *, name: str | None = None, description: str | None = None, terminal: bool = False
) -> Any:
    """Decorator that makes a method of an environment a tool; the method can still be called as before.

    The agent's description is the method's docstring and, for each argument, its annotation and its line in the
    docstring's ``Args:``. The method may be ``async``. Its return value is the agent's result; a ``ToolResult`` adds a
    reward or ends the episode. The agent reads the message of an exception, and the episode goes on.

    Args:
        function: The method, for the decorator without arguments.
        name: Name for agents; by default the method's name.
        description: Description for agents; by default the docstring's text before its sections.
        terminal: Whether a call that succeeds ends the episode.

    Example:
        >>> class Notes:
        ...     @tool
        ...     def write(self, path: str, text: str) -> str:
        ...         '''Write a file.
        ...
        ...         Args:
        ...             path: Where.
        ...             text: What.
        ...         '''
        ...         return f"{len(text)} characters written to {path}"
    """
    mark = _Mark(name, description, terminal)
    return mark.put_on if function is None else mark.put_on(function)


@dataclass(frozen=True)
class _Mark:
    """Arguments of ``tool``."""

    name: str | None = None
    description: str | None = None
    terminal: bool = False

    def put_on(self, function: FunctionT) -> FunctionT:
        """Mark a function as a tool."""
        plain = _plain(function)
        if not callable(plain) or isinstance(function, MethodType):  # all instances share its function
            raise TypeError(f"@tool stands before a method in its class, got {type(function).__name__}.")
        setattr(plain, _MARK, self)
        return function


class MethodTool:
    """Tool made of a method of an environment or of a function: its description, and its arguments.

    Args:
        function: The function, as in its class or as ``task_tools`` returned it.
        attribute: Name of the method; ``None`` for a function of ``task_tools``.
        is_method: Whether the function's first parameter is ``self`` or ``cls``.

    Attributes:
        name: Name for agents.
        terminal: Whether a call that succeeds ends the episode.
        attribute: Name of the method.
        is_method: As above.

    Raises:
        ConfigurationError: The name can't be a tool's, or a parameter can't be passed by name.
    """

    def __init__(self, function: Callable[..., Any], attribute: str | None = None, *, is_method: bool) -> None:
        mark = _mark_of(function) or _Mark()
        self.name = mark.name or attribute or str(getattr(function, "__name__", ""))
        self.terminal = mark.terminal
        self.attribute = attribute
        self._description = mark.description
        self._function = function
        self.is_method = is_method
        _check_name(self.name)
        parameters_of(function, self.name, is_method=is_method)

    @cached_property
    def signature(self) -> ToolSignature:
        """Signature of the tool; read at first use, when the classes in its annotations are defined."""
        return ToolSignature(self._function, self.name, is_method=self.is_method)

    @cached_property
    def described(self) -> Tool:
        """Description of the tool for agents."""
        description = self.signature.description if self._description is None else self._description
        return Tool(name=self.name, description=description, input_schema=self.signature.parameters)


def class_tools(environment_class: type) -> Mapping[str, MethodTool]:
    """Return the tools of a class by name, without those of ``task_tools``."""
    tools: Mapping[str, MethodTool] = getattr(environment_class, _TOOLS, {})
    return tools


def answers_tool_actions(environment_class: type) -> bool:
    """Whether the class's step, made by ``equip``, lists and calls its tools."""
    step = getattr(environment_class, "step", None)
    return step is _tool_step or bool(getattr(step, _ANSWERS, False))


def required_without_tools(function: FunctionT) -> FunctionT:
    """Make a method abstract unless ``equip`` adds it: unlike ``abstractmethod``, invisible to type checkers.

    Args:
        function: The method.
    """
    setattr(function, "__isabstractmethod__", True)  # noqa: B010  # it is none of a function's attributes
    return function


def equip(environment_class: type, base: type) -> None:
    """Add to a new class with tools a step that answers the actions of tools and, if it has none, a state.

    Args:
        environment_class: The class.
        base: ``Environment``.

    Raises:
        ConfigurationError: A tool has a name that it can't have, parameters that can't be passed by name, or is one of
            the methods that every environment has.
    """
    cls: Any = environment_class
    tools = _collected(cls)
    setattr(cls, _TOOLS, tools)
    if not tools and cls.task_tools is base.task_tools:  # type: ignore[attr-defined]
        return
    cls.OFFERS_TOOLS = True
    _answer_tool_actions(cls, base)
    _add_state(cls, base)


def _collected(cls: type) -> Mapping[str, MethodTool]:
    """Return the tools of a class and its bases. A method that overrides a tool is a tool only if marked, too."""
    attributes = dict.fromkeys(name for ancestor in reversed(cls.__mro__) for name in vars(ancestor))
    tools: dict[str, MethodTool] = {}
    for attribute in attributes:
        raw = inspect.getattr_static(cls, attribute)
        if _mark_of(raw) is None:
            continue
        found = MethodTool(_plain(raw), attribute, is_method=not isinstance(raw, staticmethod))
        _check_method(attribute, found.name)
        if found.name in tools:
            raise ConfigurationError(
                f"{cls.__name__} has two tools named {found.name!r}, {tools[found.name].attribute} and {attribute}; "
                "give one of them another name with @tool(name=...)."
            )
        tools[found.name] = found
    return tools


def _check_name(name: str) -> None:
    if name in RESERVED_TOOL_NAMES:
        reserved = ", ".join(sorted(RESERVED_TOOL_NAMES))
        raise ConfigurationError(
            f"No tool can be named {name!r}: agents must not reach what {reserved} do for trainers. Name it otherwise, "
            "as in @tool(name=...)."
        )
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"No tool can be named {name!r:.200}: agents know names of 1 to 128 letters (A to Z), digits, '_', '-' and "
            "'.'. Give it such a name with @tool(name=...)."
        )


def _check_method(method: str, name: str) -> None:
    """Reject a tool, under any name, with which an agent could reset or close its environment, or the like."""
    if method in _OF_TRAINERS:
        raise ConfigurationError(
            f"{method} can't be the tool {name!r}: agents must not reach what trainers call. Make a method of another "
            "name the tool."
        )


def _plain(function: Any) -> Any:
    """Return the function in a static, class or bound method."""
    return getattr(function, "__func__", function)


def _mark_of(function: Any) -> _Mark | None:
    plain = _plain(function) if isinstance(function, staticmethod | classmethod | MethodType) else function
    mark = getattr(plain, "__dict__", {}).get(_MARK)
    return mark if isinstance(mark, _Mark) else None


# --- Methods added to a class with tools -----------------------------------------------------------------------------


def _answer_tool_actions(cls: Any, base: Any) -> None:
    if getattr(cls.step, "__isabstractmethod__", False):
        cls.step = _tool_step
    elif not getattr(cls.step, _ANSWERS, False):
        cls.step = _with_tools(cls.step)
    if cls.step_async is not base.step_async and not getattr(cls.step_async, _ANSWERS, False):
        cls.step_async = _with_tools_async(cls.step_async)


def _tool_step(self: Any, action: CallToolAction) -> CallToolObservation:
    """Call a tool, or list the tools: the ``step`` of a class without its own."""
    if isinstance(action, _TOOL_ACTIONS):
        answered: CallToolObservation = answer(self, action)
        return answered
    raise TypeError(
        f"{type(self).__name__} has tools and no step of its own: expected CallToolAction or ListToolsAction, got "
        f"{type(action).__name__}."
    )


def _with_tools(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step that answers the actions of tools, and passes on all others."""

    @wraps(step)
    def step_or_tool(self: Any, action: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(action, _TOOL_ACTIONS):
            return answer(self, action)
        return step(self, action, *args, **kwargs)

    setattr(step_or_tool, _ANSWERS, True)
    return step_or_tool


def _with_tools_async(step_async: Callable[..., Any]) -> Callable[..., Any]:
    """As ``_with_tools``, for ``step_async``; no coroutine, so that a plain tool runs where plain methods do."""

    @wraps(step_async)
    def step_or_tool_async(self: Any, action: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(action, _TOOL_ACTIONS):
            answered = answer(self, action)
            return answered if isawaitable(answered) else _ready(answered)
        return step_async(self, action, *args, **kwargs)

    setattr(step_or_tool_async, _ANSWERS, True)
    return step_or_tool_async


async def _ready(value: Any) -> Any:
    """Wrap a value in a coroutine."""
    return value


def _add_state(cls: Any, base: Any) -> None:
    """Add a state to a class without snapshots: a restored snapshot would lose the count of steps."""
    state = inspect.getattr_static(cls, "state")
    if cls.snapshot is not base.snapshot:
        if state is _NO_STATE:
            cls.state = base.state
    elif getattr(state, "__isabstractmethod__", False):
        cls.state = _NO_STATE


def _empty_state(_self: Any) -> State:
    """Return the state of an environment that defines no state; on a server, the session answers instead."""
    return State()


_NO_STATE = property(_empty_state)


def has_own_state(environment_class: type) -> bool:
    """Whether a class has a state of its own.

    Args:
        environment_class: The class.
    """
    return inspect.getattr_static(environment_class, "state", None) is not _NO_STATE


# --- Listing and calling ---------------------------------------------------------------------------------------------


def answer(environment: Any, action: CallToolAction | ListToolsAction) -> Any:
    """List or call the tools of an environment.

    Args:
        environment: The instance.
        action: The action, which lists or calls.

    Returns:
        The observation, or an awaitable of it if the tool is ``async``.

    Raises:
        EnvironmentFailedError: ``task_tools`` raised, or returned an invalid tool.
    """
    if isinstance(action, ListToolsAction):
        offered = [*class_tools(type(environment)).values(), *(made for made, _ in _task_tools(environment))]
        return ListToolsObservation(tools=[one.described for one in offered])
    found = _found(environment, action.tool_name)
    if found is None:
        return _failed(action, ToolErrorType.TOOL_NOT_FOUND, f"Unknown tool: {action.tool_name!r:.200}")
    return call_tool(*found, action)


def _found(environment: Any, name: str) -> tuple[MethodTool, Callable[..., Any]] | None:
    own = class_tools(type(environment)).get(name)
    if own is not None:
        assert own.attribute is not None
        return own, getattr(environment, own.attribute)
    return next((pair for pair in _task_tools(environment) if pair[0].name == name), None)


def call_tool(called: MethodTool, function: Callable[..., Any], action: CallToolAction) -> Any:
    """Call one tool.

    Args:
        called: The tool.
        function: Its function, bound to the instance if it is a method.
        action: The arguments, which are validated here.

    Returns:
        The observation, or an awaitable of it.
    """
    try:
        arguments = called.signature.checked(action.arguments)
    except InvalidRequestError as error:
        return _failed(action, ToolErrorType.INVALID_ARGS, error.message)
    try:
        returned = function(**arguments)
    except Exception as error:  # noqa: BLE001  # whatever it is, the agent is to know that its call failed
        return _raised(action, error)
    return _awaited(called, returned, action) if isawaitable(returned) else _observed(called, returned, action)


async def _awaited(called: MethodTool, returned: Awaitable[Any], action: CallToolAction) -> CallToolObservation:
    try:
        value = await returned
    except Exception as error:  # noqa: BLE001  # as above
        return _raised(action, error)
    return _observed(called, value, action)


def _observed(called: MethodTool, returned: Any, action: CallToolAction) -> CallToolObservation:
    given = returned if isinstance(returned, ToolResult) else ToolResult(returned)
    # Not validated here: the session checks the reward of any step, NumPy's and PyTorch's types included.
    return CallToolObservation.model_construct(
        tool_name=action.tool_name,
        result=portable(given.value),
        reward=given.reward,
        done=called.terminal or bool(given.done),
        metadata=dict(given.metadata),
    )


def _raised(action: CallToolAction, error: Exception) -> CallToolObservation:
    logger.info("the tool %s raised", action.tool_name, exc_info=error)
    kind = ToolErrorType.TIMEOUT if isinstance(error, TimeoutError) else ToolErrorType.EXECUTION_ERROR
    text = f"KeyError: {message_of(error)}" if isinstance(error, KeyError) else message_of(error)  # only the key
    return _failed(action, kind, redact(text))


def _failed(action: CallToolAction, kind: ToolErrorType, message: str) -> CallToolObservation:
    name = action.tool_name[:LONGEST_TOOL_NAME]  # a longer name is no tool's, and is not sent back
    return CallToolObservation(tool_name=name, error=ToolError(error_type=kind, message=message))


def _task_tools(environment: Any) -> list[tuple[MethodTool, Callable[..., Any]]]:
    """Return the tools of the present task, with their functions."""
    names = set(class_tools(type(environment)))
    offered = []
    for function in _offered(environment):
        made = _made(function)
        if made.name in names:
            raise EnvironmentFailedError(f"task_tools() offers {made.name!r}, which is the name of another tool.")
        names.add(made.name)
        offered.append((made, function))
    return offered


def _offered(environment: Any) -> Iterable[Callable[..., Any]]:
    try:
        return list(environment.task_tools())
    except Exception as error:
        raise EnvironmentFailedError(
            f"task_tools() raised {type(error).__name__}: {message_of(error)}. It is called before the first reset "
            "too, when there is no task: let it return nothing then."
        ) from error


def _made(function: Callable[..., Any]) -> MethodTool:
    """Return the tool of a function of ``task_tools``, cached on the function: making it takes a millisecond."""
    plain = _plain(function)
    kept = getattr(plain, "__dict__", {})
    made = kept.get(_MADE)
    if isinstance(made, MethodTool):
        return made
    try:
        made = MethodTool(plain, is_method=plain is not function)
        if made.is_method:
            _check_method(plain.__name__, made.name)
    except ConfigurationError as error:
        raise EnvironmentFailedError(str(error)) from error
    if isinstance(kept, dict):
        kept[_MADE] = made
    return made
