"""OpenTelemetry: the process's tracer provider, and spans of models and tools as the conventions for GenAI name them.

Off unless ``OPENENV_TELEMETRY`` is 1 or a server observes the request. Spans have no message's text, unless
``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says ``true``; then it is there without the process's secrets.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from pydantic_core import to_json

from openenv._extras import install_command
from openenv._version import __version__
from openenv.core.exceptions import ConfigurationError
from openenv.core.plain_values import plain_value
from openenv.core.wire.redaction import secret_values, without_secrets

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

CHAT, EXECUTE_TOOL, INVOKE_AGENT = "chat", "execute_tool", "invoke_agent"
"""Operations of the conventions."""

OPERATION, CONVERSATION, ERROR = "gen_ai.operation.name", "gen_ai.conversation.id", "error.type"
TOOL, TOOL_TYPE, TOOL_CALL = "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
"""Attributes of the conventions."""

_EXPORTERS = "opentelemetry_traces_exporter"
_CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_WITH_CONTENT = ("true", "1", "span_only", "span_and_event")
_is_observed: ContextVar[bool] = ContextVar("is_observed", default=False)
_conversation: ContextVar[str | None] = ContextVar("conversation", default=None)


def tracer_provider() -> "TracerProvider":
    """Return the program's tracer provider, or set one up from the standard variables ``OTEL_*``.

    Raises:
        ConfigurationError: The exporter that these variables name is not installed.
        ImportError: OpenTelemetry's SDK is not installed.
    """
    from opentelemetry import trace  # what does not trace does not load it
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        return provider
    provider = TracerProvider()
    for name in _exporter_names():
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    trace.set_tracer_provider(provider)
    return provider


def is_on() -> bool:
    """Return whether spans of models and tools are made here: by the variable, or since a server observes."""
    is_wanted = _is_observed.get() or os.environ.get("OPENENV_TELEMETRY") == "1"
    return is_wanted and _is_installed()


@contextmanager
def observed() -> Iterator[None]:
    """Make spans of what runs in the block, such as a judge's requests in a step that a server observes."""
    token = _is_observed.set(True)
    try:
        yield
    finally:
        _is_observed.reset(token)


@dataclass(frozen=True)
class SpanContext:
    """Context of the spans that are made now, for code that goes on in another thread or process.

    Only this is carried, and not all context variables: an environment may keep some of its own in its thread. Pickling
    writes the span above as the headers of W3C, by which any process continues a trace.

    Attributes:
        conversation: The episode's id.
        above: OpenTelemetry's context.
    """

    conversation: str | None
    above: "Context"

    @classmethod
    def current(cls) -> Self | None:
        """Return the context of the running code; ``None`` while spans are off."""
        if not is_on():
            return None
        from opentelemetry.context import get_current

        return cls(_conversation.get(), get_current())

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Make spans of what runs in the block below those of the context."""
        from opentelemetry.context import attach, detach

        token, conversation = attach(self.above), _conversation.set(self.conversation)
        try:
            with observed():
                yield
        finally:
            _conversation.reset(conversation)
            detach(token)

    def __reduce__(self) -> tuple[Any, ...]:
        from opentelemetry.propagate import inject

        headers: dict[str, str] = {}
        inject(headers, self.above)
        return _continued, (self.conversation, headers)


def _continued(conversation: str | None, headers: dict[str, str]) -> SpanContext:
    from opentelemetry.propagate import extract

    return SpanContext(conversation, extract(headers))


@contextmanager
def genai_span(
    operation: str, subject: str, attributes: Mapping[str, Any], conversation: object = None
) -> Iterator[dict[str, Any]]:
    """Make a span of an operation of the conventions for GenAI; nothing while they are off.

    Args:
        operation: ``chat``, ``execute_tool`` or ``invoke_agent``.
        subject: The model or the tool, for the span's name.
        attributes: Further attributes; ``None`` is left out.
        conversation: The episode's id; by default that of the span around it.

    Yields:
        Attributes that the block adds to. An exception is recorded by its class alone: its message may hold secrets.

    Example::

        with genai_span(CHAT, model, {"gen_ai.request.model": model}) as found:
            response = await create()
            found.update(chat_answer(answer))
    """
    if not is_on():
        yield {}
        return
    from opentelemetry.trace import SpanKind, Status, StatusCode

    name = _conversation.get() if conversation is None else str(conversation)
    token = _conversation.set(name)
    found: dict[str, Any] = {OPERATION: operation, CONVERSATION: name, **attributes}
    kind = SpanKind.CLIENT if operation == CHAT else SpanKind.INTERNAL
    tracer = tracer_provider().get_tracer("openenv", __version__)
    with tracer.start_as_current_span(
        f"{operation} {subject}", kind=kind, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield found
        except BaseException as error:
            found[ERROR] = type(error).__name__
            raise
        finally:
            _conversation.reset(token)
            if ERROR in found:
                span.set_status(Status(StatusCode.ERROR, found[ERROR]))
            span.set_attributes({key: value for key, value in found.items() if value is not None})


def chat_request(
    provider: str, model: str, address: str, messages: Iterable[Mapping[str, Any]], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of a request to a model.

    Args:
        provider: ``openai`` for every server with its interface, or ``anthropic``.
        model: Name of the model.
        address: URL of the server.
        messages: The conversation.
        settings: ``temperature`` and ``max_tokens``, where they are set.
    """
    if not is_on():
        return {}
    server = urlsplit(address)
    return {
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.request.temperature": settings.get("temperature"),
        "gen_ai.request.max_tokens": settings.get("max_tokens"),
        "server.address": server.hostname,
        "server.port": server.port,
        INPUT: _content(messages),
    }


