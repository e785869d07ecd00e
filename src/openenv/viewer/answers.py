"""Answers of the routes that the pages of traces, runs and evaluations read: JSON, and what is wrong with a status."""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from openenv.core.exceptions import ConfigurationError

HEADERS = {"Cache-Control": "no-store"}


async def answered(read: Callable[..., Any], *arguments: Any) -> Response:
    """Return the answer to a request that reads files.

    Args:
        read: Reads them, in a thread, and returns the content of the answer.
        *arguments: What it is called with.

    Returns:
        The content; status 422 for a query that is none, 404 for what is not there or can't be read.
    """
    try:
        return json_response(await run_in_threadpool(read, *arguments))
    except ValidationError as error:
        return invalid_query(error)
    except (ConfigurationError, OSError) as error:
        return not_found(error)


def invalid_query(error: ValidationError) -> Response:
    """Return the answer to a query that is none."""
    return json_response({"detail": str(error.errors(include_url=False, include_context=False))}, 422)


def not_found(error: Exception) -> Response:
    """Return the answer to a request for what is not there or can't be read."""
    return json_response({"detail": str(error)}, 404)


def json_response(content: Any, status: int = 200) -> Response:
    """Return an answer that browsers do not keep."""
    return Response(json_of(content), status, HEADERS, media_type="application/json")


def json_of(content: Any) -> bytes:
    """Return a value as JSON; what JSON has no form for, as text."""
    return to_json(content, inf_nan_mode="null", bytes_mode="base64", fallback=str)
