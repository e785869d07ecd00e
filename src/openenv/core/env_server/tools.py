"""Tools: methods of an environment that an agent calls by name.

A class with tools is an environment like any other. Its ``step`` answers ``ListToolsAction`` and ``CallToolAction`` by
itself and hands any other action to the author's own ``step``, so that tool calls are served, recorded, replayed and
isolated as steps are, without anything knowing of tools.
"""

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from inspect import isawaitable
from types import MethodType
from typing import Any, TypeVar, overload

from openenv.core.env_server.disclosure import message_of, without_secrets
from openenv.core.env_server.mcp_types import (
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
from openenv.core.env_server.tool_schemas import ToolSignature, parameters_of
from openenv.core.env_server.types import Scalar, State
from openenv.core.exceptions import ConfigurationError, EnvironmentFailedError, InvalidRequestError

logger = logging.getLogger(__name__)

FunctionT = TypeVar("FunctionT")

_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{LONGEST_TOOL_NAME}}}")
# What a function carries that is a tool, or that task_tools returned; a class with its tools; an instance without a
# state of its own; and a step that answers the actions of tools.
_MARK, _MADE = "__openenv_tool__", "__openenv_authored_tool__"
_TOOLS = "__openenv_tools__"
_EPISODE = "__openenv_episode__"
_ANSWERS = "__openenv_answers_tools__"
_TOOL_ACTIONS = (CallToolAction, ListToolsAction)
# Methods that no tool may be, under whatever name.
_OF_TRAINERS = RESERVED_TOOL_NAMES | {"reset_async", "step_async", "snapshot", "restore"}


@dataclass(frozen=True)
class ToolResult:
    """What a tool gives that has more to say than a value.

    Attributes:
        value: What the agent gets.
        reward: The reward of this step; ``None`` for none.
        done: Whether the episode has ended.
        metadata: Anything to report beside what the agent sees.

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
    """Make a method of an environment a tool; it stays a method that can be called as before.

    What the agent is told is the method's docstring and, for each argument, its annotation and its line in the
    docstring's ``Args:``. The method may be ``async``. What it returns is the agent's result; a ``ToolResult`` adds a
    reward or ends the episode. What it raises is told to the agent, and the episode goes on.

    Args:
        function: The method, where the decorator stands without arguments.
        name: What agents call it; by default the method's name.
        description: What it does; by default what the docstring says before its sections.
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
    """What ``tool`` was told."""

    name: str | None = None
    description: str | None = None
    terminal: bool = False

    def put_on(self, function: FunctionT) -> FunctionT:
        """Make a function a tool."""
        plain = _plain(function)
        if not callable(plain) or isinstance(function, MethodType):  # whose function all instances share
            raise TypeError(f"@tool stands before a method in its class, got {type(function).__name__}.")
        setattr(plain, _MARK, self)
        return function


class AuthoredTool:
    """One tool: what is told of it, and how it is called.

    Args:
        function: The function, as it stands in its class or as ``task_tools`` returned it.
        attribute: Name of the method; ``None`` for a function of ``task_tools``.
        is_method: Whether the function's first parameter is ``self`` or ``cls``.

    Attributes:
        name: What agents call it.
        terminal: Whether a call that succeeds ends the episode.
        attribute: Name of the method.
        is_method: As above.

    Raises:
        ConfigurationError: Its name can't be that of a tool, or one of its parameters can't be passed by its name.
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
        """Its arguments; read at first use, when the classes that its annotations name are there."""
        return ToolSignature(self._function, self.name, is_method=self.is_method)

    @cached_property
    def described(self) -> Tool:
        """What an agent is told of it."""
        told = self.signature.description if self._description is None else self._description
        return Tool(name=self.name, description=told, input_schema=self.signature.parameters)


def class_tools(environment_class: type) -> Mapping[str, AuthoredTool]:
    """Return the tools of a class, by their names; those of ``task_tools`` are not among them."""
    tools: Mapping[str, AuthoredTool] = getattr(environment_class, _TOOLS, {})
    return tools


def answers_tool_actions(environment_class: type) -> bool:
    """Whether the class's step lists and calls the tools that are marked in it, as ``equip`` has made it."""
    step = getattr(environment_class, "step", None)
    return step is _tool_step or bool(getattr(step, _ANSWERS, False))


def required_without_tools(function: FunctionT) -> FunctionT:
    """Make a method abstract that classes with tools get: unlike ``abstractmethod``, unseen by type checkers.

    Args:
        function: The method.
    """
    setattr(function, "__isabstractmethod__", True)  # noqa: B010  # it is none of a function's attributes
    return function


