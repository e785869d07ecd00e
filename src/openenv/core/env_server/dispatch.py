"""Carry out a request of either wire: the session's method, and its answer as JSON."""

from collections.abc import Awaitable
from typing import Any

from openenv.core.env_server.outcomes import Outcome
from openenv.core.env_server.protocol import mcp_refusal_json, outcome_json, state_json
from openenv.core.env_server.sessions import Session


async def answer(session: Session, kind: str, data: dict[str, Any]) -> tuple[str, str]:
    """Carry out a request, which may have to wait for its turn and for the environment.

    Args:
        session: The session that it is for.
        kind: ``reset``, ``step``, ``state`` or ``mcp``.
        data: The request's ``data``.

    Returns:
        The answer's ``type``, and its ``data`` as JSON.

    Raises:
        RequestError: The request was refused, or the environment failed.
    """
    if kind == "step":
        return "observation", outcome_json(await session.step(data))
    if kind == "reset":
        return "observation", outcome_json(await session.reset(data))
    if kind == "state":
        return "state", state_json(await session.state())
    return "mcp", mcp_refusal_json(data)


def answer_now(session: Session, kind: str, data: dict[str, Any]) -> str | Awaitable[Outcome]:
    """Carry out a reset or a step at once; only where the session's ``at_once`` holds.

    Returns:
        The ``data`` of the observation that answers it, as JSON, or what to await for the outcome.

    Raises:
        RequestError: The request was refused, or the environment failed.
    """
    outcome = session.step_now(data) if kind == "step" else session.reset_now(data)
    return outcome_json(outcome) if isinstance(outcome, Outcome) else outcome
