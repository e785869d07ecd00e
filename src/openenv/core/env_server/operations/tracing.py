"""OpenTelemetry traces of a server: a span for each open, reset, step and close of a session.

Imported only by servers that trace: others pay nothing.

A client that sends a ``traceparent`` with its handshake or its HTTP request finds the spans below its own.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points

from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Status, StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv._version import __version__
from openenv.core.env_server.sessions.observer import Facts
from openenv.core.exceptions import ConfigurationError, RequestError

_FLUSH_TIMEOUT_MS = 5000
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


class Tracing:
    """``SessionObserver`` that makes a span of each operation.

    Args:
        environment: Name of the environment.

    Raises:
        ConfigurationError: The exporter that the variables ``OTEL_*`` name is not installed.
    """

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._provider = tracer_provider()
        self._tracer = self._provider.get_tracer("openenv", __version__)

    @contextmanager
    def observe(self, operation: str, session_name: str | None = None) -> Iterator[Facts]:
        """See ``SessionObserver``. An exception is recorded by its code alone: its message may hold secrets."""
        facts: Facts = {} if session_name is None else {"session": session_name}
        with self._tracer.start_as_current_span(
            f"openenv.{operation}",
            attributes={"openenv.environment": self._environment},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield facts
            except BaseException as error:
                facts["error.code"] = code = error.code if isinstance(error, RequestError) else type(error).__name__
                span.set_status(Status(StatusCode.ERROR, code))
                raise
            finally:
                span.set_attributes({f"openenv.{name}": value for name, value in facts.items()})

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.force_flush(_FLUSH_TIMEOUT_MS)


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
