"""Handlers of an agent's requests over MCP."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any, TypeVar

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.context import RequestContext
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl, BaseModel, ValidationError
from pydantic_core import from_json, to_json

from openenv._version import __version__
from openenv.core.env_server.execution.progress import progress_listener
from openenv.core.env_server.mcp.agent import Agent, Observed, Served
from openenv.core.env_server.mcp.dialect import blocks, failure, meta
from openenv.core.env_server.mcp.progress import Progress
from openenv.core.env_server.sessions.state import Phase
from openenv.core.env_server.toolbox.toolbox import ERROR_CODES, ToolCallResult
from openenv.core.exceptions import EnvironmentFailedError, EnvironmentTimeoutError, RequestError, ResetNeededError
from openenv.core.wire.answers import state_json
from openenv.core.wire.errors import error_json
from openenv.core.wire.mcp_types import JsonRpcErrorCode, ListedTool, Tool
from openenv.core.wire.redaction import add_traceback, message_of, origin_of

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", bound=BaseModel)

PROMPT = "task"


class _Uri(StrEnum):
    """URIs of the resources."""

    TASK = "openenv://task"
    README = "openenv://readme"
    STATE = "openenv://state"


_NOT_FOUND = -32002  # MCP's own code, for resources
_LONGEST_ECHO = 100
_OVER = "The episode has ended."
_NOT_BEGUN = "No tool can be called yet: the client that opened this session has not begun an episode."


class Requests:
    """Handlers of the requests of one agent.

    Args:
        agent: The agent.
        served: Sessions and settings of the server.

    Attributes:
        server: The SDK's server, to be run on a stream of messages.
    """

    def __init__(self, agent: Agent, served: Served) -> None:
        self._agent = agent
        self._served = served
        self._metrics = served.sessions.metrics
        self.server: Server[Any, Any] = Server(
            served.name, version=__version__, instructions=_instructions(served.name)
        )
        # Without the server's decorators: they check arguments against schemas that all agents share.
        self.server.request_handlers.update(
            {
                types.ListToolsRequest: self._list_tools,
                types.CallToolRequest: self._call_tool,
                types.ListPromptsRequest: self._list_prompts,
                types.GetPromptRequest: self._get_prompt,
                types.ListResourcesRequest: self._list_resources,
                types.ListResourceTemplatesRequest: self._list_templates,
                types.ReadResourceRequest: self._read_resource,
            }
        )

    async def _list_tools(self, _request: types.ListToolsRequest) -> types.ServerResult:
        with self._mcp_errors():
            session = await self._agent.session()
            tools = await session.tools.list()
            return types.ServerResult(_validated(types.ListToolsResult, {"tools": list(map(_tool, tools))}))

    async def _call_tool(self, request: types.CallToolRequest) -> types.ServerResult:
        context = self.server.request_context
        token = None if context.meta is None else context.meta.progressToken
        with self._mcp_errors():
            if token is None:
                return types.ServerResult(await self._called(request))
            async with Progress(_Listener(context, token).send) as progress:
                with progress_listener(progress.report):
                    return types.ServerResult(await self._called(request))

    async def _called(self, request: types.CallToolRequest) -> types.CallToolResult:
        session = await self._agent.session()
        arguments = request.params.arguments or {}
        try:
            answer = await session.tools.call(request.params.name, arguments)
        except ResetNeededError as error:
            self._count(error)
            return _failed(
                _NOT_BEGUN if session.episode.phase is Phase.NEW else f"{_OVER} No tool can be called any more."
            )
        except EnvironmentTimeoutError as error:
            self._count(error)
            return _failed(error.message)
        if answer.error is None:
            return _result(answer)
        self._metrics.errors[ERROR_CODES[answer.error.error_type]] += 1
        return _failed(answer.text)

    async def _list_prompts(self, _request: types.ListPromptsRequest) -> types.ServerResult:
        prompt = types.Prompt(name=PROMPT, description=f"The task of this episode of {self._served.name}.")
        return types.ServerResult(types.ListPromptsResult(prompts=[prompt]))

    async def _get_prompt(self, request: types.GetPromptRequest) -> types.ServerResult:
        if request.params.name != PROMPT:
            raise _error(
                JsonRpcErrorCode.INVALID_PARAMS,
                f"Expected the prompt '{PROMPT}', got {request.params.name[:_LONGEST_ECHO]!r}.",
            )
        with self._mcp_errors():
            task = await self._task()
        blocks = [{"type": "text", "text": task.text}, *task.pictures]
        messages = [{"role": "user", "content": block} for block in blocks]
        return types.ServerResult(_validated(types.GetPromptResult, {"messages": messages}))

    async def _list_resources(self, _request: types.ListResourcesRequest) -> types.ServerResult:
        resources = [_resource(_Uri.TASK, "The task of this episode", "text/plain")]
        with self._mcp_errors():
            readme = await self._served.about.readme()
        if readme is not None:
            resources.append(_resource(_Uri.README, f"What {self._served.name} is", "text/markdown"))
        if self._served.shows_state:
            resources.append(_resource(_Uri.STATE, "Where the episode stands", "application/json"))
        return types.ServerResult(types.ListResourcesResult(resources=resources))

    async def _list_templates(self, _request: types.ListResourceTemplatesRequest) -> types.ServerResult:
        return types.ServerResult(types.ListResourceTemplatesResult(resourceTemplates=[]))

    async def _read_resource(self, request: types.ReadResourceRequest) -> types.ServerResult:
        uri = request.params.uri
        with self._mcp_errors():
            contents = await self._contents(uri)
        if not contents:
            raise _error(_NOT_FOUND, f"There is no resource {str(uri)[:_LONGEST_ECHO]}; list them.")
        return types.ServerResult(types.ReadResourceResult(contents=contents))

    async def _contents(self, uri: AnyUrl) -> list[types.TextResourceContents | types.BlobResourceContents]:
        match str(uri):
            case _Uri.TASK:
                task = await self._task()
                pictures = [_blob(uri, block) for block in task.pictures if block["type"] == "image"]
                return [_text_contents(uri, "text/plain", task.text), *pictures]
            case _Uri.README:
                readme = await self._served.about.readme()
                return [] if readme is None else [_text_contents(uri, "text/markdown", readme)]
            case _Uri.STATE if self._served.shows_state:
                session = await self._agent.session()
                return [_text_contents(uri, "application/json", state_json(await session.state()))]
        return []

    async def _task(self) -> Observed:
        """Return the task for a model: the reset's observation, and the tools."""
        session = await self._agent.session()
        shown = await self._agent.first_observation()
        names = ", ".join(tool.name for tool in await session.tools.list())
        how = f"Act with these tools: {names}." if names else ""
        return Observed(_sendable("\n\n".join(part for part in (shown.text, how) if part)), shown.pictures)

    @contextmanager
    def _mcp_errors(self) -> Iterator[None]:
        """Turn errors of the session or the server into MCP's error."""
        try:
            yield
        except RequestError as error:
            raise self._mcp_error(error) from error
        except Exception as error:  # raised by the author's models; the SDK would send its text without redaction
            logger.exception("the models of an environment raised, in a request of an agent")
            failed = EnvironmentFailedError(message_of(error), origin=origin_of(error))
            raise self._mcp_error(failed, error) from error

    def _mcp_error(self, error: RequestError, raised: Exception | None = None) -> McpError:
        self._count(error)
        if self._served.sessions.debug:
            add_traceback(error, raised)
        message, details = failure(error)
        return _error(JsonRpcErrorCode.SERVER_ERROR, message, details)

    def _count(self, error: RequestError) -> None:
        self._metrics.errors[error.code] += 1


