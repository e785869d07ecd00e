"""Clients of environments by their tools: what an agent may do, beside the steps of any other client.

Tool calls go over the session's own connection, as ``mcp`` messages, which this package's servers and the public ones
answer alike. So they reach the environment that ``reset``, ``step`` and ``state`` reach, and what holds for a step when
a connection is lost holds for them.
"""

import logging
from collections.abc import Coroutine, Iterable, Mapping
from os import PathLike
from ssl import SSLContext
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic_core import to_json

from openenv.core.client.blocking import blocks_outside_loop
from openenv.core.client.client import EnvClient
from openenv.core.client.results import StepResult
from openenv.core.exceptions import ConfigurationError, InvalidAnswerError, RequestRejectedError, ToolCallError
from openenv.core.providers.base import Provider
from openenv.core.wire.mcp_types import (
    ACTION_KEY,
    CallToolObservation,
    GenericMCPObservation,
    JsonRpcResponse,
    ListedTool,
    ListToolsObservation,
    McpMethod,
    Tool,
    tool_observation_class,
)
from openenv.core.wire.messages import MessageType
from openenv.core.wire.types import Observation, State

__all__ = ["GenericMCPObservation", "MCPClientBase", "MCPToolClient", "fetch_tools"]

logger = logging.getLogger(__name__)

_MODE = "production"
# A message is answered before the session's next one is sent, so that nothing has to tell answers apart.
_REQUEST_ID = 1
_SNAKE_CASE = {"inputSchema": "input_schema"}


class _ExtendedCallToolObservation(CallToolObservation):
    """What a tool gave, with further fields that the environment gives it."""

    model_config = ConfigDict(extra="allow")


class MCPClientBase(EnvClient[Any, Any, State]):
    """A client that knows the tools of its environment; see ``MCPToolClient``.

    Args:
        base_url: See ``EnvClient``, as for all others.
        connect_timeout_s: Seconds that connecting may take.
        message_timeout_s: Seconds that an answer may take; ``None`` for no limit.
        websocket_ping_interval_s: Seconds between pings.
        websocket_ping_timeout_s: Seconds to wait for the answer to a ping.
        provider: Starts the server on the first use, in place of ``base_url``.
        mode: ``production``, which is also the default.
        max_message_size_mb: Longest answer that is accepted, in MiB.
        headers: Further headers of the handshake.
        token: What the server asks for.
        capacity_wait_s: Seconds to wait in line for a session.
        ssl: Certificates to trust, as for ``EnvClient``.

    Raises:
        ConfigurationError: The mode is another one, or as ``EnvClient`` raises it.
    """

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float | None = 60.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Provider | None = None,
        mode: str | None = None,
        max_message_size_mb: float = 100.0,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        capacity_wait_s: float = 0.0,
        ssl: SSLContext | str | PathLike[str] | None = None,
    ) -> None:
        if mode is not None and mode.lower() != _MODE:
            raise ConfigurationError(
                f"{type(self).__name__} only supports '{_MODE}' mode, got {mode!r}. Leave the mode out: reset, step "
                "and state work all the same where the server has them."
            )
        super().__init__(
            base_url,
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            max_message_size_mb=max_message_size_mb,
            websocket_ping_interval_s=websocket_ping_interval_s,
            websocket_ping_timeout_s=websocket_ping_timeout_s,
            provider=provider,
            mode=_MODE,
            headers=headers,
            token=token,
            capacity_wait_s=capacity_wait_s,
            ssl=ssl,
        )
        self._tools: list[Tool] | None = None

    @blocks_outside_loop
    async def list_tools(self, use_cache: bool = True) -> list[Tool]:
        """List the tools that there are for the present task.

        Args:
            use_cache: Whether the list of an earlier call in this episode will do.

        Returns:
            The tools; none where the server says that the environment has no tools, or can't list them.

        Raises:
            ConnectionFailedError: There is no server.
            ConnectionLostError: The connection went before the answer came.
            InvalidAnswerError: What came is no list of tools.
            ResponseTimeoutError: No answer came within ``message_timeout_s``.
            ServerError: There is no session for this client.
        """
        if use_cache and self._tools is not None:
            return list(self._tools)
        request = _request(McpMethod.TOOLS_LIST, {})
        listed = await self._exchange_async(b"mcp", request, MessageType.MCP, _read_tools)
        self._tools = listed or None  # an empty list may be a passing failure's
        return list(listed)

    def reset(self, /, **kwargs: Any) -> Coroutine[Any, Any, StepResult[Any]]:
        """Start an episode, which may have other tools; see ``EnvClient.reset``."""
        self._tools = None
        return super().reset(**kwargs)

    def _step_payload(self, action: Any) -> dict[str, Any]:
        if not isinstance(action, BaseModel):
            raise TypeError(
                f"Expected an action such as CallToolAction or ListToolsAction, got {type(action).__name__}: "
                f"{action!r:.200}."
            )
        payload = action.model_dump(mode="json", by_alias=True)
        if not payload.get("metadata", True):  # another server's action may not have this field
            del payload["metadata"]
        return payload

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Any]:
        reward, done, shown = payload.get("reward"), payload.get("done", False), payload.get("observation")
        if not isinstance(shown, dict):
            raise InvalidAnswerError(f"Expected an observation in the server's answer, got {shown!r:.200}.")
        fields = {**shown, "reward": reward, "done": done}
        return StepResult(self._parse_observation(fields), reward, done, payload.get("metadata"))

    def _parse_observation(self, fields: dict[str, Any]) -> Observation:
        """Make an observation of its fields, by which its class shows."""
        kind = tool_observation_class(fields)
        if kind is ListToolsObservation:
            fields = {**fields, "tools": _with_snake_case(fields["tools"])}
        if kind is CallToolObservation and not fields.keys() <= CallToolObservation.model_fields.keys():
            kind = _ExtendedCallToolObservation
        return kind.model_validate(fields)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State.model_validate(payload)


