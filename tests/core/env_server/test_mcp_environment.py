"""Environments whose tools are those of a FastMCP server."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from tests.support.servers import RunningServer

import openenv.core.env_server
from openenv import Action, Observation, State, tool
from openenv.core.confinement import can_confine
from openenv.core.env_server import mcp_environment
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.execution.introspection import EnvironmentFactory, environment_method
from openenv.core.env_server.execution.progress import progress_listener
from openenv.core.env_server.mcp_environment import MCPEnvironment, get_server_tools
from openenv.core.env_server.mcp_types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    ToolErrorType,
)
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError
from openenv.core.telemetry import is_on, observed


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """FastMCP logs each tool that raises, in colours."""
    logger = logging.getLogger("fastmcp")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


class Calculator(MCPEnvironment):
    def __init__(self) -> None:
        server: FastMCP[Any] = FastMCP("calculator")

        @server.tool
        def add(a: int, b: int = 2) -> int:
            """Add two ints."""
            return a + b

        @server.tool
        def fail(why: str) -> str:
            raise ValueError(f"nope {why}")

        @server.tool
        async def sleep() -> str:
            await asyncio.sleep(60)
            return "awake"

        @server.tool
        async def report(context: Context) -> str:
            await context.report_progress(1, 4, "a quarter")
            return "reported"

        super().__init__(server)
        self._episode = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Observation:
        self._episode = State(episode_id=episode_id)
        return Observation(metadata={"status": "ready"})

    def _step_impl(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation(metadata={"did": type(action).__name__})

    @property
    def state(self) -> State:
        return self._episode


class Rewarding(Calculator):
    """Overrides ``step`` alone, as existing environments do."""

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        observation = super().step(action, timeout_s, **kwargs)
        observation.reward = 0.25
        return observation


class OwnSteps(Calculator):
    """Lists and calls the tools in a ``step_async`` of its own, by the public class's methods for it."""

    async def step_async(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        if isinstance(action, ListToolsAction):
            return Observation(metadata={"names": [listed.name for listed in await self._async_list_tools()]})
        result = await self._async_call_tool(action.tool_name, action.arguments)
        return CallToolObservation(tool_name=action.tool_name, result=result.data, reward=0.5, done=True)


class Counting(Calculator):
    """Overrides what the public class does with a tool call, and makes one of another action."""

    async def _async_handle_call_tool(self, action: CallToolAction, timeout_s: float | None = None) -> Any:
        observation = await super()._async_handle_call_tool(action, timeout_s=timeout_s)
        return observation.model_copy(update={"reward": 2.0})

    def _step_impl(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        listed = self._handle_list_tools()
        return self._handle_call_tool(CallToolAction(tool_name=listed.tools[0].name, arguments={"a": 4}), timeout_s)


class Replacing(Calculator):
    """Overrides the call itself."""

    async def _async_call_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        if tool_name == "sleep":
            return await super()._async_call_tool(tool_name, arguments)
        return f"{tool_name} of {arguments}"

    async def _async_list_tools(self) -> list[Any]:
        return (await super()._async_list_tools())[:1]


def call(environment: MCPEnvironment, name: str, /, timeout_s: float | None = None, **arguments: Any) -> Any:
    observation = environment.step(CallToolAction(tool_name=name, arguments=arguments), timeout_s=timeout_s)
    assert isinstance(observation, CallToolObservation)
    return observation


def test_tools_are_listed_as_the_server_describes_them() -> None:
    listed = Calculator().step(ListToolsAction())
    assert isinstance(listed, ListToolsObservation)
    assert [described.name for described in listed.tools] == ["add", "fail", "sleep", "report"]
    assert listed.tools[0].description == "Add two ints."
    assert listed.tools[0].input_schema["required"] == ["a"]
    assert list(get_server_tools(FastMCP("empty"))) == []


def test_results_and_errors() -> None:
    environment = Calculator()
    observation = call(environment, "add", a=3)
    assert (observation.result.data, observation.result.content[0].text) == (5, "5")
    assert (observation.reward, observation.done) == (None, False)
    wrong: list[tuple[tuple[str, dict[str, Any]], ToolErrorType, str]] = [
        (("fail", {"why": "x"}), ToolErrorType.EXECUTION_ERROR, "nope x"),
        (("zip", {}), ToolErrorType.TOOL_NOT_FOUND, "Unknown tool"),
        (("add", {"a": "x"}), ToolErrorType.INVALID_ARGS, "valid integer"),
        (("reset", {}), ToolErrorType.TOOL_NOT_FOUND, "Unknown tool"),
        (("x" * 1_000_000, {}), ToolErrorType.TOOL_NOT_FOUND, "Unknown tool"),
    ]
    for (name, arguments), kind, told in wrong:
        failed = call(environment, name, **arguments)
        assert failed.error.error_type is kind
        assert len(failed.model_dump_json()) < 1000
        assert told in failed.error.message


def test_a_tool_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Calculator()
    assert call(environment, "sleep", timeout_s=0.05).error.error_type is ToolErrorType.TIMEOUT
    monkeypatch.setattr(mcp_environment, "MCP_TOOL_CALL_TIMEOUT", 0.05)
    assert call(environment, "sleep").error.error_type is ToolErrorType.TIMEOUT


async def test_within_an_event_loop_too() -> None:
    environment = Calculator()
    assert call(environment, "add", a=1).result.data == 3
    observation = await environment.step_async(CallToolAction(tool_name="add", arguments={"a": 1}))
    assert observation.result.data == 3
    assert (await environment.step_async(Action())).metadata == {"did": "Action"}


async def test_a_tool_has_the_context_variables_of_its_step_within_an_event_loop_too() -> None:
    server: FastMCP[Any] = FastMCP("traced")
    server.tool(is_on)

    class Traced(Calculator):
        def __init__(self) -> None:
            MCPEnvironment.__init__(self, server)

    with observed():
        assert call(Traced(), "is_on").result.data is True
    assert call(Traced(), "is_on").result.data is False


def test_other_actions_go_to_step_impl() -> None:
    assert Calculator().step(Action()).metadata == {"did": "Action"}
    assert environment_types(Calculator).action is CallToolAction


async def test_methods_of_the_public_class_are_there_to_call() -> None:
    app = create_fastapi_app(OwnSteps, CallToolAction, CallToolObservation)
    with RunningServer(app) as server, server.wire() as wire:
        names = wire.step(type="list_tools")["data"]["observation"]["metadata"]["names"]
        assert names == ["add", "fail", "sleep", "report"]
        answer = wire.step(type="call_tool", tool_name="add", arguments={"a": 3})["data"]
        assert (answer["observation"]["result"], answer["reward"], answer["done"]) == (5, 0.5, True)


async def test_methods_of_the_public_class_are_there_to_override() -> None:
    counting, replacing = Counting(), Replacing()
    action = CallToolAction(tool_name="add", arguments={"a": 3})
    for observation in (counting.step(action), await counting.step_async(action)):
        assert (observation.result.data, observation.reward) == (5, 2.0)
    assert (counting.step(Action()).result.data, counting.step(Action()).reward) == (6, 2.0)
    for observation in (replacing.step(action), await replacing.step_async(action)):
        assert observation.result == "add of {'a': 3}"
    assert [listed.name for listed in replacing.step(ListToolsAction()).tools] == ["add"]
    assert call(replacing, "sleep", timeout_s=0.05).error.error_type is ToolErrorType.TIMEOUT


def test_the_step_that_was_overridden_last_is_served() -> None:
    assert environment_method(Calculator, "step").name == "step_async"
    assert environment_method(Rewarding, "step").name == "step"


@pytest.mark.parametrize("environment", [Calculator, Rewarding])
def test_served(environment: Any) -> None:
    app = create_fastapi_app(environment, CallToolAction, CallToolObservation)
    with RunningServer(app) as server, server.wire() as wire:
        assert len(wire.step(type="list_tools")["data"]["observation"]["tools"]) == 4
        wire.reset()
        answer = wire.step(type="call_tool", tool_name="add", arguments={"a": 3})["data"]
        assert answer["observation"]["result"] == {
            "content": [{"type": "text", "text": "5", "annotations": None, "meta": None}],
            "structured_content": {"result": 5},
            "meta": {"fastmcp": {"wrap_result": True}},
            "data": 5,
            "is_error": False,
        }
        assert answer["reward"] == (0.25 if environment is Rewarding else None)


async def test_the_toolbox_unwraps_results_and_hears_of_progress() -> None:
    app = create_fastapi_app(Calculator)
    sessions = app.state.sessions
    session = await sessions.open()
    await session.reset({})
    added = await session.tools.call("add", {"a": 3})
    assert (added.value, added.text, added.content[0]["type"]) == (5, "5", "text")
    told: list[tuple[float, str]] = []
    with progress_listener(lambda *progress: told.append(progress)):
        await session.tools.call("report", {})
    assert told == [(0.25, "a quarter")]
    await sessions.close_all()


def test_reserved_names_are_refused() -> None:
    server: FastMCP[Any] = FastMCP("bad")

    @server.tool
    def reset() -> None: ...

    class Bad(Calculator):
        def __init__(self) -> None:
            MCPEnvironment.__init__(self, server)

    with pytest.raises(ConfigurationError, match="can't be named reset: these names are reserved"):
        Bad()
    assert issubclass(ConfigurationError, ValueError)


def test_a_reserved_name_that_comes_later_is_hidden() -> None:
    environment = Calculator()

    def close() -> None: ...

    assert environment.mcp_server is not None
    environment.mcp_server.tool(close)
    assert "close" not in [described.name for described in environment.step(ListToolsAction()).tools]
    assert call(environment, "close").error.error_type is ToolErrorType.TOOL_NOT_FOUND


class TestToolDecorator:
    def test_without_a_mode_it_registers_on_the_server(self) -> None:
        environment = Calculator()

        @environment.tool()
        def double(n: int) -> int:
            return 2 * n

        assert call(environment, "double", n=2).result.data == 4
        assert double(3) == 6

    def test_with_a_mode_it_is_there_in_that_mode(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for mode in ("simulation", "production"):
            monkeypatch.setenv("OPENENV_MODE", mode)
            environment = Calculator()

            @environment.tool(mode="simulation")
            def look(what: str) -> str:
                """Look."""
                return f"{what} of cardboard"

            @environment.tool(mode="production")  # type: ignore[no-redef]
            async def look(what: str) -> str:  # noqa: F811
                """Look."""
                return f"a real {what}"

            seen = call(environment, "look", what="tree").result
            assert seen == ("tree of cardboard" if mode == "simulation" else "a real tree")
            assert [described.name for described in environment.step(ListToolsAction()).tools].count("look") == 1

    def test_other_modes_and_reserved_names_are_refused(self) -> None:
        environment = Calculator()
        with pytest.raises(ConfigurationError, match="Expected simulation, production or None as a tool's mode"):
            environment.tool(mode="test")

        def step() -> None: ...

        with pytest.raises(ConfigurationError, match="No tool can be named 'step'"):
            environment.tool()(step)


def test_a_second_kind_of_tools_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="register them there, or derive from Environment"):

        class _Both(Calculator):
            @tool
            def look(self) -> None: ...


class TestCode:
    def test_tools_as_functions(self) -> None:
        functions = Calculator().get_callables()
        assert functions["add"](a=1, b=4) == 5
        with pytest.raises(RuntimeError, match="nope x"):
            functions["fail"](why="x")

    @pytest.mark.level("process")
    @pytest.mark.skipif(not can_confine(), reason="this machine has no Landlock: a newer kernel brings it")
    def test_a_program_without_a_server_has_a_confined_process_that_calls_the_tools_here(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOME_API_KEY", "not for the code")
        environment = Calculator()
        assert environment.supports_code_mode
        assert environment.execute_code("result = add(a=1) * 2").metadata == {"result": 6}
        assert environment.execute_code("fail(why='y')").metadata["error"].endswith("nope y")
        assert environment.execute_code("1 /").metadata["error"].startswith("Invalid syntax: ")
        own = "import os; result = os.getpid(), 'SOME_API_KEY' in os.environ"
        pid, has_secret = environment.execute_code(own).metadata["result"]
        assert (pid != os.getpid(), has_secret) == (True, False)

    def test_code_does_not_run_in_the_server_unless_that_is_asked_for(self) -> None:
        environment = EnvironmentFactory(Calculator).make()
        assert not environment.supports_code_mode
        with pytest.raises(ConfigurationError, match="in this process, which is not confined, with all its rights"):
            environment.execute_code("result = 1")

    def test_nor_in_a_program_where_no_process_can_be_confined(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("openenv.core.env_server.mcp_environment.can_confine", lambda: False)
        with pytest.raises(ConfigurationError, match="confines it where the machine has Linux's Landlock"):
            Calculator().execute_code("result = 1")

    def test_where_the_machine_is_the_sandbox(self) -> None:
        class Sandboxed(Calculator):
            CODE_SANDBOX = "none"

        environment = Sandboxed()
        assert environment.supports_code_mode
        assert environment.execute_code("result = add(a=1) * 2").metadata == {"result": 6}
        assert environment.execute_code("1 / 0").metadata == {"error": "division by zero"}
        assert environment.execute_code("1 /").metadata["error"].startswith("Invalid syntax: ")


def test_a_closed_environment_has_no_tools() -> None:
    environment = Calculator()
    environment.close()
    assert call(environment, "add", a=1).error.message == "The environment is closed, and its tools with it."
    listed = environment.step(ListToolsAction())
    assert (listed.tools, listed.metadata["error_type"]) == ([], "list_tools_failed")


def test_without_fastmcp_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert openenv.core.env_server.MCPEnvironment is MCPEnvironment
    monkeypatch.setitem(sys.modules, "fastmcp", None)
    assert openenv.core.env_server.MCPEnvironment is None
