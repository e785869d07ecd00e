"""Checks of the wire v1, ``docs/wire-v1.md``: many sessions on a socket, and requests that are carried out once."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from openenv.validation.conformance.forms import (
    OBSERVATION,
    OBSERVATION_OR_ERROR,
    STATE,
    error,
    has_fields,
    message,
    of_request,
)
from openenv.validation.conformance.server import NoAnswerError, NotOfferedError, Server, Socket, expect, unexpected
from openenv.validation.findings import Check, Finding

_OPENED = has_fields("opened", max_message_bytes=int, token=str, resume_window_s=float, last_id=int)
_WRONG_TOKEN = "no token"  # noqa: S105  # it is none
# The slot of the check before may be on its way back.
_SLOT_WAIT_S = 5.0


class _Session:
    """Session on a socket of v1."""

    def __init__(self, socket: Socket, session: str, data: dict[str, Any]) -> None:
        self.socket = socket
        self.session = session
        self.data = data
        self._ids = count(1)

    def request(self, kind: str, **data: Any) -> dict[str, Any]:
        """Make the next request."""
        named = {"type": kind, "id": next(self._ids), "session": self.session}
        return {**named, "data": data} if kind in ("reset", "step") else named


def _open(socket: Socket, number: int = 1) -> _Session:
    answer = socket.exchange({"type": "open", "id": number, "data": {"wait_s": _SLOT_WAIT_S}})
    data = message(answer, "opened")
    if data is None or not isinstance(answer.get("session"), str):
        raise NoAnswerError(f"sent open; expected a session; came {answer}")
    return _Session(socket, answer["session"], data)


def _find_in_open(server: Server) -> Iterator[Finding]:
    request = {"type": "open", "id": 41, "data": {"wait_s": _SLOT_WAIT_S}}
    with server.v1() as socket:
        answer = socket.exchange(request)
        yield from expect(of_request(_OPENED, request), request, answer)
        data = message(answer, "opened") or {}
        if data.get("last_id") != 0:
            yield unexpected("the last_id 0 after open", request, answer)


def _find_in_requests(server: Server) -> Iterator[Finding]:
    with server.v1() as socket:
        session = _open(socket)
        for kind, form, data in (
            ("reset", OBSERVATION, {"seed": 7}),
            ("step", OBSERVATION_OR_ERROR, server.action or {}),
            ("state", STATE, {}),
        ):
            request = session.request(kind, **data)
            yield from expect(of_request(form, request), request, socket.exchange(request))


def _find_in_parameters(server: Server) -> Iterator[Finding]:
    with server.v1() as socket:
        schema = server.schemas.get("reset")
        if not isinstance(schema, dict) or schema.get("additionalProperties") is not False:
            raise NotOfferedError("the environment's reset takes parameters of any name, or does not name them")
        session = _open(socket)
        request = session.request("reset", parameter_of_no_reset=1)
        answer = socket.exchange(request)
        yield from expect(of_request(error("VALIDATION_ERROR"), request), request, answer)
        if "known" not in (message(answer, "error") or {}):
            yield unexpected("the field known, with the parameters that there are", request, answer)


def _find_in_repetition(server: Server) -> Iterator[Finding]:
    with server.v1() as socket:
        session = _open(socket)
        request = session.request("reset", seed=7)
        first = socket.exchange(request)
        again = socket.exchange(request)
        if first != again:
            yield unexpected(f"the same answer to the same id, {first}", request, again)
        skipped = {**session.request("state"), "id": 1000}
        yield from expect(of_request(error(), skipped), skipped, socket.exchange(skipped))
        following = {**skipped, "id": 2}
        yield from expect(of_request(STATE, following), following, socket.exchange(following))


def _find_in_arrays(server: Server) -> Iterator[Finding]:
    with server.v1() as socket:
        opening = [{"type": "open", "id": number} for number in (1, 2)]
        socket.send(opening)
        answers = sorted((socket.receive() for _ in opening), key=lambda answer: str(answer.get("id")))
        sessions = [answer.get("session") for answer in answers if message(answer, "opened") is not None]
        if len(set(sessions)) != len(opening):
            if any((message(each, "error") or {}).get("code") == "CAPACITY_REACHED" for each in answers):
                return
            yield unexpected("two sessions with names of their own", opening, answers)
            return
        requests = [{"type": "reset", "id": 1, "session": session, "data": {}} for session in sessions]
        socket.send(requests)
        by_session = {answer.get("session"): answer for answer in (socket.receive() for _ in requests)}
        for request in requests:
            yield from expect(of_request(OBSERVATION, request), requests, by_session.get(request["session"]))


def _find_in_close(server: Server) -> Iterator[Finding]:
    with server.v1() as socket:
        session = _open(socket)
        request = session.request("close")
        answer = socket.exchange(request)
        yield from expect(of_request(has_fields("closed"), request), request, answer)
        if _open(socket, 2).session == session.session:
            yield unexpected("another session after close", {"type": "open"}, session.session)


def _find_in_attach(server: Server) -> Iterator[Finding]:
    with server.v1() as socket:
        session = _open(socket)
        played = session.request("reset", seed=7)
        first = socket.exchange(played)
        window_s = session.data.get("resume_window_s")
        if not isinstance(window_s, int | float) or window_s <= 0:
            return
        socket.cut()
    with server.v1() as socket:
        wrong = {"type": "attach", "id": 1, "session": session.session, "data": {"token": _WRONG_TOKEN}}
        yield from expect(error(), wrong, socket.exchange(wrong))
        request = {**wrong, "id": 2, "data": {"token": session.data["token"], "answered": 0}}
        answer = socket.exchange(request)
        yield from expect(of_request(has_fields("attached", last_id=int), request), request, answer)
        again = socket.exchange(played)
        if again != first:
            yield unexpected(f"the answer that was given before, {first}", played, again)


V1_CHECKS = (
    Check("sessions.open", "open is answered with a session, its token, and the limits", _find_in_open),
    Check("sessions.requests", "answers have the id and the session of their requests", _find_in_requests),
    Check(
        "sessions.parameters",
        "a parameter that reset does not take is a VALIDATION_ERROR with known",
        _find_in_parameters,
    ),
    Check("sessions.repetition", "the last id again is answered again; any other id is an error", _find_in_repetition),
    Check("sessions.frames", "an array means its messages one after another, of several sessions", _find_in_arrays),
    Check("sessions.close", "close is answered with closed", _find_in_close),
    Check(
        "sessions.attach", "a session whose socket was cut continues by attach, and by its token alone", _find_in_attach
    ),
)
