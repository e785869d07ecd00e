"""Answers of the routes that the pages of traces, runs and evaluations read: JSON, and faults with a status."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from openenv.core.documents import without_half_pairs
from openenv.core.exceptions import ConfigurationError

_Folder = TypeVar("_Folder")

HEADERS = {"Cache-Control": "no-store"}


def folder_routes(
    below: str, folder: _Folder, answers: Mapping[str, Callable[[_Folder, Mapping[str, str]], Any]]
) -> list[BaseRoute]:
    """Return the routes that show a folder.

    Args:
        below: Path that theirs begin with.
        folder: The folder.
        answers: Functions of the folder and a query, by the rest of the path.
    """
    return [
        Route(below + name, partial(_folder_answer, folder, answer), include_in_schema=False)
        for name, answer in answers.items()
    ]


async def _folder_answer(
    folder: _Folder, answer: Callable[[_Folder, Mapping[str, str]], Any], request: Request
) -> Response:
    return await answered(answer, folder, dict(request.query_params))


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
    """Return a value as JSON; what JSON has no form for, as text, and half of a surrogate pair as a question mark."""
    try:
        return to_json(content, inf_nan_mode="null", bytes_mode="base64", fallback=str)
    except PydanticSerializationError:
        plain = to_jsonable_python(content, inf_nan_mode="null", bytes_mode="base64", fallback=str)
        return to_json(without_half_pairs(plain))