class _Listener:
    """Progress reports to an agent that waits for a tool call."""

    def __init__(self, context: RequestContext[ServerSession, Any, Any], token: str | int) -> None:
        self._session = context.session
        self._token = token
        self._request_id = str(context.request_id)  # the SDK takes a 0 for none

    async def send(self, fraction: float, message: str) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the agent has disconnected
            await self._session.send_progress_notification(
                self._token, fraction, 1.0, _sendable(message) or None, related_request_id=self._request_id
            )


def _instructions(name: str) -> str:
    return (
        f"This is one episode of the environment {name}. Its task is the prompt '{PROMPT}', and the resource "
        f"{_Uri.TASK}. Each call of a tool is a step of the episode; a result says when it has ended."
    )


def _resource(uri: str, description: str, kind: str) -> types.Resource:
    name = uri.rpartition("/")[2]
    return types.Resource(uri=AnyUrl(uri), name=name, description=description, mimeType=kind)


def _text_contents(uri: AnyUrl, kind: str, text: str) -> types.TextResourceContents:
    return types.TextResourceContents(uri=uri, mimeType=kind, text=_sendable(text))


def _blob(uri: AnyUrl, image: Mapping[str, str]) -> types.BlobResourceContents:
    return types.BlobResourceContents(uri=uri, mimeType=image["mimeType"], blob=image["data"])


def _result(answer: ToolCallResult) -> types.CallToolResult:
    structured = answer.structured if isinstance(answer.structured, dict) else None
    content = list(map(_block, blocks(answer)))
    if answer.done and (structured is None or "done" not in structured):
        content.append({"type": "text", "text": _OVER})
    result = {"content": content, "structuredContent": structured, "_meta": meta(answer)}
    try:
        return _validated(types.CallToolResult, result)
    except ValidationError:  # a block that is unknown to MCP
        text = {"type": "text", "text": error_json(content)}
        return _validated(types.CallToolResult, {**result, "content": [text]})


def _failed(text: str) -> types.CallToolResult:
    return _validated(types.CallToolResult, {"content": [{"type": "text", "text": text}], "isError": True})


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block of content in MCP's form on the wire."""
    return {("_meta" if name == "meta" else name): value for name, value in block.items() if value is not None}


def _tool(tool: Tool) -> dict[str, Any]:
    meta = tool.meta if isinstance(tool, ListedTool) else None
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema, "_meta": meta}


def _validated(model: type[ResultT], result: dict[str, Any]) -> ResultT:
    """Return a result that can be sent, whatever values a tool returned."""
    return model.model_validate(_as_json(result))


def _as_json(value: Any) -> Any:
    try:
        return from_json(to_json(value, inf_nan_mode="null"))
    except (ValueError, TypeError):  # such as half a surrogate pair
        return from_json(error_json(value))


def _sendable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _error(code: int, message: str, data: Any = None) -> McpError:
    return McpError(types.ErrorData(code=code, message=_sendable(message), data=_as_json(data)))