def chat_answer(answer: Any) -> dict[str, Any]:
    """Return the attributes of a model's answer, a ``ModelAnswer``."""
    if not is_on():
        return {}
    return {
        "gen_ai.response.id": answer.id,
        "gen_ai.response.model": answer.model,
        "gen_ai.response.finish_reasons": None if answer.finish_reason is None else [answer.finish_reason],
        "gen_ai.usage.input_tokens": answer.input_tokens,
        "gen_ai.usage.output_tokens": answer.output_tokens,
        OUTPUT: _content([answer.message()], answer.finish_reason),
    }


@cache
def _is_installed() -> bool:
    return bool(find_spec("opentelemetry") and find_spec("opentelemetry.sdk"))


def _content(messages: Iterable[Mapping[str, Any]], finish_reason: str | None = None) -> str | None:
    """Return messages as the conventions have them, as JSON; ``None`` unless content is to be recorded."""
    if os.environ.get(_CONTENT_VARIABLE, "").lower() not in _WITH_CONTENT:
        return None
    ended = {} if finish_reason is None else {"finish_reason": finish_reason}
    written = [{"role": each["role"], "parts": list(_parts(each)), **ended} for each in messages]
    return to_json(without_secrets(written, secret_values()), inf_nan_mode="constants", fallback=plain_value).decode()


def _parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a message of OpenAI's or Anthropic's form; of a picture, only that it was there."""
    content = message.get("content") or []
    if message["role"] == "tool":
        yield _tool_response(message.get("tool_call_id"), content)
        return
    for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        yield _part(block)
    for call in message.get("tool_calls") or []:
        function = call["function"]
        yield _call(call["id"], function["name"], function["arguments"])


def _part(block: Mapping[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "text":
            return {"type": "text", "content": block["text"]}
        case "tool_use":
            return _call(block["id"], block["name"], block["input"])
        case "tool_result":
            return _tool_response(block["tool_use_id"], block.get("content") or [])
        case other:
            return {"type": other}


def _tool_response(number: str | None, content: Any) -> dict[str, Any]:
    response = content if isinstance(content, str) else [_part(block) for block in content]
    return {"type": "tool_call_response", "id": number, "response": response}


def _call(number: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": number, "name": name, "arguments": arguments}


def _exporter_names() -> list[str]:
    names = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(",")
    return [name.strip() for name in names if name.strip() not in ("", "none")]


def _exporter(name: str) -> "SpanExporter":
    """Make the exporter of a name, found by the entry points of OpenTelemetry's packages."""
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    if name == "otlp":
        name = "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"
    found = {entry.name: entry for entry in entry_points(group=_EXPORTERS)}
    if name not in found:
        raise ConfigurationError(
            f"Expected an exporter of traces (OTEL_TRACES_EXPORTER) out of {', '.join(sorted(found)) or 'none'} or "
            f'"none", got {name!r}. {install_command("telemetry")} brings those for OTLP.'
        )
    exporter: SpanExporter = found[name].load()()
    return exporter
