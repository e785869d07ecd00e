"""Bring a new environment to where a session stood: from a snapshot, by repeating what it was asked, or both.

Every answer is compared with the one on record, so that nobody continues an episode that only looks like the old one.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from openenv.core.env_server.disclosure import without_origin, without_secrets
from openenv.core.env_server.dispatch import answer
from openenv.core.env_server.protocol import V1Request, encode_error_v1
from openenv.core.env_server.records import LOST, REFUSED, History, Recorded
from openenv.core.env_server.session import Session
from openenv.core.exceptions import RequestError, SessionLostError

# Characters of an answer that are quoted, around where it differs.
_QUOTED_BEFORE, _QUOTED_AFTER = 20, 60
# What did nothing to the environment, or has no answer that could be the same again.
_NOT_REPEATED = (REFUSED, "fork", "render")
# Requests that are repeated in a row, before other sessions get their turn.
_IN_A_ROW = 32


async def rebuild(session: Session, history: History) -> None:
    """Bring a new session to where another one stood.

    Args:
        session: The new one, in which nothing has happened yet.
        history: How.

    Raises:
        SessionLostError: It can't be done, or the environment does not do the same again; and why.
    """
    refuse_unrepeatable(history.requests)
    session.ignores_unknown = True  # what was carried out once is not refused now
    if history.snapshot is not None and history.position is not None:
        if not session.can_snapshot:
            raise SessionLostError("there is a snapshot, but the environment has no restore() any more.", "environment")
        try:
            await session.restore(history.snapshot, history.position)
        except RequestError as error:
            raise SessionLostError(
                f"restoring the environment's snapshot failed: {error.message}", "environment"
            ) from error
    for count, recorded in enumerate(history.requests, 1):
        if recorded.request.type not in _NOT_REPEATED:
            _compare(recorded, *await _answered(session, recorded.request))
        if count % _IN_A_ROW == 0:  # an environment that runs inline never gives way by itself
            await asyncio.sleep(0)
    session.ignores_unknown = False


def refuse_unrepeatable(requests: Sequence[Recorded]) -> None:
    """Refuse what nobody knows how far it went.

    Raises:
        SessionLostError: A request ran into its timeout, or could not be written down.
    """
    for recorded in requests:
        request = recorded.request
        if request.type == LOST:
            raise SessionLostError(
                f"request {request.id} could not be put on record: its data is nested too deep.", "unrepeatable"
            )
        if _timed_out(recorded):
            raise SessionLostError(
                f"request {request.id} ({request.type}) ran into its timeout, so nobody knows how far it went.",
                "unrepeatable",
            )


async def _answered(session: Session, request: V1Request) -> tuple[str, bool]:
    """Carry out a request. Returns its answer's data or, of an error, the message; and whether it is one."""
    try:
        return (await answer(session, request.type, request.data))[1], False
    except RequestError as error:
        return encode_error_v1(error, request.id, request.session), True


def _compare(recorded: Recorded, again: str, failed: bool) -> None:
    request, before, failed_before = recorded
    if before == (again if isinstance(before, str) else hash(again)):
        return
    where = f"request {request.id} ({request.type})"
    if isinstance(before, int):
        raise SessionLostError(f"{where} was answered otherwise when it was repeated.", "different")
    if failed_before and failed and _as_told(before) == _as_told(again):
        return
    error = _error(before) if failed_before else {}
    if error.get("code") == "TOO_LARGE" and not failed and error.get("size") == len(again.encode()):
        return  # its client did not take answers so long
    old, new = _difference(before, again)
    raise SessionLostError(
        f"{where} was answered otherwise when it was repeated: {old} before, {new} now.", "different"
    )


def _timed_out(recorded: Recorded) -> bool:
    request, answered, failed = recorded
    if request.type != "mcp":
        return failed and _error(answered).get("code") == "TIMEOUT"
    response = from_json(answered) if isinstance(answered, str) else {}
    told = (response.get("error") or {}).get("data")
    return isinstance(told, dict) and told.get("code") == "TIMEOUT"


def _error(message: str | int) -> dict[str, Any]:
    """What an error says; nothing where its text was not kept."""
    data: dict[str, Any] = from_json(message)["data"] if isinstance(message, str) else {}
    return data


def _as_told(message: str) -> Any:
    """What an error says to a client of a server that does not debug."""
    error = _error(message)
    if error.pop("traceback", None) is not None:
        error["message"] = without_origin(error["message"])
    return without_secrets(error)


def _difference(old: str, new: str) -> tuple[str, str]:
    """Quote two texts around the place where they part."""
    same = next((place for place, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    place = min(len(old), len(new)) if same is None else same
    begin = max(0, place - _QUOTED_BEFORE)
    return repr(old[begin : place + _QUOTED_AFTER]), repr(new[begin : place + _QUOTED_AFTER])
