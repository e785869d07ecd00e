"""Environments whose tools are those of a ``FastMCP`` server, for code written for the public package."""

import asyncio
import logging
import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from inspect import isawaitable
from typing import Any, ClassVar, TypeVar

from mcp import McpError

from openenv._extras import install_command
from openenv.core.confinement import MISSING, can_confine, is_confined
from openenv.core.confinement.execution import run_code, run_confined
from openenv.core.env_server.interfaces import Environment, Transform
from openenv.core.env_server.tools import MethodTool, call_tool, class_tools
from openenv.core.exceptions import ConfigurationError
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
from openenv.core.wire.redaction import redact
from openenv.core.wire.types import Action as Action
from openenv.core.wire.types import Observation, ServerMode, State

try:
    from fastmcp import Client, FastMCP
    from fastmcp.exceptions import FastMCPError
except ImportError as error:
    raise ImportError(f"This needs FastMCP: {install_command('fastmcp')}") from error

logger = logging.getLogger(__name__)

T = TypeVar("T")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

MCP_TOOL_CALL_TIMEOUT = 30.0
"""Default timeout of a tool, in seconds, for a step without a timeout."""

VALID_MODES = frozenset(mode.value for mode in ServerMode)
"""Modes that a tool can be limited to."""

_UNCONFINED = (
    "execute_code would run a model's code in this process, which is not confined, with all its rights. A program "
    "without a server confines it where the machine has {missing}. A server that is open to its own machine alone (on "
    "127.0.0.1, without OPENENV_TOKEN) confines each session of {name}, if it is served as a class, or by a function "
    "that is annotated to return it; the server's log says why it did not. Or run the code in a sandbox that you have, "
    "with get_callables() at its border; or, on a machine that is itself the sandbox, as a container is, set "
    '{name}.CODE_SANDBOX = "none".'
)
_TIMED_OUT = 408  # code of the timeout error of MCP's client library


def get_server_tools(mcp_server: "FastMCP[Any]") -> dict[str, Any]:
    """Return the tools of a ``FastMCP`` server by name.

    Args:
        mcp_server: The server.
    """
    return {tool.name: tool for tool in _run(mcp_server.list_tools())}


