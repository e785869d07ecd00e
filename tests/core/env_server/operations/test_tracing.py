"""Spans of what a server does, through the SDK's own exporters."""

import asyncio
import json
import os
import subprocess
import sys
from contextvars import ContextVar
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    AsyncCounterEnvironment,
    CounterEnvironment,
    Do,
    Shown,
    ThreadedCounterEnvironment,
    Total,
)
from tests.support.environments.isolated import AsyncTracedIsolated, InlineTracedIsolated, TracedIsolated
from tests.support.mcp_agents import agent
from tests.support.models.model_server import ScriptedModel
from tests.support.servers import PROGRAMS, RunningServer, V1Wire
from tests.support.spans import attributes, named, span_exporter

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.execution.executors import ThreadExecutor
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.tools import tool
from openenv.core.env_server.types import Observation
from openenv.core.exceptions import ConfigurationError
from openenv.core.llm_client import OpenAIClient
from openenv.core.telemetry import is_on, observed

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


@pytest.fixture
def spans() -> InMemorySpanExporter:
    span_exporter().clear()  # of what earlier servers ended with
    return span_exporter()


@pytest.mark.parametrize("environment", [CounterEnvironment, ThreadedCounterEnvironment, AsyncCounterEnvironment])
def test_a_session_s_life_on_v1(serve: Serve, spans: InMemorySpanExporter, environment: type) -> None:
    server = serve(environment, env_name="counting", telemetry=True)
    with server.v1() as wire:
        name = wire.open()
        wire.do("reset", name)
        wire.do("step", name, amount=2)
        wire.do("close", name)
    (opened,), (reset,) = named(spans, "openenv.open"), named(spans, "openenv.reset")
    (step,), (closed,) = named(spans, "openenv.step"), named(spans, "openenv.close")
    common = {"openenv.environment": "counting", "openenv.session": name[:13]}
    assert attributes(opened) == {**common, "openenv.transport": "v1"}
    assert attributes(reset) == {**common, "openenv.done": False}
    assert attributes(step) == {**common, "openenv.done": False, "openenv.reward": 2}
    assert attributes(closed) == {**common, "openenv.ending": "closed", "openenv.episodes": 1, "openenv.steps": 1}
    assert all(span.status.status_code is not StatusCode.ERROR for span in (opened, reset, step, closed))


