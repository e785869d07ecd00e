"""The tools of a session, as the transports offer them to agents: the environment's own, and those of its actions.

An agent lists and calls tools and nothing else; whatever it calls is a step of the session's episode.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from openenv.core.env_server.derived_tools import derived_tools
from openenv.core.env_server.disclosure import without_secrets
from openenv.core.env_server.environment_types import EnvironmentTypes
from openenv.core.env_server.execution import ProgressListener as ProgressListener
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
    takes_tool_actions,
)
from openenv.core.env_server.outcomes import Outcome, WrittenJson
from openenv.core.env_server.protocol import observation_json
from openenv.core.env_server.session import Session
from openenv.core.env_server.tool_schemas import faults_text
from openenv.core.env_server.tools import answers_tool_actions, class_tools
from openenv.core.env_server.types import Action
from openenv.core.exceptions import (
    EnvironmentFailedError,
    EnvironmentProcessEndedError,
    InvalidRequestError,
)
from openenv.core.plain_values import plain_value

# What the result of a call has that MCP's own server library made.
_MCP_RESULT = {"content", "structured_content", "data", "is_error"}


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool call gave.

    Attributes:
        value: What the tool returned, as JSON has it; ``None`` where it failed.
        text: The same, or what went wrong, as a model is to read it: a text as it is, anything else as JSON.
        error: Why there is no value.
        reward: The reward of this step.
        done: Whether the episode has ended.
        metadata: What the environment reports beside.
        content: The blocks of MCP that the tool returned, where it returned such; empty where ``text`` says it all.
    """

    value: Any
    text: str
    error: ToolError | None = None
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    content: list[dict[str, Any]] = field(default_factory=list)


