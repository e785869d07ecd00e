"""Target: name of an environment, in any of the forms that commands and functions take."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from openenv.auto.dataset.reference import DATASET_FILE, HUB_SCHEME, is_dataset
from openenv.auto.manifest import MANIFEST_FILE
from openenv.core.addresses import reachable_url, server_address
from openenv.core.exceptions import EnvironmentNotFoundError
from openenv.core.providers.spaces import SPACE_ID
from openenv.hub.names import HUB_HOSTS, RepoName, is_hub_address, read_repo_name

_SCHEME = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9+.-]*)://")
_HTTP_SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_DATABASE_SCHEMES = ("postgresql", "postgres")
_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d+([/?#].*)?")
_FILE = re.compile(r"(?P<file>.+\.py)(:(?P<attribute>[A-Za-z_]\w*))?")
_ADAPTED = re.compile(r"[A-Za-z]\w*:[^/].*")
_IMAGE_PREFIX = "docker:"
_DATABASE_SUFFIX = ".db"


class TargetKind(StrEnum):
    """Kind of a target; the value is its name in messages."""

    NAME = "a name"
    FOLDER = "a folder"
    FILE = "a file of Python"
    CLASS = "a class"
    ADDRESS = "a server's address"
    ADAPTED = "PREFIX:ID"
    SPACE = "a Space"
    IMAGE = "docker:IMAGE"
    RECORDING = "a recording"
    DATASET = "a dataset's environment"


PACKAGED = frozenset({TargetKind.NAME, TargetKind.FOLDER, TargetKind.FILE, TargetKind.SPACE})
"""Kinds of environments with a package on this machine; a Space is downloaded."""

SERVED = PACKAGED | {TargetKind.ADAPTED}
"""Kinds of environments that a process of this machine serves, by a text."""

PLAYED = SERVED | {TargetKind.ADDRESS, TargetKind.IMAGE}
"""Kinds of environments that a client plays, by a text."""

MADE = PLAYED | {TargetKind.CLASS}
"""Kinds of environments that a client plays."""

NAMED = MADE | {TargetKind.DATASET}
"""Kinds of environments that ``AutoEnv`` makes a client of."""

_ADVICE: Mapping[TargetKind, str] = {
    TargetKind.ADDRESS: "a server's address; play on it with `openenv play {0}`",
    TargetKind.IMAGE: "an image; serve it with `docker run -p 127.0.0.1:8000:8000 {0}` and give http://localhost:8000",
    TargetKind.RECORDING: "a recording; look at it with `openenv view {0}`",
    TargetKind.DATASET: "a dataset's environment; play it with `openenv run {0} --split NAME`",
}


@dataclass(frozen=True)
class Target:
    """Name of an environment, in any of its forms.

    Attributes:
        kind: Its kind.
        text: Its text in one form: an address with its scheme, a path without ``~``, an image's name. A class's name.
        attribute: Name of the class, or of a function or an application, in a file; ``None`` for its only environment.
        source: The class, the function that makes an environment, or the instance; ``None`` for a target by text.
    """

    kind: TargetKind
    text: str
    attribute: str | None = None
    source: Any = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """Read a target. Nothing of it is imported, and no server is queried.

        Args:
            given: A text or a path; a class, a function that makes an environment, an instance; or a target.

        Raises:
            EnvironmentNotFoundError: It can't name an environment.

        Example:
            >>> [Target.of(each).kind.name for each in ("wordle", "./my_env", "guess.py:Guess", "localhost:8000")]
            ['NAME', 'FOLDER', 'FILE', 'ADDRESS']
            >>> Target.of("wss://example.org/wordle/web?theme=dark").text
            'https://example.org/wordle?theme=dark'
        """
        if isinstance(given, cls):
            return given
        if isinstance(given, str | os.PathLike):
            text = os.fsdecode(given)
            if not text.strip() or any(ord(character) < ord(" ") for character in text):
                raise EnvironmentNotFoundError(
                    f"Expected an environment's name, folder, file or address, got {text!r:.100}."
                )
            return cls._of_path(text) if isinstance(given, os.PathLike) else cls._of_text(text)
        if not is_source(given):
            raise EnvironmentNotFoundError(
                f"Expected an environment's name, folder, file, address or class, got {given!r:.100}."
            )
        return cls(TargetKind.CLASS, getattr(given, "__name__", type(given).__name__), source=given)

    @classmethod
    def _of_text(cls, text: str) -> Self:
        scheme = _SCHEME.match(text)
        if text.startswith(HUB_SCHEME):
            return cls(TargetKind.DATASET, text)
        if scheme is None and _FILE.fullmatch(text):
            return cls._of_path(text)
        if (space := _space(text)) is not None:
            return cls(TargetKind.SPACE, space)
        if scheme is not None:
            is_database = scheme["name"].lower() in _DATABASE_SCHEMES
            return cls(TargetKind.RECORDING, text) if is_database else cls(TargetKind.ADDRESS, _address(text))
        if text.startswith(_IMAGE_PREFIX):
            return cls(TargetKind.IMAGE, _image(text))
        found = _HOST_AND_PORT.fullmatch(text)
        if found is not None and found["host"] not in import_module("openenv.adapters").ADAPTERS:
            return cls(TargetKind.ADDRESS, _address(f"http://{text}"))
        if _ADAPTED.fullmatch(text):
            return cls(TargetKind.ADAPTED, text)
        path = _path(text)
        declares = any((path / file).is_file() for file in (MANIFEST_FILE, DATASET_FILE))
        if os.sep in text or text.startswith((".", "~")) or path.is_file() or declares:
            return cls._of_path(text)
        return cls(TargetKind.NAME, text)

    @classmethod
    def _of_path(cls, text: str) -> Self:
        found = _FILE.fullmatch(text)
        if found is not None:
            return cls(TargetKind.FILE, str(_path(found["file"])), found["attribute"])
        path = _path(text)
        if not (path / MANIFEST_FILE).is_file() and is_dataset(str(path)):
            return cls(TargetKind.DATASET, str(path))
        if path.is_file():
            return cls(TargetKind.RECORDING if path.suffix == _DATABASE_SUFFIX else TargetKind.FILE, str(path))
        return cls(TargetKind.FOLDER, str(path) if text.startswith("~") else text)  # ./name stays a folder

    def __str__(self) -> str:
        """Return the text, with the name of a class in a file."""
        return self.text if self.attribute is None else f"{self.text}:{self.attribute}"

    @property
    def repo(self) -> RepoName:
        """The repository of a Space."""
        return read_repo_name(self.text)

    @property
    def host(self) -> str:
        """The host of an address."""
        return urlsplit(self.text).hostname or self.text

    def required(self, kinds: Collection[TargetKind], entrance: str) -> Self:
        """Return the target, if its kind is among those that an entrance takes.

        Raises:
            EnvironmentNotFoundError: It is of another kind; the message names those that the entrance takes.

        Example:
            >>> Target.of("wordle").required(SERVED, "`openenv serve`").text
            'wordle'
        """
        if self.kind in kinds:
            return self
        *others, last = [kind.value for kind in TargetKind if kind in kinds]
        accepted = f"{', '.join(others)} or {last}" if others else last
        described = _ADVICE.get(self.kind, self.kind.value).format(self.text)
        raise EnvironmentNotFoundError(f"{entrance} takes {accepted}; {self} is {described}.")


def is_source(value: Any) -> bool:
    """Return whether a value can be an environment's class, a function that makes one, or an instance."""
    if callable(value) and not isinstance(value, type):
        return True
    return all(callable(getattr(value, name, None)) for name in ("reset", "step"))


