"""What an agent may ask for over MCP, and the answers."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.context import RequestContext
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl, BaseModel, ValidationError
from pydantic_core import from_json, to_json

import openenv
from openenv.core.env_server.disclosure import add_traceback, message_of, origin_of
from openenv.core.env_server.json_rpc import blocks, failure, meta
from openenv.core.env_server.mcp.agent import Agent, Served
from openenv.core.env_server.mcp.progress import Progress
from openenv.core.env_server.mcp_types import JsonRpcErrorCode, Tool
from openenv.core.env_server.protocol import error_json, state_json
from openenv.core.env_server.session import Phase
from openenv.core.env_server.toolbox import ProgressListener, ToolAnswer
from openenv.core.exceptions import EnvironmentFailedError, EnvironmentTimeoutError, RequestError, ResetNeededError

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", bound=BaseModel)

TASK = "openenv://task"
README = "openenv://readme"
STATE = "openenv://state"
PROMPT = "task"

_NOT_FOUND = -32002  # MCP's own code, for resources
_LONGEST_ECHO = 100
_OVER = "The episode has ended."
_NOT_BEGUN = "No tool can be called yet: whoever opened this session has not begun an episode."


class Requests:
    """Answers the requests of one agent.

    Args:
        agent: The agent.
        served: What it shares with others.

    Attributes:
        server: The protocol's side, to be run on a stream of messages.
    """

    def __init__(self, agent: Agent, served: Served) -> None:
        self._agent = agent
        self._served = served
        self._metrics = served.sessions.metrics
        self.server: Server[Any, Any] = Server(
            served.name, version=openenv.__version__, instructions=_instructions(served.name)
        )
        # Not through the server's decorators: they check arguments against schemas that they keep for all agents.
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
        with self._telling():
            session = await self._agent.session()
            tools = await session.toolbox.tools(session)
            return types.ServerResult(_validated(types.ListToolsResult, {"tools": list(map(_tool, tools))}))

    async def _call_tool(self, request: types.CallToolRequest) -> types.ServerResult:
        context = self.server.request_context
        token = None if context.meta is None else context.meta.progressToken
        with self._telling():
            if token is None:
                return types.ServerResult(await self._called(request))
            async with Progress(_Listener(context, token).send) as progress:
                return types.ServerResult(await self._called(request, progress.report))

    async def _called(
        self, request: types.CallToolRequest, on_progress: ProgressListener | None = None
    ) -> types.CallToolResult:
        session = await self._agent.session()
        arguments = request.params.arguments or {}
        try:
            answer = await session.toolbox.call(session, request.params.name, arguments, on_progress=on_progress)
        except ResetNeededError:
            return _failed(_NOT_BEGUN if session.phase is Phase.NEW else f"{_OVER} No tool can be called any more.")
        except EnvironmentTimeoutError as error:
            self._count(error)
            return _failed(error.message)
        return _failed(answer.text) if answer.error is not None else _result(answer)

    async def _list_prompts(self, _request: types.ListPromptsRequest) -> types.ServerResult:
        prompt = types.Prompt(name=PROMPT, description=f"The task of this episode of {self._served.name}.")
        return types.ServerResult(types.ListPromptsResult(prompts=[prompt]))

    async def _get_prompt(self, request: types.GetPromptRequest) -> types.ServerResult:
        if request.params.name != PROMPT:
            raise _error(
                JsonRpcErrorCode.INVALID_PARAMS,
                f"Expected the prompt '{PROMPT}', got {request.params.name[:_LONGEST_ECHO]!r}.",
            )
        with self._telling():
            text = types.TextContent(type="text", text=await self._task())
        message = types.PromptMessage(role="user", content=text)
        return types.ServerResult(types.GetPromptResult(messages=[message]))

    async def _list_resources(self, _request: types.ListResourcesRequest) -> types.ServerResult:
        resources = [_resource(TASK, "The task of this episode", "text/plain")]
        with self._telling():
            readme = await self._served.readme.text()
        if readme is not None:
            resources.append(_resource(README, f"What {self._served.name} is", "text/markdown"))
        if self._served.shows_state:
            resources.append(_resource(STATE, "Where the episode stands", "application/json"))
        return types.ServerResult(types.ListResourcesResult(resources=resources))

    async def _list_templates(self, _request: types.ListResourceTemplatesRequest) -> types.ServerResult:
        return types.ServerResult(types.ListResourceTemplatesResult(resourceTemplates=[]))

    async def _read_resource(self, request: types.ReadResourceRequest) -> types.ServerResult:
        uri = str(request.params.uri)
        with self._telling():
            kind, text = await self._resource_text(uri)
        if text is None:
            raise _error(_NOT_FOUND, f"There is no resource {uri[:_LONGEST_ECHO]}; list them.")
        contents = types.TextResourceContents(uri=request.params.uri, mimeType=kind, text=_sendable(text))
        return types.ServerResult(types.ReadResourceResult(contents=[contents]))

    async def _resource_text(self, uri: str) -> tuple[str, str | None]:
        if uri == TASK:
            return "text/plain", await self._task()
        if uri == README:
            return "text/markdown", await self._served.readme.text()
        if uri == STATE and self._served.shows_state:
            session = await self._agent.session()
            return "application/json", state_json(await session.state())
        return "", None

    async def _task(self) -> str:
        """Write the task for a model: what the reset showed, and the tools to act with."""
        session = await self._agent.session()
        shown = await self._agent.first_observation()
        names = ", ".join(tool.name for tool in await session.toolbox.tools(session))
        how = f"Act with these tools: {names}." if names else ""
        return _sendable("\n\n".join(part for part in (shown, how) if part))

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Turn what the session or the server could not do into MCP's error."""
        try:
            yield
        except RequestError as error:
            raise self._told(error) from error
        except Exception as error:  # of the author's models; the SDK would send its text as it is
            logger.exception("the models of an environment raised, in a request of an agent")
            failed = EnvironmentFailedError(message_of(error), origin=origin_of(error))
            raise self._told(failed, error) from error

    def _told(self, error: RequestError, raised: Exception | None = None) -> McpError:
        self._count(error)
        if self._served.sessions.debug:
            add_traceback(error, raised)
        message, details = failure(error)
        return _error(JsonRpcErrorCode.SERVER_ERROR, message, details)

    def _count(self, error: RequestError) -> None:
        self._metrics.errors[error.code] += 1