class Toolbox(Protocol):
    """The tools of one environment's sessions.

    Attributes:
        same_for_all: The tools, where every session has the same ones at any time; ``None`` where only a session knows.
    """

    same_for_all: list[Tool] | None

    async def tools(self, session: Session) -> list[Tool]:
        """List the tools; this is no step, and is allowed at any time.

        Raises:
            RequestError: The session has ended, or the environment can't say.
        """
        ...

    async def call(
        self,
        session: Session,
        name: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> ToolAnswer:
        """Call a tool, which is a step.

        Args:
            session: The session.
            name: Name of the tool.
            arguments: Its arguments.
            timeout_s: Seconds that the caller grants, if less than the server does.
            on_progress: Told how far the tool is, where it says so.

        Returns:
            What it gave; what is wrong with the call, or goes wrong in the tool, is an answer too.

        Raises:
            RequestError: The session has ended, needs a reset first, or the call took too long.
        """
        ...


def toolbox_of(environment_class: type | None, types: EnvironmentTypes) -> Toolbox:
    """Make the toolbox of an environment.

    Args:
        environment_class: Its class; ``None`` where only its sessions will know.
        types: The classes that it speaks in.

    Raises:
        ConfigurationError: A tool of the class can't be described.
    """
    if environment_class is not None:
        for own in class_tools(environment_class).values():
            own.described  # noqa: B018  # whatever is wrong with it shows now, and not when an agent asks
    has_none = environment_class is not None and not getattr(environment_class, "OFFERS_TOOLS", False)
    if has_none and types.action is Action:  # which may be any action's class: to list tools would be a step
        return ActionTools(types.action)
    if takes_tool_actions(types.action):
        return OwnTools(_fixed_tools(environment_class))
    return ActionTools(types.action) if has_none else MixedTools(types.action, environment_class)


def _fixed_tools(environment_class: type | None) -> list[Tool] | None:
    """List the tools of a class that offers those marked in it, and none for a task; ``None`` for any other class."""
    if environment_class is None or not answers_tool_actions(environment_class):
        return None
    if getattr(environment_class, "task_tools", None) is not Environment.task_tools:
        return None
    return [own.described for own in class_tools(environment_class).values()]


class OwnTools:
    """The tools of an environment that takes ``ListToolsAction`` and ``CallToolAction``.

    Args:
        same_for_all: See ``Toolbox``.
    """

    def __init__(self, same_for_all: list[Tool] | None = None) -> None:
        self.same_for_all = same_for_all

    async def tools(self, session: Session) -> list[Tool]:
        """See ``Toolbox``."""
        observation = (await session.perform(ListToolsAction())).observation
        if isinstance(observation, ListToolsObservation):
            return observation.tools
        if isinstance(observation, WrittenJson):
            with suppress(ValidationError):
                return ListToolsObservation.model_validate_json(observation.text).tools
        raise EnvironmentFailedError(
            "Expected the environment to answer ListToolsAction with a ListToolsObservation, got "
            f"{getattr(observation, 'text', type(observation).__name__):.200}."
        )

    async def call(
        self,
        session: Session,
        name: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> ToolAnswer:
        """See ``Toolbox``."""
        action = CallToolAction(tool_name=name, arguments=dict(arguments))
        return await _performed(session, action, timeout_s, on_progress)


class ActionTools:
    """The tools that an environment's actions make, one for each class of actions.

    Args:
        action_class: The environment's class of actions.
        taken: Names that they can't have.
    """

    def __init__(self, action_class: type[BaseModel], taken: frozenset[str] = frozenset()) -> None:
        self._tools = derived_tools(action_class, taken)
        self.same_for_all: list[Tool] | None = self.described()

    def __contains__(self, name: str) -> bool:
        """Whether there is such a tool."""
        return name in self._tools

    def described(self) -> list[Tool]:
        """List the tools."""
        return [derived.described for derived in self._tools.values()]

    async def tools(self, session: Session) -> list[Tool]:
        """See ``Toolbox``."""
        return self.described()

    async def call(
        self,
        session: Session,
        name: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> ToolAnswer:
        """See ``Toolbox``."""
        if name not in self._tools:
            return _failed(ToolErrorType.TOOL_NOT_FOUND, f"Unknown tool: {name!r:.200}")
        try:
            action = self._tools[name].action(arguments)
        except InvalidRequestError as error:
            return _refused(error)
        return await _performed(session, action, timeout_s, on_progress)


class MixedTools:
    """The tools of an environment that has its own beside those that its actions make.

    Whether it has any, its sessions know.

    Args:
        action_class: The environment's class of actions.
        environment_class: Its class; ``None`` where only its sessions will know.
    """

    def __init__(self, action_class: type[BaseModel], environment_class: type | None = None) -> None:
        self._own = OwnTools(_fixed_tools(environment_class))
        self._action_class = action_class
        self._derived: dict[frozenset[str], ActionTools] = {}
        self.same_for_all: list[Tool] | None = None
        if self._own.same_for_all is not None:
            derived = self._derived_for(frozenset(one.name for one in self._own.same_for_all))
            self.same_for_all = _without(derived, self._own.same_for_all) + derived.described()

    async def tools(self, session: Session) -> list[Tool]:
        """See ``Toolbox``."""
        derived = self._derived_for(session.tool_names)
        own = await self._own.tools(session) if session.offers_tools else []
        return _without(derived, own) + derived.described()

    async def call(
        self,
        session: Session,
        name: str,
        arguments: Mapping[str, Any],
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> ToolAnswer:
        """See ``Toolbox``."""
        derived = self._derived_for(session.tool_names)
        has_it: Toolbox = derived if name in derived or not session.offers_tools else self._own
        return await has_it.call(session, name, arguments, timeout_s, on_progress)

    def _derived_for(self, taken: frozenset[str]) -> ActionTools:
        if taken not in self._derived:
            self._derived[taken] = ActionTools(self._action_class, taken)
        return self._derived[taken]


def _without(derived: ActionTools, own: list[Tool]) -> list[Tool]:
    """Leave out those of an environment's own tools whose names those of its actions have."""
    return [one for one in own if one.name not in derived]


async def _performed(
    session: Session, action: BaseModel, timeout_s: float | None, on_progress: ProgressListener | None
) -> ToolAnswer:
    """Do an action, and say what came of it as a tool does."""
    try:
        outcome = await session.perform(action, timeout_s, on_progress)
    except InvalidRequestError as error:
        return _refused(error)
    except EnvironmentProcessEndedError:
        raise
    except EnvironmentFailedError as error:
        return _failed(ToolErrorType.EXECUTION_ERROR, error.message)
    return _answer(outcome)


def _answer(outcome: Outcome) -> ToolAnswer:
    reward = None if outcome.reward is None else float(outcome.reward)
    about = ToolAnswer(None, "", reward=reward, done=outcome.done, metadata=outcome.metadata)
    try:
        shown = from_json(observation_json(outcome.observation))
    except (ValueError, TypeError) as error:
        message = without_secrets(f"What the tool gave cannot be sent as JSON: {error}")
        return replace(about, text=message, error=ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message=message))
    if not isinstance(shown, dict):
        return replace(about, value=shown, text=_text(shown))
    if "tool_name" in shown and "result" in shown:
        return _own_answer(about, shown)
    shown.pop("metadata", None)  # it is beside what an agent sees
    value = {**shown, "done": outcome.done}
    return replace(about, value=value, text=_text(value))


def _own_answer(about: ToolAnswer, shown: Mapping[str, Any]) -> ToolAnswer:
    """Read a ``CallToolObservation``."""
    if shown.get("error") is not None:
        error = _tool_error(shown["error"])
        return replace(about, text=error.message, error=error)
    value = shown["result"]
    if _is_mcp_result(value):
        return _mcp_answer(about, value)
    return replace(about, value=value, text=_text(value))


def _tool_error(shown: Any) -> ToolError:
    try:
        return ToolError.model_validate(shown)
    except ValidationError:  # an author's own form
        return ToolError(error_type=ToolErrorType.EXECUTION_ERROR, message=_text(shown))


def _is_mcp_result(value: Any) -> bool:
    """Whether MCP's own server library made it, and not a tool that happens to use the same names."""
    if not isinstance(value, dict) or not value.keys() >= _MCP_RESULT:
        return False
    content = value["content"]
    return isinstance(content, list) and all(map(_is_block, content))


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str) and isinstance(value.get("text", ""), str)


def _mcp_answer(about: ToolAnswer, result: Mapping[str, Any]) -> ToolAnswer:
    """Read the result of a call that MCP's own server library made."""
    content = result["content"]
    text = "\n".join(block.get("text", "") for block in content if block["type"] == "text")
    value = next((one for one in (result["data"], result["structured_content"]) if one is not None), text)
    return replace(about, value=value, text=text, content=content)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, fallback=plain_value).decode()


def _refused(error: InvalidRequestError) -> ToolAnswer:
    return _failed(ToolErrorType.INVALID_ARGS, faults_text(error.errors or []) or error.message)


def _failed(kind: ToolErrorType, message: str) -> ToolAnswer:
    message = without_secrets(message)
    return ToolAnswer(None, message, ToolError(error_type=kind, message=message))
