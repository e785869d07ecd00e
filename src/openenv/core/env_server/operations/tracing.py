"""OpenTelemetry traces of what a server does: a span for each open, reset, step and close of a session.

Imported only by servers that trace, with ``TracedSessions`` in place of ``SessionManager``: others pay nothing.

A client that sends a ``traceparent`` with its handshake or its HTTP request finds the spans below its own.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, Status, StatusCode
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv._version import __version__
from openenv.core.env_server.execution.runner import Runner, Started
from openenv.core.env_server.metrics import Ending
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import ConfigurationError, RequestError
from openenv.core.wire.results import Outcome

_FLUSH_TIMEOUT_MS = 5000
_NONE: Mapping[str, Any] = {}
_EXPORTERS = "opentelemetry_traces_exporter"


def tracer_provider() -> TracerProvider:
    """Return the program's tracer provider, or set one up from the standard variables ``OTEL_*``.

    Raises:
        ConfigurationError: The exporter that these variables name is not installed.
    """
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        return provider
    provider = TracerProvider()
    for name in _exporter_names():
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    trace.set_tracer_provider(provider)
    return provider


class TraceParent:
    """ASGI middleware that continues the trace that the headers of a request or a handshake name.

    Args:
        app: The application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on within its trace."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", [])}
        token = context.attach(propagate.extract(headers))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)


class TracedSession(Session):
    """Session whose requests are traced; made by ``TracedSessions``.

    Args:
        *args: As for ``Session``.
        tracer: Makes its spans.
        environment: Name of the environment.
        **settings: As for ``Session``.
    """

    def __init__(self, *args: Any, tracer: trace.Tracer, environment: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._tracer = tracer
        self._environment = environment

    def handle(self, kind: str, data: dict[str, Any]) -> Started[str]:
        """See ``Session``. Always a coroutine: a span costs more than a synchronous step saves."""
        return self._handle_in_turn(kind, data)

    async def reset(self, arguments: Mapping[str, Any]) -> Outcome:
        """See ``Session``."""
        with self._span("reset") as span:
            return _noted(span, await super().reset(arguments))

    async def step(
        self,
        action: dict[str, Any] | BaseModel,
        timeout_s: float | None = None,
        options: Mapping[str, Any] = _NONE,
    ) -> Outcome:
        """See ``Session``."""
        with self._span("step") as span:
            return _noted(span, await super().step(action, timeout_s, options))

    async def close(self) -> None:
        """See ``Session``."""
        with self._span("close") as span:
            span.set_attribute("openenv.ending", self.ending or Ending.CLOSED)
            span.set_attribute("openenv.episodes", self.episode.number)
            span.set_attribute("openenv.steps", self.episode.total_steps)
            await super().close()

    @contextmanager
    def _span(self, operation: str) -> Iterator[Span]:
        with _span(self._tracer, operation, self._environment) as span:
            span.set_attribute("openenv.session", self.name)
            yield span


class TracedSessions(SessionManager):
    """Session manager whose sessions are traced.

    Args:
        environment: Name of the environment.
        *args: As for ``SessionManager``.
        **kwargs: As for ``SessionManager``.

    Raises:
        ConfigurationError: The exporter that the variables ``OTEL_*`` name is not installed.
    """

    session_class = TracedSession

    def __init__(self, environment: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._environment = environment
        self._provider = tracer_provider()
        self._tracer = self._provider.get_tracer("openenv", __version__)

    async def open(self, **options: Any) -> Session:
        """See ``SessionManager``."""
        with _span(self._tracer, "open", self._environment) as span:
            session = await super().open(**options)
            span.set_attribute("openenv.session", session.name)
            span.set_attribute("openenv.transport", session.transport)
            return session

    async def close_all(self) -> None:
        """See ``SessionManager``. Sends the remaining spans."""
        await super().close_all()
        await asyncio.to_thread(self._provider.force_flush, _FLUSH_TIMEOUT_MS)

    def _new_session(self, runner: Runner, **settings: Any) -> Session:
        return super()._new_session(runner, tracer=self._tracer, environment=self._environment, **settings)


@contextmanager
def _span(tracer: trace.Tracer, operation: str, environment: str) -> Iterator[Span]:
    """Trace a block as a span. An exception is recorded by its code alone: its message may hold secrets."""
    about = {"openenv.environment": environment}
    with tracer.start_as_current_span(
        f"openenv.{operation}", attributes=about, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except BaseException as error:
            code = error.code if isinstance(error, RequestError) else type(error).__name__
            span.set_attribute("openenv.error.code", code)
            span.set_status(Status(StatusCode.ERROR, code))
            raise


def _noted(span: Span, outcome: Outcome) -> Outcome:
    span.set_attribute("openenv.done", outcome.done)
    if outcome.reward is not None:
        span.set_attribute("openenv.reward", outcome.reward)
    return outcome


def _exporter_names() -> list[str]:
    names = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(",")
    return [name.strip() for name in names if name.strip() not in ("", "none")]


def _exporter(name: str) -> SpanExporter:
    """Make the exporter of a name, found by the entry points of OpenTelemetry's packages."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    if name == "otlp":
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    found = {entry.name: entry for entry in entry_points(group=_EXPORTERS)}
    if name not in found:
        raise ConfigurationError(
            f"Expected an exporter of traces (OTEL_TRACES_EXPORTER) out of {', '.join(sorted(found)) or 'none'} or "
            f'"none", got {name!r}. pip install "openenv-core[telemetry]" brings those for OTLP.'
        )
    exporter: SpanExporter = found[name].load()()
    return exporter