def is_address(target: Any) -> bool:
    """Return whether a target is a server's address.

    Example:
        >>> [is_address(target) for target in ("http://host:8000", "localhost:8000", "wordle", "./my_env")]
        [True, True, False, False]
    """
    return Target.of(target).kind is TargetKind.ADDRESS


def _path(text: str) -> Path:
    """Return the path of a file or folder, without ``~``.

    Raises:
        EnvironmentNotFoundError: There can be none: its name is too long, or ``~`` names no user.
    """
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:
        raise EnvironmentNotFoundError(f"There is no file or folder {text:.100}: {error!s:.100}") from error
    return path


def _space(text: str) -> str | None:
    """Return the Space that a text names: ``OWNER/NAME``, or the address of its page; ``None`` for any other text."""
    if text.partition("/")[0] in HUB_HOSTS:
        text = f"https://{text}"
    if re.fullmatch(SPACE_ID, text, re.ASCII):
        return None if _path(text).exists() or is_dataset(text) else text
    try:
        repo = read_repo_name(text) if is_hub_address(text) else None
    except ValueError:  # a page of the Hub that is no repository's, or no address
        return None
    if repo is None or repo.kind == "dataset":
        return None
    if repo.kind == "space":
        return text.rstrip("/")
    return repo.id if urlsplit(text).hostname in HUB_HOSTS else None  # an address without /spaces


def _address(text: str) -> str:
    """Return the address of a server over HTTP for that of its socket or page."""
    scheme, _, rest = text.partition("://")
    known = _HTTP_SCHEMES.get(scheme.lower())
    url = reachable_url(server_address(f"{known}://{rest}"))
    try:
        parts = urlsplit(url)
        is_good = known is not None and bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:  # a port of letters or above 65535, half a bracket
        is_good = False
    if not is_good:
        raise EnvironmentNotFoundError(f"Expected a server's address, as in http://localhost:8000, got {text!r:.200}.")
    return url


def _image(text: str) -> str:
    image = text.removeprefix(_IMAGE_PREFIX)
    if not image or any(character.isspace() for character in image) or image.startswith("-"):
        raise EnvironmentNotFoundError(
            f"Expected an image as docker:IMAGE, as in docker:echo-env:latest, got {text!r}."
        )
    return image