class MCPEnvironment(Environment[CallToolAction, CallToolObservation, State]):
    """Environment with the tools of a ``FastMCP`` server. New environments use ``@tool`` instead.

    ``step`` lists and calls the tools; any other action goes to ``_step_impl``. A tool's result is the ``result`` of a
    ``CallToolObservation``, without a reward; a subclass that overrides ``step`` can add a reward.

    Args:
        mcp_server: The server.
        transform: See ``Environment``.

    Attributes:
        mcp_server: The server; ``None`` once the environment is closed.
        mcp_client: A client of the server; ``None`` once the environment is closed.

    Raises:
        ConfigurationError: A tool has a reserved name.

    Example::

        class Calculator(MCPEnvironment):
            def __init__(self):
                server = FastMCP("calculator")

                @server.tool
                def add(a: int, b: int) -> int:
                    return a + b

                super().__init__(server)
    """

    OFFERS_TOOLS: ClassVar[bool] = True

    CODE_SANDBOX: ClassVar[str | None] = None
    """Where ``execute_code`` runs code. By default, in a confined process: in a program without a server, one for each
    call; on a server, the session's own, which it starts for classes whose methods call it; ``"process"`` says so for a
    class that calls it elsewhere. ``"none"`` is in any process, with all its rights: only for a machine that is itself
    the sandbox."""

    is_served: bool = False
    """True on the instances of servers, which decide where code runs; ``EnvironmentFactory`` sets it."""

    def __init__(self, mcp_server: "FastMCP[Any]", transform: Transform[Any] | None = None) -> None:
        super().__init__(transform)
        reserved = sorted(RESERVED_TOOL_NAMES & get_server_tools(mcp_server).keys())
        if reserved:
            raise ConfigurationError(
                f"The tools of {type(self).__name__} can't be named {', '.join(reserved)}: these names are reserved "
                "for what trainers do. Register them under other names."
            )
        self.mcp_server: FastMCP[Any] | None = mcp_server
        self.mcp_client: Client[Any] | None = Client(mcp_server)
        self._mode = os.environ.get("OPENENV_MODE", ServerMode.SIMULATION).lower()
        self._tools_by_mode: dict[str, dict[str, tuple[MethodTool, Callable[..., Any]]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Reject a class that has tools of its own.

        Raises:
            ConfigurationError: The class has tools marked with ``@tool``.
        """
        super().__init_subclass__(**kwargs)
        if class_tools(cls) or cls.task_tools is not Environment.task_tools:
            raise ConfigurationError(
                f"{cls.__name__} is an MCPEnvironment, whose tools are those of its FastMCP server: register them "
                "there, or derive from Environment to use @tool and task_tools."
            )

    @abstractmethod
    def _step_impl(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Execute an action that neither lists nor calls tools.

        Args:
            action: The action.
            timeout_s: The caller's time limit in seconds.
            **kwargs: Further values that the caller sends over HTTP.
        """

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """List tools, call one, or execute another action."""
        if isinstance(action, ListToolsAction):
            return self._handle_list_tools()
        if isinstance(action, CallToolAction):
            return self._handle_call_tool(action, timeout_s)
        return self._step_impl(action, timeout_s=timeout_s, **kwargs)

    async def step_async(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """As ``step``, on the event loop; other actions run in a thread."""
        if isinstance(action, ListToolsAction):
            return await self._async_handle_list_tools()
        if isinstance(action, CallToolAction):
            return await self._async_handle_call_tool(action, timeout_s)
        result = await asyncio.to_thread(self._step_impl, action, timeout_s=timeout_s, **kwargs)
        return await _resolved(result)

    def tool(self, mode: str | None = None) -> Callable[[FunctionT], FunctionT]:
        """Register a function as a tool.

        Args:
            mode: ``"simulation"`` or ``"production"`` for a tool of this mode (``OPENENV_MODE``) only; a tool of the
                other mode may have the same name.

        Raises:
            ConfigurationError: The mode is unknown; raised by the decorator, the name is reserved.
        """
        if mode is not None and mode not in VALID_MODES:
            raise ConfigurationError(f"Expected simulation, production or None as a tool's mode, got {mode!r}.")

        def register(function: FunctionT) -> FunctionT:
            authored = MethodTool(function, is_method=False)
            if mode is None:
                self._server.tool(function)
            else:
                self._tools_by_mode.setdefault(mode, {})[authored.name] = (authored, function)
            return function

        return register

    @asynccontextmanager
    async def mcp_session(self) -> "AsyncIterator[Client[Any]]":
        """Connect to the server for the time of a block.

        Raises:
            RuntimeError: The environment is closed.
        """
        if self.mcp_client is None:
            raise RuntimeError("The environment is closed, and its tools with it.")
        # A client of its own: a tool that runs code calls tools in turn, perhaps on another event loop.
        async with self.mcp_client.new() as client:
            yield client

    @property
    def supports_code_mode(self) -> bool:
        """Whether ``execute_code`` runs code."""
        return self.CODE_SANDBOX == "none" or is_confined() or (not self.is_served and can_confine())

    def get_callables(self) -> dict[str, Callable[..., Any]]:
        """Return the tools as functions by name; each takes keyword arguments and returns the tool's value."""
        tools = self._handle_list_tools().tools
        return {tool.name: _Callable(self, tool.name) for tool in tools}

    def execute_code(self, code: str) -> Observation:
        """Run Python code that can call the tools as functions.

        Args:
            code: The code. Its variable ``result`` becomes the metadata's ``result``, an exception the ``error``.

        Raises:
            ConfigurationError: No confined process can be had, and ``CODE_SANDBOX`` is not ``"none"``.
        """
        if not self.supports_code_mode:
            raise ConfigurationError(_UNCONFINED.format(name=type(self).__name__, missing=MISSING))
        functions = self.get_callables()
        runs_here = self.CODE_SANDBOX == "none" or is_confined()
        outcome = run_code(code, dict(functions)) if runs_here else run_confined(code, functions)
        if "error" in outcome:
            outcome = {"error": redact(outcome["error"])}
        return Observation(metadata=outcome)

    def close(self) -> None:
        """Release the server."""
        self.mcp_client = self.mcp_server = None

    @property
    def _server(self) -> "FastMCP[Any]":
        assert self.mcp_server is not None
        return self.mcp_server

    def _mode_tools(self) -> dict[str, tuple[MethodTool, Callable[..., Any]]]:
        return self._tools_by_mode.get(self._mode, {})

    # Environments that were written for the public package call and override the following six methods.

    def _handle_list_tools(self) -> ListToolsObservation:
        return _run(self._async_handle_list_tools())

    def _handle_call_tool(self, action: CallToolAction, timeout_s: float | None = None) -> CallToolObservation:
        return _run(self._async_handle_call_tool(action, timeout_s))

    async def _async_list_tools(self) -> list[Any]:
        async with self.mcp_session() as client:
            return await client.list_tools()

    async def _async_call_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        async with self.mcp_session() as client:
            return await client.call_tool(tool_name, arguments, progress_handler=self._pass_on_progress)

    async def _async_handle_list_tools(self) -> ListToolsObservation:
        own = [authored.described for authored, _ in self._mode_tools().values()]
        hidden = RESERVED_TOOL_NAMES.union(self._mode_tools())
        try:
            listed = await self._async_list_tools()
        except (FastMCPError, McpError, RuntimeError) as error:
            failure = {"error": redact(str(error)), "error_type": "list_tools_failed"}
            return ListToolsObservation(tools=[], metadata=failure)
        tools = [
            Tool(name=one.name, description=one.description or "", input_schema=one.inputSchema)
            for one in listed
            if one.name not in hidden
        ]
        return ListToolsObservation(tools=tools + own)

    async def _async_handle_call_tool(
        self, action: CallToolAction, timeout_s: float | None = None
    ) -> CallToolObservation:
        name = action.tool_name
        if name in self._mode_tools():
            observed: CallToolObservation = await _resolved(call_tool(*self._mode_tools()[name], action))
            return observed
        if name in RESERVED_TOOL_NAMES or len(name) > LONGEST_TOOL_NAME:  # the former registered after the check
            return _failed(name[:LONGEST_TOOL_NAME], ToolErrorType.TOOL_NOT_FOUND, f"Unknown tool: {name!r:.200}")
        seconds = MCP_TOOL_CALL_TIMEOUT if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(seconds):
                result = await self._async_call_tool(name, action.arguments)
        except TimeoutError:
            return _failed(name, ToolErrorType.TIMEOUT, f"The tool had not answered after {seconds:g} s.")
        except (FastMCPError, McpError, RuntimeError) as error:
            return _failed(name, _kind_of(error), redact(str(error)))
        return CallToolObservation(tool_name=name, result=result)

    async def _pass_on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        if total:
            self.report_progress(progress / total, message or "")


class _Callable:
    """Function that calls one tool."""

    def __init__(self, environment: MCPEnvironment, name: str) -> None:
        self._environment = environment
        self.__name__ = name

    def __call__(self, **arguments: Any) -> Any:
        action = CallToolAction(tool_name=self.__name__, arguments=arguments)
        observation = self._environment.step(action)
        if observation.error is not None:
            raise RuntimeError(observation.error.message)
        return getattr(observation.result, "data", observation.result)


def _failed(name: str, kind: ToolErrorType, message: str) -> CallToolObservation:
    return CallToolObservation(tool_name=name, error=ToolError(error_type=kind, message=message))


def _kind_of(error: Exception) -> ToolErrorType:
    text = str(error)
    if isinstance(error, McpError) and error.error.code == _TIMED_OUT:
        return ToolErrorType.TIMEOUT
    if text.startswith("Unknown tool"):
        return ToolErrorType.TOOL_NOT_FOUND
    if "validation error for call[" in text:
        return ToolErrorType.INVALID_ARGS
    return ToolErrorType.EXECUTION_ERROR


async def _resolved(result: Any) -> Any:
    return await result if isawaitable(result) else result


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in this thread or, if it already runs an event loop, in another one."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, asyncio.run, work).result()
