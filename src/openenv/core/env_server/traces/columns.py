"""Entries of an episode in columns, which take a few calls for all of them, where lines take some for each.

The first line of the form has a control character for each entry, which no line of JSON begins with and which says what
kind of entry it is. The second is the seconds between ``time.monotonic`` and the time since 1970. Then there is a line
for the time of each entry, for the beginning of each, for each request and for each answer.
"""

from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from openenv.core.env_server.traces.encoding import encoded, is_clean, line_of

VALUES = 5
"""Number of an entry's values in a flat list: code, time and beginning by ``time.monotonic``, request and answer."""

REQUEST, ANSWER = 3, 4
"""Which of an entry's values are the request, as bytes, and the answer, as text."""

RESET_CODE, STEP_CODE, FAILED_RESET_CODE, FAILED_STEP_CODE = "\x01", "\x02", "\x03", "\x04"
"""What kind of entry it is, and whether it failed."""

_NAMES = {
    RESET_CODE: ("reset", False),
    STEP_CODE: ("step", False),
    FAILED_RESET_CODE: ("reset", True),
    FAILED_STEP_CODE: ("step", True),
}
_LINE = b'["%b",%d,%d,%d,%b,%b]'
# JSON of an environment's own may have line breaks, between its values, where spaces mean the same.
_SPACES = bytes.maketrans(b"\r\n", b"  ")
_SPACE_BY_BREAK = str.maketrans("\r\n", "  ")


def encoded_entries(
    entries: Sequence[Any], offset: float, secrets: Sequence[str], leave_out: Sequence[str] = ()
) -> bytes:
    """Encode entries in columns; as lines where there is something to leave out.

    Args:
        entries: The values of all entries one after another.
        offset: Seconds between ``time.monotonic`` and the time since 1970.
        secrets: The secrets to leave out, longest first.
        leave_out: Paths of the fields to leave out.
    """
    codes, times, began, requests, answers = (entries[start::VALUES] for start in range(VALUES))
    content = _in_columns(codes, times, began, requests, answers, offset)
    if content.count(b"\n") > 2 + (VALUES - 1) * len(codes) or b"\r" in content:
        requests = [request.translate(_SPACES) for request in requests]
        answers = [answer.translate(_SPACE_BY_BREAK) for answer in answers]
        content = _in_columns(codes, times, began, requests, answers, offset)
    if is_clean(content, secrets, leave_out):
        return content
    lines = [
        line_of(kind, at + offset, at - since, request, answer, failed=failed)
        for (kind, failed), at, since, request, answer in zip(
            map(_NAMES.__getitem__, codes), times, began, requests, answers, strict=True
        )
    ]
    return encoded(lines, secrets, leave_out)


def _in_columns(
    codes: Sequence[str],
    times: Sequence[float],
    began: Sequence[float],
    requests: Sequence[bytes],
    answers: Sequence[str],
    offset: float,
) -> bytes:
    head = f"{''.join(codes)}\n{offset}".encode()
    numbers = to_json([*times, *began])[1:-1].replace(b",", b"\n")
    return b"\n".join((head, numbers, *requests, "\n".join(answers).encode(errors="replace"), b""))


def lines_in(content: bytes) -> list[bytes]:
    """Return encoded entries as lines, without line breaks, whichever form they have.

    Raises:
        ValueError: They are damaged, or of a kind that this release does not know.
    """
    if content[:1] >= b"\x20":
        return content.splitlines()
    head, offset, *rows = content.split(b"\n")
    count, since_1970 = len(head), float(offset)
    times, began, requests, answers = (rows[start : start + count] for start in range(0, (VALUES - 1) * count, count))
    lines = []
    for code, at, since, request, answer in zip(head.decode(), times, began, requests, answers, strict=True):
        if code not in _NAMES:
            raise ValueError(f"an entry is of an unknown kind, {code!r}")
        kind, failed = _NAMES[code]
        ready = float(at)
        took = (ready - float(since)) * 1e6
        lines.append(_LINE % (kind.encode(), (ready + since_1970) * 1e6, took, failed, request, answer))
    return lines
