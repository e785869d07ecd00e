"""Tools of an environment as its server lists them, and the actions of their calls.

The environment's package is not needed: the server lists its tools with their schemas, and publishes the schema of its
actions. A step-style environment has a tool for each kind of action, whether or not its server lists them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from openenv.core.client.blocking import wait_for
from openenv.core.client.mcp import MCPClientBase, fetch_tools
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction, Tool, takes_tool_actions_only
from openenv.core.env_server.toolbox.action_tools import described_tool, tool_names
from openenv.core.environment_types import generic_arguments
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    InvalidRequestError,
)
from openenv.core.generic_client import GenericEnvClient
from openenv.core.schema.reader import Member, concerns_tools, constants, members
from openenv.core.sync_client import SyncEnvClient
from openenv.core.typed_client import TypedEnvClient
from openenv.core.wire.actions import action_member, action_members, action_model, decode_action, member_action
from openenv.core.wire.mcp_types import ListedTool
from openenv.train.tools.contents import refusal_text
from openenv.train.tools.tool_methods import ToolMethod

__all__ = ["EnvironmentTools", "calls_tools_only"]

_CALL_TOOL = "call_tool"
_METADATA = "metadata"

AnyClient = EnvClient[Any, Any, Any] | SyncEnvClient[Any, Any, Any]


class _AnyAction(BaseModel):
    """Action whose class is not at hand, for clients that send models only."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True)
