"""Encoding of an episode's entries as a line of JSON each, without the secrets that the process knows."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from openenv.core.env_server.traces.blobs import SHORTEST, Blobs, take_out
from openenv.core.env_server.traces.omission import holds_field, without_fields_of_entry
from openenv.core.plain_values import plain_value
from openenv.core.wire.redaction import holds_password, without_secrets

Sent = bytes | dict[str, Any]
"""Data of a request, as JSON or not yet."""

UNKNOWN = b"null"
"""Data of a request that has no form in JSON."""


def copy_of(data: Any) -> bytes:
    """Return a request's data as JSON, before the environment may change it; ``UNKNOWN`` where it has no such form."""
    try:
        if type(data) is dict:  # first, since isinstance of a model's class takes longer
            return to_json(data, inf_nan_mode="constants", fallback=plain_value)
        if isinstance(data, BaseModel):
            return type(data).__pydantic_serializer__.to_json(data, warnings=False, fallback=plain_value)
        return to_json(data, inf_nan_mode="constants", fallback=plain_value)
    except (ValueError, TypeError):
        return UNKNOWN


def line_of(kind: str, at: float, took: float, sent: Sent, answer: str, *, failed: bool = False) -> str:
    """Return an entry as a line ``[kind, time, duration, failed, request, answer]``, times in microseconds.

    Args:
        kind: ``reset`` or ``step``.
        at: When the answer was ready, in seconds since 1970.
        took: Seconds from the request's turn to its answer.
        sent: The request's data.
        answer: The answer's data, or the error's.
        failed: Whether the answer is an error.
    """
    request = sent.decode() if isinstance(sent, bytes) else copy_of(sent).decode()
    return f'["{kind}",{int(at * 1e6)},{int(took * 1e6)},{"1" if failed else "0"},{request},{answer}]\n'


def encoded(lines: Iterable[str], secrets: Sequence[str], leave_out: Sequence[str] = ()) -> bytes:
    """Encode lines as UTF-8, without secrets, and without fields.

    Args:
        lines: The lines; where fields are left out, those of entries.
        secrets: The secrets to leave out, longest first.
        leave_out: Paths of the fields to leave out. A line that had some has their paths as its last element.
    """
    content = "".join(lines).encode(errors="replace")
    if leave_out and holds_field(content, leave_out):
        content = b"".join(_without_fields(line, leave_out) for line in content.splitlines(keepends=True))
    if is_clean(content, secrets):
        return content
    documents = (without_secrets(from_json(line), secrets) for line in content.splitlines())
    return b"".join(to_json(document, inf_nan_mode="constants") + b"\n" for document in documents)


def is_clean(content: bytes, secrets: Sequence[str], leave_out: Sequence[str] = ()) -> bool:
    """Return whether encoded entries have nothing to leave out; the arguments are those of ``encoded``."""
    if leave_out and holds_field(content, leave_out):
        return False
    return not holds_password(content) and not any(_escaped(secret) in content for secret in secrets)


def without_blobs(content: bytes) -> tuple[bytes, Blobs]:
    """Return encoded entries with the long values replaced by their hashes, and these values."""
    if not _has_long_line(content):
        return content, {}
    blobs: Blobs = {}
    lines = content.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if len(line) >= SHORTEST:
            lines[number], found = take_out(line)
            blobs |= found
    return (b"".join(lines) if blobs else content), blobs


def _has_long_line(content: bytes) -> bool:
    """Return whether a line may hold a long value, from a look at one line break in so many bytes."""
    start = 0
    while len(content) - start >= SHORTEST:
        start = content.rfind(b"\n", start, start + SHORTEST) + 1
        if not start:
            return True
    return False


def _without_fields(line: bytes, paths: Sequence[str]) -> bytes:
    kind, at, took, failed, request, answer, *before = from_json(line)
    request, answer, found = without_fields_of_entry(kind, request, answer, paths, failed=bool(failed))
    if not found:
        return line
    left_out = [*chain(*before), *found]
    return to_json((kind, at, took, failed, request, answer, left_out), inf_nan_mode="constants") + b"\n"


def _escaped(secret: str) -> bytes:
    """Return a text as it stands within a JSON string."""
    return to_json(secret.encode(errors="replace").decode())[1:-1]
