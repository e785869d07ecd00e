"""Hostile input: actions of no schema, floods and cut sockets, after which a server has to play as before."""

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

from openenv.core.env_server.mcp_types import Tool
from openenv.core.schema.reader import constants, members
from openenv.validation.conformance.server import NoAnswerError, Server, Socket
from openenv.validation.findings import Finding, Measurement, fail, shown, warn
from openenv.validation.semantic.fields import FieldRole, open_fields
from openenv.validation.trials import REFUSING, SEED

MAX_KINDS, MAX_FIELDS = 3, 4
FLOOD_STEPS, FLOOD_SOCKETS = 50, 8

_LONG, _DEEP, _TOO_DEEP = 200_000, 200, 5_000
_STATE = {"type": "state"}
_RESET = {"type": "reset", "data": {"seed": SEED}}
_POLL_S = 0.05
# Errors of a machinery that no agent's answer is graded by.
_BROKEN = re.compile(r"\b(UnicodeEncodeError|UnicodeDecodeError|RecursionError|MemoryError|OverflowError)\b")
_PROGRAMS = (FieldRole.CODE, FieldRole.SHELL, FieldRole.SQL)
_REFUSE = "Refuse what can't be an action with IllegalActionError; the session then continues."
_FALSE_ZERO = "Let what fails in the grader raise: an error is left out of training, a reward of 0 is learned from."
_RELEASE = "Release in close() all that a session holds; it is called when its socket is lost, too."

# Values as JSON, by their names for people.
_VALUES: dict[str, str] = {
    "null": "null",
    "a truth value": "true",
    "a negative number": "-1",
    "a huge whole number": "1" + "0" * 400,
    "NaN": "NaN",
    "infinity": "1e999",
    "an empty text": '""',
    "a long text": json.dumps("x" * _LONG),
    "half of an emoji": '"\\ud83d"',
    "a text with NUL": '"a\\u0000b"',
    "an object": '{"a": {"b": []}}',
    "a deep list": "[" * _DEEP + "]" * _DEEP,
    "a list that is too deep": "[" * _TOO_DEEP + "]" * _TOO_DEEP,
}
_FRAMES: dict[str, str | bytes] = {
    "no JSON": "not json",
    "an empty frame": "",
    "a list": "[1]",
    "a step without data": '{"type": "step"}',
    "a step with NaN": '{"type": "step", "data": NaN}',
    "an action of a tool": '{"type": "step", "data": {"type": "call_tool", "tool_name": "none", "arguments": {}}}',
    "an action with an unknown field": '{"type": "step", "data": {"field_of_no_action": 1}}',
    "a binary frame": b"\x00\xff\xfe",
}


def hostile_frames(schema: Mapping[str, Any], action: Mapping[str, Any]) -> Iterator[tuple[str, str | bytes, bool]]:
    """Iterate over hostile frames: the name for people, the frame, and whether its value is a program's text.

    Args:
        schema: JSON Schema of the actions.
        action: An action that fits it, whose values other fields have.
    """
    for what, frame in _FRAMES.items():
        yield what, frame, False
    for name, kind in list(members(schema))[:MAX_KINDS]:
        tool = Tool(name=name, description="", input_schema=dict(kind))
        roles = {each.name: each.role for each in open_fields([tool], {})}
        fixed = constants(kind)
        others = {**{field: value for field, value in action.items() if field in kind.get("properties", {})}, **fixed}
        fields = [field for field in kind.get("properties", {}) if field not in {"metadata", *fixed}]
        for field in fields[:MAX_FIELDS]:
            rest = json.dumps({key: value for key, value in others.items() if key != field})[1:-1]
            for what, value in _VALUES.items():
                data = f"{{{rest}{', ' if rest else ''}{json.dumps(field)}: {value}}}"
                yield f"{what} as {name}.{field}", f'{{"type": "step", "data": {data}}}', roles.get(field) in _PROGRAMS


