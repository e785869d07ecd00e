"""Checks of the legacy wire, ``docs/wire.md``, which public clients and servers speak."""

from collections.abc import Iterator

from openenv.validation.conformance.forms import (
    OBSERVATION,
    OBSERVATION_OR_ERROR,
    STATE,
    error,
    error_code,
    message,
)
from openenv.validation.conformance.server import AnswerForm, Server, expect, unexpected
from openenv.validation.findings import Check, Finding

_RESET, _STATE = {"type": "reset", "data": {}}, {"type": "state"}
_CONTINUES = AnswerForm(f"that the session continues: {STATE.text}", STATE.fits)
_CLOSED_NORMALLY = 1000


def _find_in_reset(server: Server) -> Iterator[Finding]:
    with server.legacy() as socket:
        for request in (_RESET, {"type": "reset"}, {"type": "reset", "data": {"seed": 7, "episode_id": "conformance"}}):
            yield from expect(OBSERVATION, request, socket.exchange(request))


def _find_in_step(server: Server) -> Iterator[Finding]:
    with server.legacy() as socket:
        socket.exchange(_RESET)
        request = {"type": "step", "data": server.action or {}}
        yield from expect(OBSERVATION_OR_ERROR, request, socket.exchange(request))


def _find_in_state(server: Server) -> Iterator[Finding]:
    with server.legacy() as socket:
        yield from expect(STATE, _STATE, socket.exchange(_STATE))
    request = {"type": "reset", "data": {"episode_id": "conformance"}}
    with server.legacy() as socket:
        socket.exchange(request)
        yield from expect(STATE, _STATE, socket.exchange(_STATE))


def _find_in_order(server: Server) -> Iterator[Finding]:
    requests = [_RESET, _STATE, _RESET, _STATE]
    with server.legacy() as socket:
        for request in requests:
            socket.send(request)
        for request in requests:
            yield from expect(OBSERVATION if request is _RESET else STATE, request, socket.receive())


def _find_in_bad_frames(server: Server) -> Iterator[Finding]:
    cases = [
        ("not json", "INVALID_JSON"),
        ({"type": "bogus"}, "UNKNOWN_TYPE"),
        ({}, "UNKNOWN_TYPE"),
        ({"type": "state", "data": {}}, "VALIDATION_ERROR"),
        ({"type": "step"}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"field_of_no_action": 1}}, "VALIDATION_ERROR"),
    ]
    with server.legacy() as socket:
        socket.exchange(_RESET)
        for request, code in cases:
            yield from expect(error(code), request, socket.exchange(request))
            yield from expect(
                AnswerForm(f"that the session continues: {STATE.text}", STATE.fits), _STATE, socket.exchange(_STATE)
            )


def _find_in_close(server: Server) -> Iterator[Finding]:
    request = {"type": "close"}
    with server.legacy() as socket:
        socket.exchange(_RESET)
        socket.send(request)
        code = socket.wait_for_close()
        if code != _CLOSED_NORMALLY:
            yield unexpected("no answer, and the code 1000 with which the server closes", request, code)


def _find_in_sessions(server: Server) -> Iterator[Finding]:
    with server.legacy() as first, server.socket() as second:
        requests = [{"type": "reset", "data": {"episode_id": name}} for name in ("first", "second")]
        first.exchange(requests[0])
        answer = second.exchange(requests[1])
        if error_code(answer) == "CAPACITY_REACHED":  # which is documented, too
            return
        yield from expect(OBSERVATION, requests[1], answer)
        for socket, name in ((first, "first"), (second, "second")):
            state = message(socket.exchange(_STATE), "state") or {}
            if state.get("episode_id") not in (name, None):
                yield unexpected(f"a session for each socket: the episode {name}", _STATE, state)


LEGACY_CHECKS = (
    Check(
        "legacy.reset",
        "reset starts an episode; its data is optional, and may hold seed and episode_id",
        _find_in_reset,
    ),
    Check("legacy.step", "step does an action; data holds its fields, without a wrapper", _find_in_step),
    Check("legacy.state", "state reads the state, also before the first reset", _find_in_state),
    Check("legacy.order", "every request but close has one answer, in the order of the requests", _find_in_order),
    Check("legacy.errors", "an error is an answer with message and code, the session continues", _find_in_bad_frames),
    Check("legacy.close", "close ends the session: no answer, and the socket closes with 1000", _find_in_close),
    Check("legacy.sessions", "one socket is one session", _find_in_sessions),
)