def test_the_name_of_a_token(serve: Serve, spans: InMemorySpanExporter, tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    file.write_text('[trainer]\ntoken = "of-the-trainer"\nrole = "play"\n')
    with serve(telemetry=True, tokens=file).v1({"Authorization": "Bearer of-the-trainer"}) as wire:
        wire.open()
    (opened,) = named(spans, "openenv.open")
    assert attributes(opened)["openenv.token"] == "trainer"


def test_a_failed_step_tells_its_code_and_nothing_of_what_was_raised(serve: Serve, spans: InMemorySpanExporter) -> None:
    with serve(telemetry=True).v1() as wire:
        name = wire.open()
        wire.do("reset", name)
        wire.do("step", name, amount=0)
    (step,) = named(spans, "openenv.step")
    assert attributes(step)["openenv.error.code"] == attributes(step)["error.type"] == "EXECUTION_ERROR"
    assert (step.status.status_code, step.status.description) == (StatusCode.ERROR, "EXECUTION_ERROR")
    assert not step.events
    assert "kaboom" not in step.to_json()


def test_a_tool_call_is_a_span_of_the_conventions_for_genai(serve: Serve, spans: InMemorySpanExporter) -> None:
    async def play(url: str) -> None:
        async with agent(f"{url}/mcp") as session:
            await session.call_tool("add", {"amount": 2})

    asyncio.run(play(serve(telemetry=True).url))
    (called,) = named(spans, "execute_tool add")
    found = attributes(called)
    assert {name: value for name, value in found.items() if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
    }
    assert (found["openenv.reward"], found["openenv.done"]) == (2, False)


def test_an_action_that_names_a_tool_is_a_tool_call(spans: InMemorySpanExporter) -> None:
    app = create_fastapi_app(Clock, telemetry=True)
    with RunningServer(app) as server, server.v1() as wire:
        session = wire.open()
        wire.do("reset", session, episode_id="e1")
        wire.do("step", session, type="call_tool", tool_name="wind", arguments={"turns": 2})
    (called,) = named(spans, "execute_tool wind")
    assert attributes(called)["gen_ai.conversation.id"] == "e1"
    assert attributes(named(spans, "openenv.reset")[0])["gen_ai.conversation.id"] == "e1"


class Clock(Environment):
    """A clock that agents wind up."""

    def reset(self) -> Observation:
        return Observation()

    @tool
    def wind(self, turns: int) -> str:
        """Wind the clock up."""
        return f"{turns} turns"


@pytest.mark.parametrize("environment", [AsyncCounterEnvironment, ThreadedCounterEnvironment])
@pytest.mark.parametrize("call", ["reset", "step", "close"])
def test_a_judge_is_asked_below_the_call(
    serve: Serve, spans: InMemorySpanExporter, environment: Any, call: str
) -> None:
    model = ScriptedModel(lambda messages: "good")
    with model.server:
        address, _, port = model.server.url.rpartition(":")
        judge = OpenAIClient(address, int(port), "climber")

        class Judged(environment):  # type: ignore[misc]
            """Asks the judge in one of its calls, plain or not."""

        async def judged(self: Any, *args: Any, **kwargs: Any) -> Any:
            assert await judge.complete("How is it?") == "good"
            return await getattr(environment, call)(self, *args, **kwargs)

        def plainly_judged(self: Any, *args: Any, **kwargs: Any) -> Any:
            assert asyncio.run(judge.complete("How is it?")) == "good"
            return getattr(environment, call)(self, *args, **kwargs)

        is_async = iscoroutinefunction(getattr(environment, call))
        setattr(Judged, call, judged if is_async else plainly_judged)
        with serve(Judged, telemetry=True).v1() as wire:
            session = wire.open()
            wire.do("reset", session)
            wire.do("step", session, amount=1)
            wire.do("close", session)
    (called,), (asked,) = named(spans, f"openenv.{call}"), named(spans, "chat climber")
    assert asked.parent is not None
    assert called.context is not None
    assert asked.parent.span_id == called.context.span_id


@pytest.mark.level("process")
@pytest.mark.parametrize("environment", [TracedIsolated, InlineTracedIsolated, AsyncTracedIsolated])
def test_spans_of_a_process_of_an_environment_s_own_are_below_the_step(
    spans: InMemorySpanExporter, environment: type
) -> None:
    app = create_fastapi_app(environment, Do, Shown, telemetry=True, isolation="process")
    with RunningServer(app) as server, server.v1() as wire:
        session = wire.open()
        wire.do("reset", session)
        seen = wire.do("step", session, what="look")["data"]["observation"]["value"]
    (step,) = named(spans, "openenv.step")
    assert step.context is not None
    assert seen == [True, f"{step.context.trace_id:032x}", f"{step.context.span_id:016x}"]


async def test_variables_that_an_environment_sets_in_its_thread_stay_there(spans: InMemorySpanExporter) -> None:
    executor, own = ThreadExecutor("test"), ContextVar("own", default=0)
    with observed():
        await executor.run(own.set, 1)
        assert await executor.run(own.get) == 1
        assert await executor.run(is_on)
    assert not await executor.run(is_on)
    executor.close()


def test_a_refused_session(serve: Serve, spans: InMemorySpanExporter) -> None:
    server = serve(max_concurrent_envs=1, telemetry=True)
    with server.v1() as wire:
        wire.open()
        wire.ask({"type": "open", "id": 2, "data": {}})
    refused = named(spans, "openenv.open", 2)[1]
    assert attributes(refused)["openenv.error.code"] == "CAPACITY_REACHED"


class TestParents:
    @pytest.mark.parametrize("environment", [CounterEnvironment, ThreadedCounterEnvironment])
    def test_of_a_socket(self, serve: Serve, spans: InMemorySpanExporter, environment: type) -> None:
        server = serve(environment, telemetry=True)
        with V1Wire(f"{server.url.replace('http', 'ws')}/ws", headers=PARENT) as wire:
            name = wire.open()
            wire.do("reset", name)
            wire.do("step", name, amount=1)
        for kind in ("open", "reset", "step"):
            (span,) = named(spans, f"openenv.{kind}")
            assert f"{span.context.trace_id:032x}" == TRACE, kind
            assert span.parent is not None
            assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"

    def test_of_a_request(self, serve: Serve, spans: InMemorySpanExporter) -> None:
        with serve(telemetry=True).http() as http:
            http.post("/reset", headers=PARENT)
            http.post("/step", json={"action": {"amount": 1}})
        (reset,), (step,) = named(spans, "openenv.reset"), named(spans, "openenv.step")
        assert f"{reset.context.trace_id:032x}" == TRACE
        assert step.parent is None

    @pytest.mark.parametrize("header", ["", "nonsense", f"00-{'0' * 32}-{'0' * 16}-01"])
    def test_that_make_no_sense(self, serve: Serve, spans: InMemorySpanExporter, header: str) -> None:
        with serve(telemetry=True).http() as http:
            assert http.post("/reset", headers={"traceparent": header}).status_code == 200
        assert named(spans, "openenv.reset")[0].parent is None


class TestSwitch:
    def test_off_unless_told(self, serve: Serve, spans: InMemorySpanExporter) -> None:
        with serve().v1() as wire:
            wire.do("reset", wire.open())
        # FastAPI makes spans of its own where the program has set a provider up.
        assert not [span for span in spans.get_finished_spans() if span.name.startswith("openenv")]

    @pytest.mark.parametrize(("variable", "setting", "on"), [("1", None, True), ("1", False, False), ("0", True, True)])
    def test_by_variable_or_setting(
        self,
        serve: Serve,
        spans: InMemorySpanExporter,
        monkeypatch: pytest.MonkeyPatch,
        variable: str,
        setting: Any,
        on: bool,
    ) -> None:
        monkeypatch.setenv("OPENENV_TELEMETRY", variable)
        with serve(telemetry=setting).v1() as wire:
            wire.open()
        assert any(span.name == "openenv.open" for span in spans.get_finished_spans()) is on

    def test_a_variable_that_is_neither(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_TELEMETRY", "yes")
        with pytest.raises(ConfigurationError, match="Expected OPENENV_TELEMETRY to be 0 or 1, got 'yes'"):
            create_fastapi_app(CounterEnvironment, Add, Total)

    def test_a_server_without_it_never_loads_it(self) -> None:
        program = "import sys, openenv.core.env_server.app; print([name for name in sys.modules if 'ry.sdk' in name])"
        loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert loaded.stdout == "[]\n"


SERVE_ONE_EPISODE = f"""
import sys
sys.path.insert(0, {str(PROGRAMS)!r})
from fastapi.testclient import TestClient
from logging_server import Add, LoggedEnvironment, Total
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.execution.executors import ThreadExecutor
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.tools import tool
with TestClient(create_fastapi_app(LoggedEnvironment, Add, Total, telemetry=True)) as client:
    client.post("/reset")
"""


class TestExporters:
    @pytest.mark.level("process")
    def test_the_standard_variables_say_where_spans_go(self) -> None:
        variables = {"OTEL_TRACES_EXPORTER": "console", "OTEL_SERVICE_NAME": "my-environments"}
        served = self._serve(variables)
        assert served.returncode == 0, served.stderr
        decoder, text, found = json.JSONDecoder(), served.stdout.strip(), []
        while text:
            span, end = decoder.raw_decode(text)
            found.append(span)
            text = text[end:].strip()
        ours = [span["name"] for span in found if span["name"].startswith("openenv")]
        assert ours == ["openenv.open", "openenv.reset", "openenv.close"]
        assert {span["resource"]["attributes"]["service.name"] for span in found} == {"my-environments"}

    @pytest.mark.level("process")
    def test_none_of_them(self) -> None:
        served = self._serve({"OTEL_TRACES_EXPORTER": "none"})
        assert (served.returncode, served.stdout) == (0, "")

    @pytest.mark.level("process")
    def test_one_that_is_not_installed(self) -> None:
        served = self._serve({"OTEL_TRACES_EXPORTER": "carrier-pigeon"})
        assert served.returncode == 1
        assert "got 'carrier-pigeon'. pip install" in served.stderr

    def _serve(self, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "ignore", "-c", SERVE_ONE_EPISODE]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **variables})
