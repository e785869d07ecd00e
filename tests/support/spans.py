"""The spans of this process, which its one tracer provider passes on."""

from functools import cache
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.servers import eventually


@cache
def span_exporter() -> InMemorySpanExporter:
    """What receives the spans of this process: its provider can be set once only."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def named(spans: InMemorySpanExporter, name: str, count: int = 1) -> list[ReadableSpan]:
    """Wait for the spans of a name."""

    def found() -> list[ReadableSpan]:
        return [span for span in spans.get_finished_spans() if span.name == name]

    eventually(lambda: len(found()) >= count, f"{count} spans {name}")
    return found()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of a span."""
    return dict(span.attributes or {})
