"""OpenTelemetry traces of what a server does: a span for each open, reset, step and close of a session.

Imported only where a server is told to trace. Nothing of it is on the way of a step otherwise: ``TracedSessions`` take
the place of ``Sessions``.

A client that sends a ``traceparent`` with its handshake or its HTTP request finds the spans below its own.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points, version
from typing import Any

from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, Status, StatusCode
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.env_server.execution import ProgressListener
from openenv.core.env_server.outcomes import Outcome
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.exceptions import ConfigurationError, RequestError

_FLUSH_TIMEOUT_MS = 5000
_EXPORTERS = "opentelemetry_traces_exporter"


def tracer_provider() -> TracerProvider:
    """Return what the program has set up, or set up what the standard variables ``OTEL_*`` say.

    Raises:
        ConfigurationError: The exporter that they name is not installed.
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
    """ASGI middleware: what a request or a socket does belongs to the trace that its headers name.

    Args:
        app: The application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one call on."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", [])}
        token = context.attach(propagate.extract(headers))
        try:
            await self._app(scope, receive, send)
        finally:
            context.detach(token)


class TracedSession(Session):
    """A session whose requests are traced; ``TracedSessions`` makes it.

    Attributes:
        tracer: Makes its spans.
        environment: Name of the environment.
    """

    tracer: trace.Tracer
    environment: str

    @property
    def at_once(self) -> bool:
        """Never: beside a span, the microseconds that a step at once saves are nothing, and two ways need two spans."""
        return False

    async def reset(self, arguments: Mapping[str, Any]) -> Outcome:
        """See ``Session``."""
        with self._span("reset") as span:
            return _noted(span, await super().reset(arguments))

    async def step(
        self, fields: Mapping[str, Any], options: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> Outcome:
        """See ``Session``."""
        with self._span("step") as span:
            return _noted(span, await super().step(fields, options, timeout_s))

    async def perform(
        self, action: BaseModel, timeout_s: float | None = None, on_progress: ProgressListener | None = None
    ) -> Outcome:
        """See ``Session``."""
        with self._span("step") as span:
            return _noted(span, await super().perform(action, timeout_s, on_progress))

    async def close(self) -> None:
        """See ``Session``."""
        with self._span("close") as span:
            span.set_attribute("openenv.ending", self.ending)
            span.set_attribute("openenv.episodes", self.episodes)
            span.set_attribute("openenv.steps", self.total_steps)
            await super().close()

    @contextmanager
    def _span(self, operation: str) -> Iterator[Span]:
        with _span(self.tracer, operation, self.environment) as span:
            span.set_attribute("openenv.session", self.name)
            yield span


class TracedSessions(Sessions):
    """Sessions that are traced.

    Args:
        environment: Name of the environment.
        *args: As for ``Sessions``.
        **kwargs: As for ``Sessions``.

    Raises:
        ConfigurationError: The exporter that the variables ``OTEL_*`` name is not installed.
    """

    session_class = TracedSession

    def __init__(self, environment: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._environment = environment
        self._provider = tracer_provider()
        self._tracer = self._provider.get_tracer("openenv", version("openenv-core"))

    async def open(self, **options: Any) -> Session:
        """See ``Sessions``."""
        with _span(self._tracer, "open", self._environment) as span:
            session = await super().open(**options)
            span.set_attribute("openenv.session", session.name)
            span.set_attribute("openenv.transport", session.transport)
            return session

    async def close_all(self) -> None:
        """See ``Sessions``. The spans that are left are sent."""
        await super().close_all()
        await asyncio.to_thread(self._provider.force_flush, _FLUSH_TIMEOUT_MS)

    async def _make_session(self, original: Session | None = None) -> Session:
        session = await super()._make_session(original)
        assert isinstance(session, TracedSession)
        session.tracer = self._tracer
        session.environment = self._environment
        return session


@contextmanager
def _span(tracer: trace.Tracer, operation: str, environment: str) -> Iterator[Span]:
    """Make a span of a block. What the block raises is told by its code: a message may hold what is not for all."""
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
    """Make the exporter of a name, as the packages of OpenTelemetry announce them."""
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
