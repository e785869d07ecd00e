"""Answers of the routes that the pages of traces, runs and evaluations read: JSON, and faults with a status."""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from openenv.core.exceptions import ConfigurationError

HEADERS = {"Cache-Control": "no-store"}


async def answered(read: Callable[..., Any], *arguments: Any) -> Response:
    """Return the answer to a request that reads files: 422 for an invalid query, 404 for what can't be read."""
    try:
        return json_response(await run_in_threadpool(read, *arguments))
    except ValidationError as error:
        return invalid_query(error)
    except (ConfigurationError, OSError) as error:
        return not_found(error)


def invalid_query(error: ValidationError) -> Response:
    """Return the answer to an invalid query."""
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