class _Listener:
    """The agent, as far as it waits for a tool call and wants to know how far that is."""

    def __init__(self, context: RequestContext[ServerSession, Any, Any], token: str | int) -> None:
        self._session = context.session
        self._token = token
        self._request_id = str(context.request_id)  # the SDK takes a 0 for none

    async def send(self, fraction: float, message: str) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # it has gone
            await self._session.send_progress_notification(
                self._token, fraction, 1.0, _sendable(message) or None, related_request_id=self._request_id
            )


def _instructions(name: str) -> str:
    return (
        f"This is one episode of the environment {name}. Its task is the prompt '{PROMPT}', and the resource {TASK}. "
        "Each call of a tool is a step of the episode; a result says when it has ended."
    )


def _resource(uri: str, description: str, kind: str) -> types.Resource:
    name = uri.rpartition("/")[2]
    return types.Resource(uri=AnyUrl(uri), name=name, description=description, mimeType=kind)


def _result(answer: ToolAnswer) -> types.CallToolResult:
    structured = answer.value if isinstance(answer.value, dict) else None
    content = list(map(_block, blocks(answer)))
    if answer.done and (structured is None or "done" not in structured):
        content.append({"type": "text", "text": _OVER})
    result = {"content": content, "structuredContent": structured, "_meta": meta(answer)}
    try:
        return _validated(types.CallToolResult, result)
    except ValidationError:  # blocks that MCP does not have
        text = {"type": "text", "text": error_json(content)}
        return _validated(types.CallToolResult, {**result, "content": [text]})


def _failed(text: str) -> types.CallToolResult:
    return _validated(types.CallToolResult, {"content": [{"type": "text", "text": text}], "isError": True})


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    """Write a block of content as MCP has it on the wire."""
    return {("_meta" if name == "meta" else name): value for name, value in block.items() if value is not None}


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}


def _validated(model: type[ResultT], result: dict[str, Any]) -> ResultT:
    """Make a result that can be sent, whatever a tool has put in it."""
    return model.model_validate(_as_json(result))


def _as_json(value: Any) -> Any:
    try:
        return from_json(to_json(value, inf_nan_mode="null"))
    except (ValueError, TypeError):  # half a surrogate pair, for one
        return from_json(error_json(value))


def _sendable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _error(code: int, message: str, data: Any = None) -> McpError:
    return McpError(types.ErrorData(code=code, message=_sendable(message), data=_as_json(data)))