class MCPToolClient(MCPClientBase):
    """A client that calls the tools of its environment by their names.

    It works with any environment of this package's servers, whose actions are tools too, and with those of public
    servers that have tools. As with every client, methods are coroutines inside a running event loop and block where
    none runs. It takes any action in ``step`` as well.

    Example::

        with MCPToolClient(base_url="http://localhost:8000").sync() as env:
            env.reset()
            print([tool.name for tool in env.list_tools()])
            print(env.call_tool("echo_message", message="hello"))
    """

    @blocks_outside_loop
    async def call_tool(self, tool_name: str | None = None, /, **arguments: Any) -> Any:
        """Call a tool, which is a step of the episode.

        Args:
            tool_name: Its name. Where it is left out, the argument ``name`` is the tool's name.
            **arguments: Its arguments.

        Returns:
            What the tool gave: its value, or the whole result where that holds more than a value or text. Rewards are
            in the results of ``step(CallToolAction(...))``.

        Raises:
            ToolCallError: The tool failed or does not exist, or the episode has ended.
            ConnectionFailedError: There is no server.
            ConnectionLostError: The connection went before the answer came; the call may have happened.
            ResponseTimeoutError: No answer came within ``message_timeout_s``; the call may have happened.
            ServerError: There is no session for this client.
            TypeError: No tool is named.
        """
        name = arguments.pop("name", None) if tool_name is None else tool_name
        if not isinstance(name, str):
            raise TypeError(f"Expected the tool's name first, as in call_tool('search', query='...'), got {name!r}.")
        request = _request(McpMethod.TOOLS_CALL, {"name": name, "arguments": arguments})
        response = await self._exchange_async(b"mcp", request, MessageType.MCP, JsonRpcResponse.model_validate)
        if response.error is not None:
            raise ToolCallError(name, response.error.message, response.error.code, response.error.data)
        return _value(response.result)

    @blocks_outside_loop
    async def get_tool(self, name: str) -> Tool | None:
        """Return a tool by its name; ``None`` where there is none."""
        return next((tool for tool in await self.list_tools() if tool.name == name), None)

    @blocks_outside_loop
    async def has_tool(self, name: str) -> bool:
        """Say whether there is a tool of this name."""
        return await self.get_tool(name) is not None


async def fetch_tools(client: EnvClient[Any, Any, Any]) -> list[ListedTool]:
    """List the tools that a client's session has now, whatever the client's class.

    Args:
        client: The client whose session is used; one is opened if it has none.

    Returns:
        The tools, with the actions that they stand for; none where the server lists none, such as a public one of an
        environment without MCP.

    Raises:
        ConnectionFailedError: There is no server.
        ConnectionLostError: The connection went before the answer came.
        InvalidAnswerError: What came is no list of tools.
        ResponseTimeoutError: No answer came within ``message_timeout_s``.
        ServerError: There is no session for this client.
    """
    request = _request(McpMethod.TOOLS_LIST, {})
    try:
        response = await client._exchange_async(b"mcp", request, MessageType.MCP, JsonRpcResponse.model_validate)
    except RequestRejectedError:  # it knows no such message
        return []
    return [] if response.error is not None else _listed(response)


def _request(method: McpMethod, params: Mapping[str, Any]) -> bytes:
    return to_json({"jsonrpc": "2.0", "id": _REQUEST_ID, "method": method, "params": params})


def _read_tools(answer: dict[str, Any]) -> list[Tool]:
    response = JsonRpcResponse.model_validate(answer)
    if response.error is not None:
        logger.warning("the server lists no tools: %s", response.error.message)
        return []
    return [Tool(**tool.model_dump()) for tool in _listed(response)]


def _listed(response: JsonRpcResponse) -> list[ListedTool]:
    listed = response.result.get("tools") if isinstance(response.result, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise InvalidAnswerError(f"Expected a list of tools in the server's answer, got {response.result!r:.200}.")
    return [_read_tool(one) for one in listed]


def _with_snake_case(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rename the schemas of listed tools that have MCP's name for it, as those of some servers do."""
    return [{_SNAKE_CASE.get(name, name): value for name, value in tool.items()} for tool in tools]


def _read_tool(listed: Mapping[str, Any]) -> ListedTool:
    """Read a tool, with MCP's name for the schema or with ours."""
    schema = listed.get("inputSchema", listed.get("input_schema"))
    meta = listed.get("meta")
    action = meta.get(ACTION_KEY) if isinstance(meta, dict) else None
    fields = {"name": listed.get("name"), "description": listed.get("description") or "", "input_schema": schema}
    return ListedTool.model_validate({**fields, "action": action})


def _value(result: Any) -> Any:
    """Return what a tool gave. Public servers give the text of a tool without a declared type only as content."""
    if not isinstance(result, dict) or "data" not in result:
        return result
    content = result.get("content")
    if result["data"] is not None or result.get("structured_content") is not None or not isinstance(content, list):
        return result["data"]
    if not all(isinstance(block, dict) and block.get("type") == "text" for block in content):
        return result
    text = "\n".join(str(block.get("text", "")) for block in content)
    return None if text in ("", "null") else text  # "null" is how our servers write None for models
