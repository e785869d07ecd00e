"""Spans of what a server does, through the SDK's own exporters."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    AsyncCounterEnvironment,
    CounterEnvironment,
    ThreadedCounterEnvironment,
    Total,
)
from tests.support.servers import PROGRAMS, V1Wire, eventually

from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import ConfigurationError

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """What receives the spans of this process: its provider can be set once only."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> InMemorySpanExporter:
    exporter.clear()  # of what earlier servers ended with
    return exporter


def named(spans: InMemorySpanExporter, name: str, count: int = 1) -> list[ReadableSpan]:
    """Wait for the spans of a name."""

    def found() -> list[ReadableSpan]:
        return [span for span in spans.get_finished_spans() if span.name == name]

    eventually(lambda: len(found()) >= count, f"{count} spans {name}")
    return found()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


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


def test_a_failed_step_tells_its_code_and_nothing_of_what_was_raised(serve: Serve, spans: InMemorySpanExporter) -> None:
    with serve(telemetry=True).v1() as wire:
        name = wire.open()
        wire.do("reset", name)
        wire.do("step", name, amount=0)
    (step,) = named(spans, "openenv.step")
    assert attributes(step)["openenv.error.code"] == "EXECUTION_ERROR"
    assert (step.status.status_code, step.status.description) == (StatusCode.ERROR, "EXECUTION_ERROR")
    assert not step.events
    assert "kaboom" not in step.to_json()


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
with TestClient(create_fastapi_app(LoggedEnvironment, Add, Total, telemetry=True)) as client:
    client.post("/reset")
"""


class TestExporters:
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

    def test_none_of_them(self) -> None:
        served = self._serve({"OTEL_TRACES_EXPORTER": "none"})
        assert (served.returncode, served.stdout) == (0, "")

    def test_one_that_is_not_installed(self) -> None:
        served = self._serve({"OTEL_TRACES_EXPORTER": "carrier-pigeon"})
        assert served.returncode == 1
        assert "got 'carrier-pigeon'. pip install" in served.stderr

    def _serve(self, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "ignore", "-c", SERVE_ONE_EPISODE]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **variables})