def equip(environment_class: type, base: type) -> None:
    """Give a new class with tools what it needs: a step that answers their actions and, for lack of one, a state.

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


def _collected(cls: type) -> Mapping[str, AuthoredTool]:
    """Find the tools of a class and its bases. A method that overrides a tool is one only where it says so, too."""
    attributes = dict.fromkeys(name for ancestor in reversed(cls.__mro__) for name in vars(ancestor))
    tools: dict[str, AuthoredTool] = {}
    for attribute in attributes:
        raw = inspect.getattr_static(cls, attribute)
        if _mark_of(raw) is None:
            continue
        found = AuthoredTool(_plain(raw), attribute, is_method=not isinstance(raw, staticmethod))
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
    """Refuse a tool by which an agent would reset or close its environment, or the like, whatever it is named."""
    if method in _OF_TRAINERS:
        raise ConfigurationError(
            f"{method} can't be the tool {name!r}: agents must not reach what trainers call. Make a method of another "
            "name the tool."
        )


def _plain(function: Any) -> Any:
    """The function in a static, class or bound method."""
    return getattr(function, "__func__", function)


def _mark_of(function: Any) -> _Mark | None:
    plain = _plain(function) if isinstance(function, staticmethod | classmethod | MethodType) else function
    mark = getattr(plain, "__dict__", {}).get(_MARK)
    return mark if isinstance(mark, _Mark) else None


# --- What a class with tools gets ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Episode:
    """What the state of an environment says that has no state of its own."""

    episode_id: str | None = None
    step_count: int = 0

    def during(self, environment: Any, call: Callable[[], Any]) -> Any:
        """Be what an environment's state says during a call and after it, whatever those of base classes made of it."""
        setattr(environment, _EPISODE, self)
        try:
            result = call()
        finally:
            setattr(environment, _EPISODE, self)
        return self._after(environment, result) if isawaitable(result) else result

    async def _after(self, environment: Any, call: Awaitable[Any]) -> Any:
        try:
            return await call
        finally:
            setattr(environment, _EPISODE, self)


def _answer_tool_actions(cls: Any, base: Any) -> None:
    if getattr(cls.step, "__isabstractmethod__", False):
        cls.step = _tool_step
    elif not getattr(cls.step, _ANSWERS, False):
        cls.step = _with_tools(cls.step)
    if cls.step_async is not base.step_async and not getattr(cls.step_async, _ANSWERS, False):
        cls.step_async = _with_tools_async(cls.step_async)


def _tool_step(self: Any, action: CallToolAction) -> CallToolObservation:
    """Call a tool, or list them; a class without a ``step`` of its own takes no action but these two."""
    if isinstance(action, _TOOL_ACTIONS):
        answered: CallToolObservation = answer(self, action)
        return answered
    raise TypeError(
        f"{type(self).__name__} has tools and no step of its own: expected CallToolAction or ListToolsAction, got "
        f"{type(action).__name__}."
    )


