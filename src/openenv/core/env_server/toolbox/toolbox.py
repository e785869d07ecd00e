"""Tools of a session, for agents on all transports: the environment's own tools, and those of its actions.

An agent only lists and calls tools; each call is a step of the session's episode.
"""

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.toolbox.action_tools import ActionTool, action_tools
from openenv.core.env_server.tools import answers_tool_actions, class_tools
from openenv.core.exceptions import (
    EnvironmentFailedError,
    EnvironmentProcessEndedError,
    EnvironmentTimeoutError,
    InvalidRequestError,
)
from openenv.core.plain_values import plain_value
from openenv.core.schema.generator import faults_text
from openenv.core.wire.actions import takes_tool_actions, takes_tool_actions_only
from openenv.core.wire.answers import observation_json
from openenv.core.wire.array_fields import pixel_fields_of
from openenv.core.wire.mcp_types import (
    LONGEST_TOOL_NAME,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from openenv.core.wire.media import split
from openenv.core.wire.redaction import redact
from openenv.core.wire.results import Outcome, WrittenJson, WrittenToolResult
from openenv.core.wire.types import Action

ERROR_CODES = {
    ToolErrorType.TOOL_NOT_FOUND: "VALIDATION_ERROR",
    ToolErrorType.INVALID_ARGS: "VALIDATION_ERROR",
    ToolErrorType.EXECUTION_ERROR: EnvironmentFailedError.code,
    ToolErrorType.TRANSPORT_ERROR: EnvironmentFailedError.code,
    ToolErrorType.TIMEOUT: EnvironmentTimeoutError.code,
}
"""Error code under which a failed call is counted, as on the other transports."""

# Keys of a tool result that MCP's own server library created.
_MCP_RESULT = {"content", "structured_content", "data", "is_error"}


@dataclass(frozen=True)
class ToolCallResult:
    """Result of a tool call.

    Attributes:
        value: The tool's return value, as plain JSON types; ``None`` on an error.
        text: The value or the error message as text for a model: a string unchanged, any other value as JSON.
        error: The error; ``None`` on success.
        reward: Reward of this step.
        done: Whether the episode has ended.
        metadata: Metadata of the outcome.
        content: MCP content blocks that the tool returned, or of its pictures; empty if ``text`` is complete.
        seen: ``value`` with each picture replaced by a short text; ``None`` without pictures.
    """

    value: Any
    text: str
    error: ToolError | None = None
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    content: list[dict[str, Any]] = field(default_factory=list)
    seen: Any = None

    @property
    def structured(self) -> Any:
        """The value for programs: without pictures, which are in ``content``."""
        return self.value if self.seen is None else self.seen


class Perform(Protocol):
    """Function that performs an action as a step of a session's episode; a ``ListToolsAction`` is not a step."""

    def __call__(
        self, action: BaseModel, timeout_s: float | None = None, *, tool: str | None = None
    ) -> Awaitable[Outcome]:
        """Perform an action; see ``Session.step``."""
        ...


class Toolbox:
    """Tools of one session: the environment's own tools, then those of its actions.

    The tool of an action never has the name of a tool marked in the environment's class. A tool of a task or of a
    ``FastMCP`` server with the name of an action's tool is not listed.

    Args:
        perform: Performs an action in the session.
        action_class: The environment's action class.
        observation_class: The environment's observation class, which declares pictures.
        offers_tools: Whether the environment's class declares that ``step`` accepts ``ListToolsAction`` and
            ``CallToolAction``.
        class_tools: Names of the tools marked in the environment's class.
    """

    def __init__(
        self,
        perform: Perform,
        action_class: type[BaseModel],
        observation_class: type[BaseModel],
        *,
        offers_tools: bool,
        class_tools: frozenset[str],
    ) -> None:
        self._perform = perform
        self._pixel_fields = pixel_fields_of(observation_class)
        self._has_own = offers_tools or _declares_tool_actions(action_class)
        # Neither these two actions nor ``Action``, which stands for any action of an environment with tools, is a tool.
        only_own = self._has_own and takes_tool_actions_only(action_class)
        self._action_tools = {} if only_own else action_tools(action_class, class_tools)

    async def list(self) -> Sequence[Tool]:
        """Return the tools; this is not a step, and is allowed at any time.

        Raises:
            RequestError: The session has ended, or the environment did not return a list of tools.
        """
        own = await self._own_tools() if self._has_own else []
        return _joined(own, self._action_tools)

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float | None = None) -> ToolCallResult:
        """Call a tool, which is a step.

        Args:
            name: Name of the tool.
            arguments: Arguments of the tool.
            timeout_s: The caller's timeout in seconds; the server's limit holds if it is shorter.

        Returns:
            The result; an invalid call or an exception of the tool is a result too.

        Raises:
            RequestError: The session has ended or needs a reset, or the call timed out.
        """
        action_tool = self._action_tools.get(name)
        if action_tool is None and not self._has_own:
            return _failed(ToolErrorType.TOOL_NOT_FOUND, f"Unknown tool: {name!r:.200}")
        try:
            if action_tool is None:
                action: BaseModel = CallToolAction(tool_name=name, arguments=dict(arguments))
            else:
                action = action_tool.action(arguments)
            outcome = await self._perform(action, timeout_s, tool=name[:LONGEST_TOOL_NAME])
        except InvalidRequestError as error:
            return _failed(ToolErrorType.INVALID_ARGS, faults_text(error.errors or []) or error.message)
        except EnvironmentProcessEndedError:
            raise
        except EnvironmentFailedError as error:
            return _failed(ToolErrorType.EXECUTION_ERROR, error.message)
        return _result(outcome, self._pixel_fields)

    async def _own_tools(self) -> Sequence[Tool]:
        observation = (await self._perform(ListToolsAction())).observation
        if isinstance(observation, ListToolsObservation):
            return observation.tools
        if isinstance(observation, WrittenJson):
            with suppress(ValidationError):
                return ListToolsObservation.model_validate_json(observation.text).tools
        raise EnvironmentFailedError(
            "Expected the environment to answer ListToolsAction with a ListToolsObservation, got "
            f"{getattr(observation, 'text', type(observation).__name__):.200}."
        )


