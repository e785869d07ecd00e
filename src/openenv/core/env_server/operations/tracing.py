"""OpenTelemetry traces of a server: a span for each open, reset, step and close of a session.

Imported only by servers that trace: others pay nothing.

A step that calls a tool is a span ``execute_tool NAME`` with the attributes of OpenTelemetry's conventions for GenAI,
see ``openenv.core.telemetry``. No span has the content of a request or an answer.

A client that sends a ``traceparent`` with its handshake or its HTTP request finds the spans below its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context, propagate
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv._version import __version__
from openenv.core.env_server.sessions.observer import Facts
from openenv.core.exceptions import RequestError
from openenv.core.telemetry import (
    CONVERSATION,
    ERROR,
    EXECUTE_TOOL,
    OPERATION,
    TOOL,
    TOOL_TYPE,
    observed,
    tracer_provider,
)

_FLUSH_TIMEOUT_MS = 5000
# Facts with a name in the conventions for GenAI.
_NAMED = {"episode": CONVERSATION, "tool": TOOL}


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
        self._provider: TracerProvider = tracer_provider()
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
                with observed():
                    yield facts
            except BaseException as error:
                code = error.code if isinstance(error, RequestError) else type(error).__name__
                facts["error.code"] = code
                span.set_attribute(ERROR, code)
                span.set_status(Status(StatusCode.ERROR, code))
                raise
            finally:
                span.set_attributes({_NAMED.get(name, f"openenv.{name}"): value for name, value in facts.items()})
                if "tool" in facts:
                    span.update_name(f"{EXECUTE_TOOL} {facts['tool']}")
                    span.set_attributes({OPERATION: EXECUTE_TOOL, TOOL_TYPE: "function"})

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.force_flush(_FLUSH_TIMEOUT_MS)
