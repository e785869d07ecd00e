"""Redaction of paths, secrets and tracebacks in errors for clients, and of credentials in logs of both ends.

The server's own log keeps an error's text whole.
"""

import logging
import os
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

from openenv._version import PACKAGE_FOLDER
from openenv.core.addresses import passwords_in
from openenv.core.exceptions import RemoteTracebackError, RequestError
from openenv.core.wire.names import AGENT_HEADER, API_KEY_HEADER, ORS_HEADER, SESSION_HEADER, public_name

_HEADERS = ("Authorization", "Proxy-Authorization", "Cookie", API_KEY_HEADER, SESSION_HEADER, AGENT_HEADER, ORS_HEADER)
_CREDENTIALS = frozenset(header.lower() for header in _HEADERS)
_SECRET_NAME = re.compile(rb"TOKEN|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
# Further names of variables that code of agents must not have. Their values may be ordinary words, which texts keep.
_ACCESS_NAME = re.compile(
    rb"PASS(?:_|$)|_PWD$|(?:^|_)(?:PAT|AUTH)(?:_|$)|CONN(?:ECTION)?_?STR|DSN(?:_|$)|^DBUS_SESSION_BUS_ADDRESS$",
    re.IGNORECASE,
)
# Parameter of the query of an address. Its value ends before what may follow an address in a text.
_PARAMETER = re.compile(r"(?P<before>[?&;](?P<name>[^=&;?\s]{1,100})=)(?P<rest>[^&\s]++)")
_AFTER_ADDRESS = "\"'),.>]"
_SECRET_PARAMETER = re.compile(
    r"token|key|secret|passw|passphrase|credential|auth|bearer|jwt|signature|^(?:pass|pwd|pw|pat|sig|sid)$",
    re.IGNORECASE,
)
# A shorter value is likely to be part of other words.
_SHORTEST_SECRET = 8
_REDACTED = "[redacted]"
# Secrets that this process was given in other ways than by variables.
_remembered: set[str] = set()
# Form of the text of origin_of: a message, after its class unless it is that of a component, and a line of a file.
_CLASS = re.compile(r"(\w+)(?:: |\Z)")
_COMPONENT = re.compile(r"The reward component '.*?' raised ", re.DOTALL)
_LINE = re.compile(r", line \d+, in [^ ]+\)")

# The quantifier of the scheme is bounded, so that a long word is not scanned again from each of its letters.
_PATH = re.compile(
    r"""
    (?P<url> (?!file:)[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s'"/][^\s'"]* )
    | (?:file://)? (?P<path> (?<=['"]) /[^'"\n]+ (?=['"]) | /[^\s'"<>|()\[\]{},;:]+ )
    """,
    re.VERBOSE,
)
# Callers of an environment's method are of no interest to its author.
_OWN_CODE = f"{PACKAGE_FOLDER}{os.sep}"
_PASSWORD_IN_URL = re.compile(r"(?<=://)[^/\s:@'\"]{0,200}:[^/\s@'\"]{1,200}@")
_PASSWORD_IN_URL_BYTES = re.compile(_PASSWORD_IN_URL.pattern.encode())


class HiddenCredentials(logging.Filter):
    """Filter that removes credentials from log records of other libraries: those in headers and in addresses.

    At debug level, ``websockets`` logs the headers of handshakes; uvicorn logs the address of each request.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the credentials in a record; no record is dropped."""
        arguments = record.args
        if isinstance(arguments, tuple) and arguments:
            if len(arguments) == 2 and str(arguments[0]).lower() in _CREDENTIALS:
                record.args = (arguments[0], _REDACTED)
            else:
                record.args = tuple(without_credentials(each) if type(each) is str else each for each in arguments)
        elif isinstance(record.msg, str) and not arguments:
            record.msg = without_credentials(record.msg)
        if record.exc_info and record.exc_text is None:
            traced = _FORMATTER.formatException(record.exc_info)
            shown = without_credentials(traced)
            record.exc_text = None if shown == traced else shown
        return True


_FORMATTER = logging.Formatter()


def without_credentials(text: str) -> str:
    """Return a text in which the addresses have no tokens, keys and passwords in their queries, and no ids of sessions.

    Example:
        >>> without_credentials("GET /ws?token=hunter2&seed=3 HTTP/1.1")
        'GET /ws?token=[redacted]&seed=3 HTTP/1.1'
    """
    return _PARAMETER.sub(_without_value, text) if "=" in text else text


def _without_value(match: re.Match[str]) -> str:
    name = unquote_plus(match["name"])
    value = match["rest"].rstrip(_AFTER_ADDRESS) or match["rest"][0]
    after = match["rest"][len(value) :]
    if name == "session_id":
        return f"{match['before']}{public_name(value)}{after}"
    return f"{match['before']}{_REDACTED}{after}" if _SECRET_PARAMETER.search(name) else match[0]


def redact(value: Any) -> Any:
    """Return a message, or a JSON document, without paths and secrets in its texts.

    An absolute path of this machine is cut to its last part. A secret is a password in a URL, or the value, of eight
    characters or more, of an environment variable with a name like ``TOKEN``, ``KEY``, ``SECRET`` or ``PASSWORD``.

    Args:
        value: A text, or a JSON document of lists and dictionaries.

    Example:
        >>> redact("No such file: '/usr/share/dict/words'")
        "No such file: '.../words'"
    """
    return _replaced(value, partial(_without_in_text, secret_values()))


def without_secrets(value: Any, secrets: Sequence[str]) -> Any:
    """Return a text, or a JSON document, without secrets and passwords in URLs; paths stay.

    Args:
        value: A text, or a JSON document of lists and dictionaries.
        secrets: The secrets, in the order of ``longest_first``.
    """
    return _replaced(value, partial(_without_values, secrets))


def longest_first(secrets: Iterable[str | None]) -> list[str]:
    """Return secrets in the order in which they are replaced, as one may be part of another, without empty ones."""
    return sorted(filter(None, secrets), key=len, reverse=True)


def holds_password(content: bytes) -> bool:
    """Return whether a text, as UTF-8, has a URL with a password."""
    # The search for a single byte is the quickest.
    return b"@" in content and b"://" in content and _PASSWORD_IN_URL_BYTES.search(content) is not None


def message_of(raised: BaseException) -> str:
    """Return an exception's message, or the name of its class if the message is empty or raises."""
    try:
        return str(raised) or type(raised).__name__
    except Exception:  # noqa: BLE001  # an exception's own __str__ may do anything
        return type(raised).__name__


def add_traceback(error: RequestError, raised: BaseException | None = None) -> None:
    """Add the environment's exception and its traceback to an error for the client; for servers with ``debug``.

    Args:
        error: The error for the client.
        raised: The environment's exception; by default the error's cause. Without either, nothing is added.
    """
    raised = raised or error.__cause__
    if raised is not None and error.traceback is None:
        error.traceback = traceback_text(raised)
        error.message = error.origin or error.message


def origin_of(raised: BaseException) -> str:
    """Return an exception's type, its message, and the line of the author's own file that raised it.

    The line is the deepest one in the folder of the called method, so that it is not one of a library.

    Example:
        >>> origin_of(KeyError("missing"))
        "KeyError: 'missing'"
    """
    name = type(raised).__name__
    message = message_of(raised)
    text = name if message == name else f"{name}: {message}"
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(raised.__traceback__)]
    frames = [(code, line) for code, line in frames if not code.co_filename.startswith(_OWN_CODE)]
    if not frames:
        return text
    folder = os.path.dirname(frames[0][0].co_filename)  # noqa: PTH120  # it may be no path at all, as <string>
    code, line = next(frame for frame in reversed(frames) if frame[0].co_filename.startswith(folder))
    return f"{text} ({code.co_filename}, line {line}, in {code.co_name})"


