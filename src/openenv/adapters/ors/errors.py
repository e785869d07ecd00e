"""Errors of an ORS server, as errors of OpenEnv."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from openreward.api.environments.types import AuthenticationError
from openreward.api.errors import OpenRewardError, SessionTerminatedError

from openenv.core.exceptions import EnvironmentFailedError, TaskNotFoundError

_NO_SUCH_TASK = 400
_BUSY = (429, 503)
_SESSION = re.compile(r"\(\w+ session sid=[^)]*\)\s*")


@contextmanager
def as_ours(target: str) -> Iterator[None]:
    """Raise our errors instead of those of the SDK.

    Raises:
        TaskNotFoundError: The server has no such task or split.
        EnvironmentFailedError: It refuses, can't be reached, or has ended the session.
    """
    try:
        yield
    except aiohttp.ClientResponseError as error:
        if error.status == _NO_SUCH_TASK:
            raise TaskNotFoundError(str(error.message)) from error
        meaning = "has no free session now" if error.status in _BUSY else f"answers with status {error.status}"
        raise EnvironmentFailedError(f"The ORS server {target} {meaning}: {error.message}") from error
    except AuthenticationError as error:
        raise EnvironmentFailedError(
            f"The ORS server {target} requires a key, or another key; set OPENREWARD_API_KEY, or pass api_key=."
        ) from error
    except (OpenRewardError, aiohttp.ClientError, OSError) as error:
        raise EnvironmentFailedError(f"The ORS server {target} failed: {message_of(error)}") from error


def message_of(error: Exception) -> str:
    """Return an error's message without the name of the session, with which others could play in it."""
    if isinstance(error, SessionTerminatedError):
        return str(error.reason)
    return _SESSION.sub("", str(error))