def _with_tools(step: Callable[..., Any]) -> Callable[..., Any]:
    """Have a step answer the actions that concern tools before it sees any other."""

    @wraps(step)
    def step_or_tool(self: Any, action: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(action, _TOOL_ACTIONS):
            return answer(self, action)
        return _counted(self, partial(step, self, action, *args, **kwargs))

    setattr(step_or_tool, _ANSWERS, True)
    return step_or_tool


def _with_tools_async(step_async: Callable[..., Any]) -> Callable[..., Any]:
    """As ``_with_tools``, for ``step_async``; no coroutine, so that a plain tool runs where plain methods do."""

    @wraps(step_async)
    def step_or_tool_async(self: Any, action: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(action, _TOOL_ACTIONS):
            answered = answer(self, action)
            return answered if isawaitable(answered) else _ready(answered)
        return _counted(self, partial(step_async, self, action, *args, **kwargs))

    setattr(step_or_tool_async, _ANSWERS, True)
    return step_or_tool_async


async def _ready(value: Any) -> Any:
    """Give what is there already to somebody who awaits it."""
    return value


def _add_state(cls: Any, base: Any) -> None:
    """Have an environment without a state of its own count its steps, unless its snapshots would lose the count."""
    state = inspect.getattr_static(cls, "state")
    if cls.snapshot is not base.snapshot:
        if state is _EPISODE_STATE:
            cls.state = base.state
        return
    if getattr(state, "__isabstractmethod__", False):
        cls.state = state = _EPISODE_STATE
    if state is not _EPISODE_STATE:
        return
    for name in ("reset", "reset_async"):
        reset = getattr(cls, name)
        own = reset is not getattr(base, name) and not getattr(reset, "__isabstractmethod__", False)
        if own and not getattr(reset, _EPISODE, False):
            setattr(cls, name, _beginning_an_episode(reset))


def _beginning_an_episode(reset: Callable[..., Any]) -> Callable[..., Any]:
    """Have a reset note the episode's name, whether or not it takes it itself."""
    signature = inspect.signature(reset)
    parameters = list(signature.parameters.values())
    takes_id = any(one.kind is one.VAR_KEYWORD or one.name == "episode_id" for one in parameters)

    @wraps(reset)
    def reset_and_count(self: Any, *args: Any, **kwargs: Any) -> Any:
        episode_id = kwargs.get("episode_id") if takes_id else kwargs.pop("episode_id", None)
        if args:
            episode_id = signature.bind(self, *args, **kwargs).arguments.get("episode_id", episode_id)
        return _Episode(episode_id).during(self, partial(reset, self, *args, **kwargs))

    if not takes_id:
        named = inspect.Parameter("episode_id", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
        reset_and_count.__signature__ = signature.replace(parameters=[*parameters, named])  # type: ignore[attr-defined]
    setattr(reset_and_count, _EPISODE, True)
    return reset_and_count


def _read_episode(self: Any) -> State:
    """Where the episode stands: its name, and its steps so far."""
    episode: _Episode = getattr(self, _EPISODE, _Episode())
    return State(episode_id=episode.episode_id, step_count=episode.step_count)


_EPISODE_STATE = property(_read_episode)


def _counted(environment: Any, step: Callable[[], Any]) -> Any:
    """Do a step, and count it as one where the environment has no state of its own."""
    episode: _Episode | None = getattr(environment, _EPISODE, None)
    if episode is None:
        return step()
    return _Episode(episode.episode_id, episode.step_count + 1).during(environment, step)


# --- Listing and calling ---------------------------------------------------------------------------------------------


def answer(environment: Any, action: CallToolAction | ListToolsAction) -> Any:
    """List or call the tools of an environment.

    Args:
        environment: The instance.
        action: Which of both.

    Returns:
        The observation, or something to await for it where the tool is ``async``.

    Raises:
        EnvironmentFailedError: ``task_tools`` raised, or offers what can't be offered.
    """
    if isinstance(action, ListToolsAction):
        offered = [*class_tools(type(environment)).values(), *(made for made, _ in _task_tools(environment))]
        return ListToolsObservation(tools=[one.described for one in offered])
    return _counted(environment, partial(_called, environment, action))


def _called(environment: Any, action: CallToolAction) -> Any:
    found = _found(environment, action.tool_name)
    if found is None:
        return _failed(action, ToolErrorType.TOOL_NOT_FOUND, f"Unknown tool: {action.tool_name!r:.200}")
    return call_tool(*found, action)


def _found(environment: Any, name: str) -> tuple[AuthoredTool, Callable[..., Any]] | None:
    own = class_tools(type(environment)).get(name)
    if own is not None:
        assert own.attribute is not None
        return own, getattr(environment, own.attribute)
    return next((pair for pair in _task_tools(environment) if pair[0].name == name), None)


def call_tool(called: AuthoredTool, function: Callable[..., Any], action: CallToolAction) -> Any:
    """Call one tool.

    Args:
        called: The tool.
        function: Its function, bound to the instance where it is a method.
        action: The arguments, which are checked.

    Returns:
        The observation, or something to await for it.
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


async def _awaited(called: AuthoredTool, returned: Awaitable[Any], action: CallToolAction) -> CallToolObservation:
    try:
        value = await returned
    except Exception as error:  # noqa: BLE001  # as above
        return _raised(action, error)
    return _observed(called, value, action)


def _observed(called: AuthoredTool, returned: Any, action: CallToolAction) -> CallToolObservation:
    given = returned if isinstance(returned, ToolResult) else ToolResult(returned)
    # Not validated here: the session checks rewards, NumPy's and PyTorch's included, as it does those of any step.
    return CallToolObservation.model_construct(
        tool_name=action.tool_name,
        result=given.value,
        reward=given.reward,
        done=called.terminal or bool(given.done),
        metadata=dict(given.metadata),
    )


def _raised(action: CallToolAction, error: Exception) -> CallToolObservation:
    logger.info("the tool %s raised", action.tool_name, exc_info=error)
    kind = ToolErrorType.TIMEOUT if isinstance(error, TimeoutError) else ToolErrorType.EXECUTION_ERROR
    text = f"KeyError: {message_of(error)}" if isinstance(error, KeyError) else message_of(error)  # only the key
    return _failed(action, kind, without_secrets(text))


def _failed(action: CallToolAction, kind: ToolErrorType, message: str) -> CallToolObservation:
    name = action.tool_name[:LONGEST_TOOL_NAME]  # a longer one is no tool's, and is not sent back
    return CallToolObservation(tool_name=name, error=ToolError(error_type=kind, message=message))


def _task_tools(environment: Any) -> list[tuple[AuthoredTool, Callable[..., Any]]]:
    """Return the functions that are offered for the present task, described."""
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


def _made(function: Callable[..., Any]) -> AuthoredTool:
    """Describe a function of ``task_tools``; it keeps the description, which takes a millisecond."""
    plain = _plain(function)
    kept = getattr(plain, "__dict__", {})
    made = kept.get(_MADE)
    if isinstance(made, AuthoredTool):
        return made
    try:
        made = AuthoredTool(plain, is_method=plain is not function)
        if made.is_method:
            _check_method(plain.__name__, made.name)
    except ConfigurationError as error:
        raise EnvironmentFailedError(str(error)) from error
    if isinstance(kept, dict):
        kept[_MADE] = made
    return made