def common_tools(environment_class: type | None, action_class: type[BaseModel]) -> list[Tool] | None:
    """Return the tools that all sessions of an environment have at any time; ``None`` if they depend on the session.

    Args:
        environment_class: The environment's class; ``None`` if only a factory is known.
        action_class: The environment's action class.

    Raises:
        ConfigurationError: A tool of the class can't be described.
    """
    if environment_class is None:
        return None
    marked = class_tools(environment_class)
    own = [tool.described for tool in marked.values()]  # an invalid tool fails at the server's start
    if not getattr(environment_class, "OFFERS_TOOLS", False):
        return None if _declares_tool_actions(action_class) else _joined([], action_tools(action_class, frozenset()))
    has_task_tools = getattr(environment_class, "task_tools", None) is not Environment.task_tools
    if has_task_tools or not answers_tool_actions(environment_class):
        return None
    return own if takes_tool_actions_only(action_class) else _joined(own, action_tools(action_class, frozenset(marked)))


def may_have_tools(environment_class: type | None, action_class: type[BaseModel]) -> bool:
    """Return whether sessions of an environment may answer ``ListToolsAction``; of a factory's this is not known.

    Args:
        environment_class: The environment's class; ``None`` if only a factory is known.
        action_class: The environment's action class.
    """
    offers_tools = environment_class is None or bool(getattr(environment_class, "OFFERS_TOOLS", False))
    return offers_tools or _declares_tool_actions(action_class)


def _declares_tool_actions(action_class: type[BaseModel]) -> bool:
    """Return whether actions that list and call tools are declared, perhaps beside others."""
    return action_class is not Action and takes_tool_actions(action_class)


def _joined(own: Sequence[Tool], of_actions: Mapping[str, ActionTool]) -> list[Tool]:
    listed = [tool for tool in own if tool.name not in of_actions]
    return listed + [tool.described for tool in of_actions.values()]


def _result(outcome: Outcome, pixel_fields: frozenset[str]) -> ToolCallResult:
    reward = None if outcome.reward is None else float(outcome.reward)
    about = ToolCallResult(None, "", reward=reward, done=outcome.done, metadata=outcome.metadata)
    try:
        shown = from_json(observation_json(outcome.observation))
    except (ValueError, TypeError) as error:
        message = redact(f"What the tool gave cannot be sent as JSON: {error}")
        return replace(about, text=message, error=ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message=message))
    if not isinstance(shown, dict):
        return _with_value(about, shown)
    if isinstance(outcome.observation, CallToolObservation | WrittenToolResult):
        return _own_result(about, shown)
    shown.pop("metadata", None)  # it has a field of its own
    return _with_value(about, {**shown, "done": outcome.done}, pixel_fields)


def _own_result(about: ToolCallResult, shown: Mapping[str, Any]) -> ToolCallResult:
    """Convert a ``CallToolObservation``."""
    if shown.get("error") is not None:
        error = _tool_error(shown["error"])
        return replace(about, text=error.message, error=error)
    value: Any = shown.get("result")
    if _is_mcp_result(value):
        return _mcp_result(about, value)
    return _with_value(about, value)


def _with_value(about: ToolCallResult, value: Any, pixel_fields: frozenset[str] = frozenset()) -> ToolCallResult:
    """Add a value, its text, and its pictures as content blocks."""
    parts = split(value, pixel_fields)
    text = _text(parts.value)
    if not parts.blocks:
        return replace(about, value=value, text=text)
    is_picture = isinstance(parts.value, str)  # the value is a picture alone, without text
    content = parts.blocks if is_picture else [{"type": "text", "text": text}, *parts.blocks]
    return replace(about, value=value, text=text, content=content, seen=parts.value)


def _tool_error(shown: Any) -> ToolError:
    try:
        return ToolError.model_validate(shown)
    except ValidationError:  # an error format of the environment's author
        return ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message=_text(shown))


def _is_mcp_result(value: Any) -> bool:
    """Return whether a value comes from MCP's own server library, not from a tool with the same keys by chance."""
    if not isinstance(value, dict) or not value.keys() >= _MCP_RESULT:
        return False
    content = value["content"]
    return isinstance(content, list) and all(map(_is_block, content))


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("text", ""), str)


def _mcp_result(about: ToolCallResult, result: Mapping[str, Any]) -> ToolCallResult:
    """Convert a tool result of MCP's own server library."""
    content = result["content"]
    text = "\n".join(block.get("text", "") for block in content if block["type"] == "text")
    value = next((one for one in (result["data"], result["structured_content"]) if one is not None), text)
    return replace(about, value=value, text=text, content=content)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, fallback=plain_value).decode()


def _failed(kind: ToolErrorType, message: str) -> ToolCallResult:
    message = redact(message)
    return ToolCallResult(None, message, ToolError(error_type=kind, message=message))