class _ActionKind:
    """Tool that stands for one kind of action.

    Attributes:
        tool: Its description for an agent.
        constants: Fields with one possible value, which an agent does not fill in.
        model: Class of the action; ``None`` where it is not at hand.
        action_class: The environment's class of actions, of which ``model`` may be a member; ``None`` as ``model``.
        as_model: Whether an action has to be a model rather than a dict.
    """

    tool: Tool
    constants: Mapping[str, Any] = field(default_factory=dict)
    model: type[BaseModel] | None = None
    action_class: type[BaseModel] | None = None
    as_model: bool = False

    def action(self, arguments: Mapping[str, Any]) -> BaseModel | dict[str, Any]:
        """Make the action of a call.

        Raises:
            InvalidRequestError: The arguments do not fit.
        """
        forbidden = [name for name in arguments if name in (_METADATA, *self.constants)]
        if forbidden:
            raise InvalidRequestError(f"{forbidden[0]}: Extra inputs are not permitted")
        fields = {**arguments, **self.constants}
        if self.model is None or self.action_class is None:
            return _AnyAction.model_validate(fields) if self.as_model else fields
        try:
            return member_action(decode_action(fields, self.model), self.action_class)
        except InvalidRequestError as error:
            raise InvalidRequestError(refusal_text(error), errors=error.errors) from error

    def arguments(self, action: BaseModel | Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the arguments of the call that is this action; ``None`` where it is of another kind."""
        if isinstance(action, BaseModel):
            action = action_member(action)
            if self.model is not None and not isinstance(action, self.model):
                return None
            fields = action.model_dump(mode="json", by_alias=True, exclude_unset=True)
        else:
            fields = dict(action)
        schema = self.tool.input_schema
        given = {name: value for name, value in fields.items() if name not in (_METADATA, *self.constants)}
        fits = given.keys() <= schema.get("properties", {}).keys() and given.keys() >= set(schema.get("required", ()))
        same = all(fields.get(name, value) == value for name, value in self.constants.items())
        return given if fits and same else None


class EnvironmentTools:
    """Tools of one environment.

    Args:
        tools: Their descriptions for an agent.
        kinds: Those that stand for a kind of action, by their names; the others are the environment's own tools.
        as_models: Whether actions have to be models rather than dicts.

    Attributes:
        tools: The descriptions, each with the whole JSON Schema of its arguments.

    Raises:
        ConfigurationError: There are none.

    Example:
        >>> with openenv.make("wordle").sync() as client:  # doctest: +SKIP
        ...     tools = EnvironmentTools.of(client)
        ...     client.reset(seed=1)
        ...     client.step(tools.action("guess", {"word": "crane"}))
    """

    def __init__(self, tools: Sequence[Tool], kinds: Mapping[str, _ActionKind], *, as_models: bool = False) -> None:
        if not tools:
            raise ConfigurationError(
                "The environment offers no tools and publishes no schema of its actions, so no model can act in it."
            )
        self.tools = tuple(tools)
        self._kinds = dict(kinds)
        self._as_models = as_models

    @classmethod
    def of(cls, client: AnyClient, task: Mapping[str, Any] | None = None) -> Self:
        """List a server's tools. This blocks.

        The session that the client has open is used. Where it has none, or a task is given, one is opened for the
        request and ended again; its slot is free a moment later. So call this before all slots are in use, and open
        further sessions with ``capacity_wait_s``.

        Args:
            client: A client of the server.
            task: Parameters of ``reset`` for a task. An environment with tools of its own may have more of them once a
                task is known; they are listed after such a reset.

        Raises:
            ConfigurationError: It has no tools.
            ConnectionFailedError: There is no server.
            ServerError: It gave no session, or the reset failed.
        """
        plain = client.async_client if isinstance(client, SyncEnvClient) else client
        read: Self = wait_for(cls._listed, plain, task)
        return read

    @classmethod
    async def _listed(cls, client: EnvClient[Any, Any, Any], task: Mapping[str, Any] | None) -> Self:
        await client._started()
        own = client._client_session is not None and task is None
        session = client if own else client._child(None)  # which opens with its first request
        try:
            listed = await fetch_tools(session)
            schema = await _action_schema(client, listed)
            are_actions = bool(listed) and not _own_tools(listed, _members(schema))
            if task is not None and not are_actions:
                await session.reset(**task)
                listed = await fetch_tools(session) or listed
        finally:
            if not own:
                await session.close()
        return cls.read(listed, schema, client)

    @classmethod
    def read(cls, listed: Sequence[Tool], schema: Mapping[str, Any], client: EnvClient[Any, Any, Any]) -> Self:
        """Distinguish the environment's own tools and those that stand for actions.

        Args:
            listed: The tools that the server lists, perhaps none.
            schema: JSON Schema of its actions; empty where it publishes none.
            client: The client, which sends actions as models or as dicts.

        Raises:
            ConfigurationError: There are no tools at all.
        """
        as_models = not isinstance(client, GenericEnvClient)
        actions = _members(schema)
        own = _own_tools(listed, actions)
        described = listed[len(own) :]
        if listed and not described:
            actions = {}  # it lists what agents can do, and no action is among it
        action_class = _action_class(client) if as_models else None
        models = _models(action_class, len(actions))
        tools = described or _described_tools(actions, frozenset(tool.name for tool in own))
        kinds = {
            tool.name: _ActionKind(tool, constants(action), model, action_class, as_models)
            for tool, action, model in zip(tools, actions.values(), models, strict=True)
        }
        return cls([*own, *tools], kinds, as_models=as_models)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the tools."""
        return tuple(tool.name for tool in self.tools)

    @cached_property
    def methods(self) -> tuple[ToolMethod, ...]:
        """Methods of the tools in Python."""
        return tuple(map(ToolMethod, self.tools))

    def schemas(self) -> list[dict[str, Any]]:
        """Return the tools' schemas for chat templates, as ``{"type": "function", "function": {...}}``.

        They are those that ``transformers.utils.get_json_schema`` makes of the methods that TRL's
        ``environment_factory`` offers, so that a model is shown the same text wherever it plays.
        """
        return [method.schema() for method in self.methods]

    def action(self, name: str, arguments: Mapping[str, Any]) -> BaseModel | dict[str, Any]:
        """Make the action of a call, for ``step``.

        Args:
            name: Name of the tool.
            arguments: Its arguments, by their names in its schema or in Python.

        Returns:
            A model where the client is typed, else a dict.

        Raises:
            InvalidRequestError: There is no such tool, or the arguments do not fit. The message is for the model.
                Otherwise the server is the judge of the arguments.
        """
        if name not in self.names:
            raise InvalidRequestError(f"There is no tool {str(name)!r:.100}; the tools are {', '.join(self.names)}.")
        if not isinstance(arguments, Mapping):
            raise InvalidRequestError(
                f"{name}: expected the arguments as an object with names and values, got {arguments!r:.100}."
            )
        named = self.methods[self.names.index(name)].arguments((), arguments)
        kind = self._kinds.get(name)
        if kind is not None:
            return kind.action(named)
        if self._as_models:
            return CallToolAction(tool_name=name, arguments=named)
        return {"type": _CALL_TOOL, "tool_name": name, "arguments": named}

    def call(self, action: BaseModel | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the call that an action is: the inverse of `action`.

        Args:
            action: An action, or its fields.

        Returns:
            The tool's name, and the arguments by their names in Python, as a model is shown them.

        Raises:
            ConfigurationError: It is none of this environment's.
        """
        name, arguments = self._call(action)
        keys = {parameter.key: parameter.name for parameter in self.methods[self.names.index(name)].parameters}
        return name, {keys.get(key, key): value for key, value in arguments.items()}

    def _call(self, action: BaseModel | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        fields = action.model_dump(mode="json") if isinstance(action, CallToolAction) else action
        if isinstance(fields, Mapping) and fields.get("type") == _CALL_TOOL and fields.get("tool_name") in self.names:
            return fields["tool_name"], dict(fields.get("arguments") or {})
        for name, kind in self._kinds.items():
            arguments = kind.arguments(action)
            if arguments is not None:
                return name, arguments
        raise ConfigurationError(f"Expected an action of this environment, got {action!r:.200}.")


def calls_tools_only(schema: Mapping[str, Any]) -> bool:
    """Return whether actions of a JSON Schema are nothing but calls of an environment's tools."""
    return bool(_named_members(schema)) and not _members(schema)


async def _action_schema(client: EnvClient[Any, Any, Any], listed: Sequence[Tool]) -> Mapping[str, Any]:
    try:
        schemas = await client.schemas()
    except ConnectionFailedError:
        if not listed:
            raise
        return {}
    return schemas["action"]


def _own_tools(listed: Sequence[Tool], actions: Mapping[str, Any]) -> Sequence[Tool]:
    """Return the environment's own tools, which precede those that stand for actions."""
    # A server declares which tools stand for actions; where it does not, as a public one, their names show it.
    stated = [tool.action for tool in listed if isinstance(tool, ListedTool) and tool.action is not None]
    if stated and stated == list(actions):
        return listed[: len(listed) - len(stated)]
    own = listed[: max(0, len(listed) - len(actions))]
    expected = tool_names(list(actions), frozenset(tool.name for tool in own))
    return own if [tool.name for tool in listed[len(own) :]] == expected else listed


def _members(schema: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the schemas of the kinds of actions by their classes' names; none where actions only call tools."""
    return {name: member for name, member in _named_members(schema) if not concerns_tools(member)}


def _named_members(schema: Mapping[str, Any]) -> list[Member]:
    """List the kinds of actions; none where the server publishes no schema of them."""
    return [member for member in members(schema) if "properties" in member.schema or "title" in member.schema]


def _described_tools(actions: Mapping[str, Mapping[str, Any]], used: frozenset[str]) -> list[Tool]:
    """Make the tools of actions that a server does not list, with names that are not used yet."""
    names = tool_names(list(actions), used)
    return [described_tool(name, action) for name, action in zip(names, actions.values(), strict=True)]


def _action_class(client: EnvClient[Any, Any, Any]) -> type[BaseModel] | None:
    """Return the class of a client's actions, where it declares one."""
    if isinstance(client, TypedEnvClient):
        return client.action_class
    if isinstance(client, MCPClientBase):
        return None
    return action_model((generic_arguments(type(client), EnvClient) or (None,))[0])


def _models(action_class: type[BaseModel] | None, count: int) -> list[type[BaseModel] | None]:
    """Return the classes of the kinds of actions; ``None`` for each where they are not known."""
    if action_class is None or takes_tool_actions_only(action_class):
        return [None] * count
    classes: list[type[BaseModel] | None] = list(action_members(action_class))
    return classes if len(classes) == count else [None] * count