def without_origin(text: str) -> str:
    """Return the message in a text of ``origin_of``, for a server without ``debug``.

    Example:
        >>> without_origin("ValueError: it fell (/envs/walk.py, line 8, in step)")
        'it fell'
        >>> without_origin("The reward component 'speed' raised KeyError: 'left' (/envs/walk.py, line 8, in forward)")
        "The reward component 'speed' raised KeyError: 'left'"
    """
    component = _COMPONENT.match(text)
    end = text.rfind(", line ")
    if end >= 0 and _LINE.fullmatch(text, end):
        begin = text.find(" (", component.end() if component else 0, end)
        text = text if begin < 0 else text[:begin]
    found = None if component else _CLASS.match(text)
    return text if found is None else text[found.end() :] or found[1]


def traceback_text(raised: BaseException) -> str:
    """Return an exception with its traceback, also of another process."""
    if isinstance(raised, RemoteTracebackError):
        return str(raised)
    try:
        return "".join(traceback.format_exception(raised))
    except Exception:  # noqa: BLE001  # an exception's own attributes may do anything
        return type(raised).__name__


def remember_secret(value: str | None) -> None:
    """Have a secret of this process removed from errors and traces, as the value of a variable is.

    Args:
        value: The secret, such as a key; ``None`` and values of fewer than eight characters are ignored.
    """
    if value is not None and len(value) >= _SHORTEST_SECRET:
        _remembered.add(value)


def withheld_variables() -> list[str]:
    """List the names of the environment variables of this process that code of agents must not have.

    They are those whose names say that they are secret or give access to a service, and those that hold a URL with a
    password.
    """
    return sorted(os.fsdecode(name) for name, value in os.environb.items() if _gives_access(name, value))


def _gives_access(name: bytes, value: bytes) -> bool:
    if _SECRET_NAME.search(name) or _ACCESS_NAME.search(name) or holds_password(value):
        return True
    return bool(passwords_in(os.fsdecode(value)))


def secret_values() -> list[str]:
    """List the secrets of this process, longest first: one may be part of another.

    They are the secret values of its environment variables, and what ``remember_secret`` was called with.
    """
    values = _remembered | {
        os.fsdecode(value)
        for name, value in os.environb.items()
        if len(value) >= _SHORTEST_SECRET and _SECRET_NAME.search(name)
    }
    return longest_first(values)


def _replaced(value: Any, replace: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [_replaced(inner, replace) for inner in value]
    if isinstance(value, dict):
        return {_replaced(key, replace): _replaced(inner, replace) for key, inner in value.items()}
    return value


def _without_values(secrets: Sequence[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, _REDACTED)
    return _PASSWORD_IN_URL.sub(f"{_REDACTED}@", text) if "://" in text else text


def _without_in_text(secrets: Sequence[str], text: str) -> str:
    text = _without_values(secrets, text)
    return _PATH.sub(_last_part, text) if "/" in text else text


def _last_part(match: re.Match[str]) -> str:
    if match["url"] is not None:
        return match["url"]
    top, _, rest = match["path"].lstrip("/").partition("/")
    # /api/users may be a route instead of a path of this machine.
    if not top or not os.path.lexists(f"/{top}"):
        return match[0]
    return f".../{rest.rstrip('/').rpartition('/')[2] or top}"
