"""Replay of a session's history in a new environment: from a snapshot, by repeating requests, or both.

Each answer is compared with the recorded answer, so that no client continues an episode that has diverged.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json

from openenv.core.env_server.execution.runner import finished
from openenv.core.env_server.history.entries import LOST, REFUSED, History, HistoryEntry
from openenv.core.env_server.mcp.dialect import answer_document
from openenv.core.env_server.sessions.session import Session
from openenv.core.exceptions import RequestError, SessionLostError
from openenv.core.wire.arrays import Written, byte_size, nested, portable
from openenv.core.wire.messages import MessageType, V1Request
from openenv.core.wire.redaction import redact, without_origin
from openenv.core.wire.v1 import encode_error_v1

# Quoted characters before and after the first difference of two answers.
_QUOTED_BEFORE, _QUOTED_AFTER = 20, 60
# Requests that changed nothing in the environment, or whose answer is never the same again.
_NOT_REPEATED = (REFUSED, "fork", "render")
# Requests repeated in a row, before the replay yields to other tasks.
_IN_A_ROW = 32


async def rebuild(session: Session, history: History) -> None:
    """Rebuild a session from its history.

    Args:
        session: A new session without requests.
        history: The history.

    Raises:
        SessionLostError: A request can't be repeated, or an answer differs; the message says why.
    """
    refuse_unrepeatable(history.entries)
    with session.checks.relaxed():
        await _repeat(session, history)


async def _repeat(session: Session, history: History) -> None:
    if history.checkpoint is not None:
        if not session.can_snapshot:
            raise SessionLostError("there is a snapshot, but the environment has no restore() any more.", "environment")
        try:
            await session.restore(history.checkpoint)
        except RequestError as error:
            raise SessionLostError(
                f"restoring the environment's snapshot failed: {error.message}", "environment"
            ) from error
    for count, recorded in enumerate(history.entries, 1):
        if recorded.request.type not in _NOT_REPEATED:
            _compare(recorded, *await _answered(session, recorded.request))
        if count % _IN_A_ROW == 0:  # an inline environment never yields to the event loop
            await asyncio.sleep(0)


def refuse_unrepeatable(requests: Sequence[HistoryEntry]) -> None:
    """Refuse a history with a request whose effect is unknown.

    Raises:
        SessionLostError: A request timed out, or could not be recorded.
    """
    for recorded in requests:
        request = recorded.request
        if request.type == LOST:
            raise SessionLostError(
                f"request {request.id} could not be put on record: its data is nested too deep.", "unrepeatable"
            )
        if _timed_out(recorded):
            raise SessionLostError(
                f"request {request.id} ({request.type}) ran into its timeout, so its effect is unknown.",
                "unrepeatable",
            )


async def _answered(session: Session, request: V1Request) -> tuple[Written, bool]:
    """Carry out a request. Return the answer's data or the error message, and whether it is an error."""
    try:
        if request.type == MessageType.MCP:
            return await answer_document(session, request.data), False
        return await finished(session.handle(request.type, request.data)), False
    except RequestError as error:
        return encode_error_v1(error, request.id, request.session).text, True


def _compare(recorded: HistoryEntry, answer: Written, failed: bool) -> None:
    request, before, failed_before = recorded
    if before == (portable(answer) if isinstance(before, str) else hash(answer)):
        return
    where = f"request {request.id} ({request.type})"
    if isinstance(before, int):
        raise SessionLostError(f"{where} was answered otherwise when it was repeated.", "different")
    if before == nested(answer):  # recorded by a version that wrote arrays as nested lists
        return
    again = portable(answer)
    if failed_before and failed and _without_debug(before) == _without_debug(again):
        return
    error = _error(before) if failed_before else {}
    if error.get("code") == "TOO_LARGE" and not failed and error.get("size") in _sizes(answer):
        return  # the answer was too long for the client
    old, new = _difference(before, again)
    raise SessionLostError(
        f"{where} was answered otherwise when it was repeated: {old} before, {new} now.", "different"
    )


def _sizes(answer: Written) -> tuple[int, int]:
    """Return the lengths in bytes of an answer as it is sent with its arrays, and without."""
    return byte_size(answer), byte_size(nested(answer))


def _timed_out(recorded: HistoryEntry) -> bool:
    request, answered, failed = recorded
    if request.type != MessageType.MCP:
        return failed and _error(answered).get("code") == "TIMEOUT"
    response = from_json(answered) if isinstance(answered, str) else {}
    failure = (response.get("error") or {}).get("data")
    return isinstance(failure, dict) and failure.get("code") == "TIMEOUT"


def _error(message: str | int) -> dict[str, Any]:
    """Return the data of an error message; empty if only a hash was recorded."""
    data: dict[str, Any] = from_json(message)["data"] if isinstance(message, str) else {}
    return data


def _without_debug(message: str) -> Any:
    """Return the data of an error message as sent without ``debug``."""
    error = _error(message)
    if error.pop("traceback", None) is not None:
        error["message"] = without_origin(error["message"])
    return redact(error)


def _difference(old: str, new: str) -> tuple[str, str]:
    """Quote two texts around their first difference."""
    same = next((position for position, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    position = min(len(old), len(new)) if same is None else same
    begin = max(0, position - _QUOTED_BEFORE)
    return repr(old[begin : position + _QUOTED_AFTER]), repr(new[begin : position + _QUOTED_AFTER])
