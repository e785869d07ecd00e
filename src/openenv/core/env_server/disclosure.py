"""What a client is told of an error: no path of the server, no secret and, unless the server debugs, no traceback.

The server's own log keeps everything.
"""

import os
import re
import traceback
from pathlib import Path
from typing import Any

import openenv
from openenv.core.exceptions import RemoteTracebackError, RequestError

_SECRET_NAME = re.compile(rb"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
# A shorter value is likely to be part of other words.
_SHORTEST_SECRET = 8
_REDACTED = "[redacted]"
# What origin_of writes.
_ORIGIN = re.compile(r"(?P<name>\w+)(?:: (?P<message>.*?))?(?: \(.*, line \d+, in [^ ]+\))?", re.DOTALL)

# The quantifier of the scheme is bounded, so that a long word is not read anew from each of its letters.
_PATH = re.compile(
    r"""
    (?P<url> (?!file:)[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s'"/][^\s'"]* )
    | (?:file://)? (?P<path> (?<=['"]) /[^'"\n]+ (?=['"]) | /[^\s'"<>|()\[\]{},;:]+ )
    """,
    re.VERBOSE,
)
# What calls an environment's method is of no interest to its author.
_OWN_CODE = f"{Path(openenv.__file__).parent}{os.sep}"
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/\s:@'\"]{0,200}:[^/\s@'\"]{1,200}@")


def without_secrets(value: Any) -> Any:
    """Take paths and secrets out of a message, or out of every text of a JSON document.

    An absolute path of this machine is cut to its last part. A secret is the value of an environment variable whose
    name says so (``TOKEN``, ``KEY``, ``SECRET``, ``PASSWORD`` and the like), from eight characters on, or a password
    in a URL.

    Args:
        value: A text, or lists and dictionaries of whatever JSON has.

    Example:
        >>> without_secrets("No such file: '/usr/share/dict/words'")
        "No such file: '.../words'"
    """
    return _without(value, _secrets())


def message_of(raised: BaseException) -> str:
    """Return what an exception says, or the name of its class where it says nothing or can't say it."""
    try:
        return str(raised) or type(raised).__name__
    except Exception:  # noqa: BLE001  # an exception's own __str__ may do anything
        return type(raised).__name__


def add_traceback(error: RequestError, raised: BaseException | None = None) -> None:
    """Have the client told what the environment raised and where; for servers that debug.

    Args:
        error: What the client is to be told.
        raised: What the environment raised; by default the error's cause, and nothing happens where it has none.
    """
    raised = raised or error.__cause__
    if raised is not None and error.traceback is None:
        error.traceback = traceback_text(raised)
        error.message = error.origin or error.message


def origin_of(raised: BaseException) -> str:
    """Say what was raised and where, for the author: the type, the message, and the line of the author's own file.

    The line is the deepest in the folder of the method that was called: not one of a library that it calls.

    Example:
        >>> origin_of(KeyError("missing"))
        "KeyError: 'missing'"
    """
    name = type(raised).__name__
    message = message_of(raised)
    text = name if message == name else f"{name}: {message}"
    places = [(frame.f_code, line) for frame, line in traceback.walk_tb(raised.__traceback__)]
    places = [(code, line) for code, line in places if not code.co_filename.startswith(_OWN_CODE)]
    if not places:
        return text
    folder = os.path.dirname(places[0][0].co_filename)  # noqa: PTH120  # it may be no path at all, as <string>
    code, line = next(place for place in reversed(places) if place[0].co_filename.startswith(folder))
    return f"{text} ({code.co_filename}, line {line}, in {code.co_name})"


def without_origin(text: str) -> str:
    """Return the message in what ``origin_of`` wrote, as a server that does not debug has it.

    Example:
        >>> without_origin("ValueError: it fell (/envs/walk.py, line 8, in step)")
        'it fell'
    """
    found = _ORIGIN.fullmatch(text)
    return text if found is None else found["message"] or found["name"]


def traceback_text(raised: BaseException) -> str:
    """Write an exception with its traceback, wherever it was raised."""
    if isinstance(raised, RemoteTracebackError):
        return str(raised)
    try:
        return "".join(traceback.format_exception(raised))
    except Exception:  # noqa: BLE001  # an exception's own attributes may do anything
        return type(raised).__name__


def _secrets() -> list[str]:
    """List the values that nobody is to see, longest first: one may be part of another."""
    values = {
        os.fsdecode(value)
        for name, value in os.environb.items()
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name)
    }
    return sorted(values, key=len, reverse=True)


def _without(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return _without_in_text(value, secrets)
    if isinstance(value, list):
        return [_without(inner, secrets) for inner in value]
    if isinstance(value, dict):
        return {_without(key, secrets): _without(inner, secrets) for key, inner in value.items()}
    return value


def _without_in_text(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, _REDACTED)
    if "/" not in text:
        return text
    return _PATH.sub(_last_part, _PASSWORD_IN_URL.sub(f"{_REDACTED}@", text))


def _last_part(match: re.Match[str]) -> str:
    if match["url"] is not None:
        return match["url"]
    top, _, rest = match["path"].lstrip("/").partition("/")
    # /api/users may be a route, and no path of this machine.
    if not top or not os.path.lexists(f"/{top}"):
        return match[0]
    return f".../{rest.rstrip('/').rpartition('/')[2] or top}"