def find_in_hostile_actions(server: Server) -> Iterator[Finding | Measurement]:
    """Send hostile frames to a session, and find those after which it does not continue, or that are booked as 0."""
    schema = server.schemas.get("action")
    frames = list(hostile_frames(schema if isinstance(schema, dict) else {}, server.action or {}))
    sent, refused, warnings = 0, 0, dict[str, Finding]()
    with ExitStack() as exits:
        session = exits.enter_context(server.legacy())
        session.exchange(_RESET)
        for what, frame, is_program in frames:
            sent += 1
            try:
                answer = session.exchange(frame)
                kind, data = _parts(answer)
                after = session.exchange(_RESET if data.get("done") is True else _STATE)
            except NoAnswerError as error:
                yield fail(f"{what} gets no answer, or ends the session: {error}", _REFUSE)
                break
            if _parts(after)[0] not in ("state", "observation"):
                yield fail(f"the session does not continue after {what}: {shown(after)}", _REFUSE)
                break
            refused += kind == "error"
            message = str(data.get("message", ""))
            if kind == "error" and data.get("code") == "EXECUTION_ERROR" and not message.startswith(REFUSING):
                cause = message.partition(":")[0]
                warnings.setdefault(cause, warn(f"{what} gets an error instead of an answer: {message:.200}", _REFUSE))
            elif kind == "observation" and not is_program and data.get("reward") == 0 and _BROKEN.search(str(data)):
                yield fail(f"{what} is booked as a reward of 0: {shown(data)}", _FALSE_ZERO)
    yield from warnings.values()
    yield Measurement({"frames": sent, "refused": refused})


def find_in_floods(server: Server, timeout_s: float) -> Iterator[Finding | Measurement]:
    """Flood a server, cut sockets, and find sessions that are left."""
    before = _open_sessions(server)
    step = {"type": "step", "data": server.action or {}}
    with suppress(NoAnswerError), server.socket() as flooding:
        for request in (_RESET, *[step] * FLOOD_STEPS):
            flooding.send(request)
        flooding.cut()
    with ExitStack() as exits:
        opened: list[Socket] = []
        for number in range(FLOOD_SOCKETS):
            with suppress(NoAnswerError):
                opened.append(exits.enter_context(server.socket()))
                opened[-1].send(_RESET)
                if number % 4:  # others are cut before their answer
                    opened[-1].receive()
        for each in opened:
            each.cut()
    _cut_handshakes(server.url)
    left, deadline = _open_sessions(server), time.monotonic() + timeout_s
    while left is not None and before is not None and left > before and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = _open_sessions(server)
    if left is not None and before is not None and left > before:
        yield fail(f"{left - before} sessions are left {timeout_s:g} s after their sockets were cut", _RELEASE)
    yield Measurement({"requests": FLOOD_STEPS, "sockets": 2 * FLOOD_SOCKETS + 1, "sessions_left": left})


def _cut_handshakes(url: str) -> None:
    """Begin handshakes and requests that never end."""
    address = urlsplit(url)
    for begun in (
        b"",
        b"GET /ws HTTP/1.1\r\nHost:",
        b"\x16\x03\x01\x00",
        b"POST /reset HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
    ):
        for _ in range(FLOOD_SOCKETS // 4):
            with suppress(OSError), socket.create_connection((address.hostname, address.port or 80), 5.0) as raw:
                raw.sendall(begun)


def _open_sessions(server: Server) -> int | None:
    """Return the number of open sessions; ``None`` where the server lists none."""
    with suppress(NoAnswerError):
        document = server.request("GET", "/sessions").document
        total = document.get("total") if isinstance(document, dict) else None
        return total if isinstance(total, int) else None
    return None


def _parts(answer: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(answer, dict):
        return "", {}
    data = answer.get("data")
    return str(answer.get("type")), data if isinstance(data, dict) else {}
