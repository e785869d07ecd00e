"""Named tokens with roles and limits, in a file that is read again when its content changes.

The file is TOML with a table for each name: ``token`` is the token itself, or ``sha256`` its SHA-256 in hexadecimal:

    [trainer]
    sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    role = "play"
    max_sessions = 64
"""

import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.types import Scope

from openenv.core.documents import DocumentError, parse_toml, read_text
from openenv.core.exceptions import ConfigurationError

logger = logging.getLogger(__name__)

# Seconds after which the file is compared with what was read.
_INTERVAL_S = 1.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# Paths end, or go on, in the same way below any prefix of a proxy, of a mount or of a compared source.
_WATCHED = re.compile(r"/(?:metrics|sessions|fleet)/?$|/web/(?:html$|(?:live|traces|run|results|compare)/)")
_DESCRIBING = re.compile(r"^/$|/(?:metadata|schema|openapi\.json|web/config)$")
_RENDERING = re.compile(r"/web/view$")


class Role(StrEnum):
    """Role of a token: the requests that it allows."""

    PLAY = "play"
    """Play episodes, and call tools."""
    WATCH = "watch"
    """Read metrics, the table of sessions, sessions as they are played, and traces."""
    OPERATE = "operate"
    """Both, and what changes what is watched, such as a fork of another client's session."""


class NamedToken(NamedTuple):
    """Token with a name.

    Attributes:
        name: The name, which logs and metrics show.
        digest: SHA-256 of the token.
        role: The requests that it allows.
        max_sessions: Sessions at once; ``None`` for the server's limit of each client.
        max_messages_per_s: Messages in a second, of all connections together; ``None`` for the server's limit.
    """

    name: str
    digest: bytes
    role: Role
    max_sessions: int | None
    max_messages_per_s: float | None

    def allows(self, needed: Role | None) -> bool:
        """Return whether its role allows what needs a role; ``None`` is what each role allows."""
        return needed in (None, self.role) or self.role is Role.OPERATE


class _Entry(BaseModel):
    """Table of the file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    token: Annotated[str, Field(pattern=r"^[\x21-\x7e]+$")] | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{64}$")] | None = None
    role: Literal["play", "watch", "operate"]
    max_sessions: Annotated[int, Field(ge=1)] | None = None
    max_messages_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _check_token(self) -> Self:
        if (self.token is None) == (self.sha256 is None):
            raise ValueError("either token or sha256 is needed, and not both")
        return self

    def named(self, name: str) -> NamedToken:
        """Return the token."""
        digest = sha256(self.token.encode()).digest() if self.token is not None else bytes.fromhex(self.sha256 or "")
        return NamedToken(name, digest, Role(self.role), self.max_sessions, self.max_messages_per_s)


class TokenFile:
    """File of named tokens, read again when its content has changed.

    A file that can't be read, or is not valid, leaves the tokens as they were, and is an error in the log.

    Args:
        path: The file.
        clock: Returns the time in seconds.

    Attributes:
        refused: Requests that the role of a token did not allow, by its name.

    Raises:
        ConfigurationError: The file can't be read, or is not valid.
    """

    def __init__(self, path: str | Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.refused: Counter[str] = Counter()
        self._path = Path(path)
        self._clock = clock
        self._text = read_text(self._path)
        self._tokens = _tokens_in(self._text, self._path)
        # Why the file could not be read last time; "" where it could.
        self._problem = ""
        self._read_at = clock()

    @property
    def names(self) -> list[str]:
        """Names of the tokens."""
        return list(self._current())

    def find(self, sent: bytes) -> NamedToken | None:
        """Return the token that a request shows; ``None`` where it is none of them. The time says nothing about it."""
        digest, found = sha256(sent).digest(), None
        for token in self._current().values():
            if secrets.compare_digest(token.digest, digest):
                found = token
        return found

    def get(self, name: str) -> NamedToken | None:
        """Return the token of a name; ``None`` where the file has none any more."""
        return self._current().get(name)

    def _current(self) -> Mapping[str, NamedToken]:
        """Return the tokens by their names, after a look at the file if the last one was a second ago."""
        now = self._clock()
        if now - self._read_at >= _INTERVAL_S:
            self._read_at = now
            self._read_again()
        return self._tokens

    def _read_again(self) -> None:
        try:
            text = read_text(self._path)
            if text != self._text:
                self._tokens = _tokens_in(text, self._path)
                self._text = text
                logger.info("the tokens were read again; they are %s", ", ".join(self._tokens))
            self._problem = ""
        except (ConfigurationError, OSError) as error:  # OSError: a network lost the file while it was read
            if str(error) != self._problem:  # once, and not each second
                logger.error("the tokens stay as they were: %s", error)
            self._problem = str(error)


def _tokens_in(text: str, path: Path) -> dict[str, NamedToken]:
    """Return the tokens of a file by their names.

    Raises:
        ConfigurationError: The file is not valid; the message has none of its tokens.
    """
    try:
        tables = parse_toml(text)
    except DocumentError as error:
        raise ConfigurationError(f"{path}: is not valid TOML: {error}") from None
    tokens: dict[str, NamedToken] = {}
    names: dict[bytes, str] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ConfigurationError(
                f"{path}: expected a table for each name, as in [trainer], got a value at the top."
            )
        if _NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"{path}: expected names of 1 to 64 letters, digits, - and _, got one of other characters."
            )
        try:
            token = _Entry.model_validate(table).named(name)
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, (name, *found["loc"])))
            raise ConfigurationError(f"{path}: {where}: {found['msg']}.") from None
        other = names.setdefault(token.digest, name)
        if other != name:
            raise ConfigurationError(
                f"{path}: expected a token of its own for each name, but {other} and {name} share one."
            )
        tokens[name] = token
    if not tokens:
        raise ConfigurationError(f"{path}: expected a table for each token, as in [trainer], got none.")
    return tokens


def needed_role(scope: Scope) -> Role | None:
    """Return the role that a request needs; ``None`` where each role allows it. ``Role.OPERATE`` allows all.

    Args:
        scope: ASGI's description of the request, of type ``http`` or ``websocket``.

    Example:
        >>> needed_role({"type": "http", "method": "POST", "path": "/step"})
        <Role.PLAY: 'play'>
        >>> needed_role({"type": "http", "method": "GET", "path": "/metrics"})
        <Role.WATCH: 'watch'>
    """
    path = scope["path"]
    reads = scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD")
    if _WATCHED.search(path):
        return Role.WATCH if reads else Role.OPERATE
    if _RENDERING.search(path) or (scope["type"] == "http" and reads and _DESCRIBING.search(path)):
        return None
    return Role.PLAY
