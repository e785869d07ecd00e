"""One process of an MCP server, and the connection to it over its standard input and output."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.shared.session import ProgressFnT
from pydantic import BaseModel, ValidationError

from openenv._version import __version__
from openenv.core.exceptions import EnvironmentFailedError, EnvironmentProcessEndedError

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT", bound=BaseModel)

# A list of tools comes in pages, of which a server could send any number.
_MAX_PAGES = 100
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class ServerProcess:
    """A running MCP server. All calls are for the event loop that it was started in."""

    def __init__(self, command: Sequence[str], variables: Iterable[str]) -> None:
        self._parameters = StdioServerParameters(
            command=command[0],
            args=list(command[1:]),
            env={name: os.environ[name] for name in variables if name in os.environ},
            encoding_error_handler="replace",
        )
        self._ready: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._ending = asyncio.Event()
        self._opened = False
        # The SDK's connection has to be opened and closed by one task, whichever tasks call start() and end().
        self._life = asyncio.create_task(self._live(), name="mcp-server")
        self._life.add_done_callback(_note_end)

    @classmethod
    async def start(cls, command: Sequence[str], variables: Iterable[str], timeout_s: float) -> Self:
        """Start a server and shake hands with it.

        Raises:
            EnvironmentFailedError: It can't be started, ends at once, gives no answer in time, or speaks another
                protocol.
        """
        process = cls(command, variables)
        try:
            beginning: set[asyncio.Future[Any]] = {process._ready, process._life}
            await asyncio.wait(beginning, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            process._give_up()
            raise
        if process._ready.done():
            return process
        why = (
            process._why_it_ended()
            if process._life.done()
            else f"it did not answer the handshake within {timeout_s:g} s"
        )
        process._give_up()
        await asyncio.wait({process._life})
        raise EnvironmentFailedError(f"The MCP server could not be started: {why}.")

    @property
    def alive(self) -> bool:
        """Return whether it runs, as far as is known."""
        return not (self._life.done() or self._ending.is_set())

    async def tools(self, timeout_s: float) -> list[types.Tool]:
        """List its tools.

        Raises:
            EnvironmentFailedError: It can't list them; ``EnvironmentProcessEndedError`` where it has ended.
        """
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor)
            request = types.ClientRequest(types.ListToolsRequest(params=params))
            try:
                page = await self._request(request, types.ListToolsResult, timeout_s)
            except McpError as error:
                raise EnvironmentFailedError(f"The MCP server can't list its tools: {error}") from error
            tools += page.tools
            cursor = page.nextCursor
            if cursor is None:
                return tools
        raise EnvironmentFailedError(f"The MCP server's list of tools does not end after {_MAX_PAGES} pages.")

    async def call(
        self, name: str, arguments: dict[str, Any], timeout_s: float, on_progress: ProgressFnT
    ) -> types.CallToolResult:
        """Call a tool.

        Raises:
            McpError: The server refuses the call, or did not answer in time.
            EnvironmentProcessEndedError: It has ended.
            EnvironmentFailedError: Its answer is none.
        """
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.ClientRequest(types.CallToolRequest(params=params))
        return await self._request(request, types.CallToolResult, timeout_s, on_progress)

    async def end(self) -> None:
        """End it: close its input, and kill it where it does not end by itself soon."""
        self._ending.set()
        await asyncio.wait({self._life})

    async def _live(self) -> None:
        info = types.Implementation(name="openenv", version=__version__)
        async with (
            # Not sys.stderr, which a program may have replaced by what is no file.
            stdio_client(self._parameters, errlog=sys.__stderr__ or sys.stderr) as (reads, writes),
            ClientSession(reads, writes, client_info=info) as session,
        ):
            self._opened = True
            if not self._ending.is_set():
                await session.initialize()
                self._ready.set_result(session)
                await self._ending.wait()

    def _give_up(self) -> None:
        """End it before the handshake is complete; but not while the SDK starts it, whose process would stay."""
        self._ending.set()
        if self._opened:
            self._life.cancel()

    async def _request(
        self,
        request: types.ClientRequest,
        result: type[ResultT],
        timeout_s: float,
        on_progress: ProgressFnT | None = None,
    ) -> ResultT:
        session, timeout = self._ready.result(), timedelta(seconds=timeout_s)
        request_task = asyncio.create_task(
            session.send_request(request, result, timeout, progress_callback=on_progress)
        )
        try:
            # The SDK does not end every wait for an answer when a server ends.
            await asyncio.wait({request_task, self._life}, return_when=asyncio.FIRST_COMPLETED)
            if request_task.done():
                return request_task.result()
        except _GONE as error:
            raise self._ended(may_have_happened=False) from error
        except McpError as error:
            if error.error.code != types.CONNECTION_CLOSED:
                raise
            raise self._ended() from error
        except ValidationError as error:
            raise EnvironmentFailedError(f"The MCP server's answer is none: {error}") from error
        finally:
            request_task.cancel()
        raise self._ended()

    def _ended(self, *, may_have_happened: bool = True) -> EnvironmentProcessEndedError:
        self._ending.set()
        logger.warning("an MCP server has ended by itself")
        return EnvironmentProcessEndedError("step", "has ended", may_have_happened=may_have_happened)

    def _why_it_ended(self) -> str:
        error = None if self._life.cancelled() else self._life.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if error is None or isinstance(error, (McpError, ConnectionError, *_GONE)):
            return "it has ended at once"
        if isinstance(error, OSError):  # its own text has the whole path, which is not for clients
            return f"{Path(self._parameters.command).name}: {error.strerror or type(error).__name__}"
        return str(error)


def _note_end(life: "asyncio.Task[None]") -> None:
    error = None if life.cancelled() else life.exception()
    if error is not None:
        logger.debug("an MCP server's connection ended: %r", error)
