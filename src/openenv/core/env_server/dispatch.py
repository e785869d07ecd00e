"""Carry out a request of either wire: the session's method, and its answer as JSON."""

import logging
from collections.abc import Awaitable
from typing import Any

from openenv.core.env_server.disclosure import add_traceback, message_of, origin_of
from openenv.core.env_server.json_rpc import answer_document
from openenv.core.env_server.outcomes import Outcome
from openenv.core.env_server.protocol import outcome_json, picture_json, state_json
from openenv.core.env_server.session import Session
from openenv.core.exceptions import EnvironmentFailedError, RequestError

logger = logging.getLogger(__name__)


async def answer(session: Session, kind: str, data: dict[str, Any]) -> tuple[str, str]:
    """Carry out a request, which may have to wait for its turn and for the environment.

    Args:
        session: The session that it is for.
        kind: ``reset``, ``step``, ``state``, ``render`` or ``mcp``.
        data: The request's ``data``.

    Returns:
        The answer's ``type``, and its ``data`` as JSON.

    Raises:
        RequestError: The request was refused, or the environment failed.
    """
    try:
        if kind == "step":
            return "observation", outcome_json(await session.step(data))
        if kind == "reset":
            return "observation", outcome_json(await session.reset(data))
        if kind == "state":
            return "state", state_json(await session.state())
        if kind == "render":
            return "picture", picture_json(await session.render())
        return "mcp", await answer_document(session, data)
    except RequestError as error:
        _show(session, error)
        raise
    except Exception as error:
        raise _failure(session, error, kind) from error


def answer_now(session: Session, kind: str, data: dict[str, Any]) -> str | Awaitable[str]:
    """Carry out a reset or a step at once; only where the session's ``at_once`` holds.

    Returns:
        The ``data`` of the observation that answers it, as JSON, or what to await for it.

    Raises:
        RequestError: The request was refused, or the environment failed.
    """
    try:
        outcome = session.step_now(data) if kind == "step" else session.reset_now(data)
        return outcome_json(outcome) if isinstance(outcome, Outcome) else _answer_later(session, outcome, kind)
    except RequestError as error:
        _show(session, error)
        raise
    except Exception as error:
        raise _failure(session, error, kind) from error


async def _answer_later(session: Session, outcome: Awaitable[Outcome], kind: str) -> str:
    try:
        return outcome_json(await outcome)
    except RequestError as error:
        _show(session, error)
        raise
    except Exception as error:
        raise _failure(session, error, kind) from error


def _failure(session: Session, error: Exception, kind: str) -> EnvironmentFailedError:
    """Turn what the author's models raise, on reading an action or an outcome, into an error of this session alone."""
    named = {"session": session.name}
    logger.error("the models of an environment raised, in a %s", kind, exc_info=error, extra=named)
    failure = EnvironmentFailedError(message_of(error), origin=origin_of(error))
    _show(session, failure, error)
    return failure


def _show(session: Session, error: RequestError, raised: BaseException | None = None) -> None:
    if session.debug:
        add_traceback(error, raised)
