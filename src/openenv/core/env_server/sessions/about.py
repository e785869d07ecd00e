"""Metadata of the server's environment: name, description, version and README.

The environment's ``get_metadata`` comes first. Fields that it leaves at their default come from the manifest
(``openenv.yaml``) beside the environment's class, and from the class's docstring; the README comes from the file beside
the manifest, or from the file named by the variable ``ENV_README_PATH``.
"""

import inspect
import logging
import os
from collections.abc import Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from openenv.core.documents import open_regular, read_yaml
from openenv.core.env_server.sessions.manager import SessionManager
from openenv.core.exceptions import ConfigurationError, RequestError
from openenv.core.wire.types import EnvironmentMetadata

logger = logging.getLogger(__name__)

_README_VARIABLE = "ENV_README_PATH"
_MANIFEST = "openenv.yaml"
_LARGEST_README = 1024 * 1024
_FROM_MANIFEST = ("name", "description", "version")
# The version that ``Environment.get_metadata`` returns by default.
_DEFAULT_VERSION = "1.0.0"


class About:
    """Metadata of the server's environment.

    Args:
        sessions: The server's sessions, one of which calls ``get_metadata``.
        name: Name of the environment in the server's configuration.
    """

    def __init__(self, sessions: SessionManager, name: str) -> None:
        self._sessions = sessions
        self._name = name

    @cached_property
    def own(self) -> EnvironmentMetadata:
        """Metadata from the manifest, docstring and README; needs no environment instance."""
        written = {
            "name": self._name,
            "description": self._docstring or f"{self._name} environment",
            "version": _DEFAULT_VERSION,
            **self.manifest,
        }
        return EnvironmentMetadata(**written, readme_content=self._readme)

    def completed(self, answer: Any) -> Any:
        """Complete the environment's metadata with that of manifest, docstring and README.

        Args:
            answer: The result of ``get_metadata``; returned unchanged unless it is metadata or a dict.
        """
        own = answer.model_dump() if isinstance(answer, EnvironmentMetadata) else answer
        if not isinstance(own, dict):
            return answer
        readme = {"readme_content": own.get("readme_content") or self._readme}
        if own.get("description") == f"{own.get('name')} environment" and own.get("version") == _DEFAULT_VERSION:
            return {**own, **self.own.model_dump(include=set(_FROM_MANIFEST)), **readme}
        return {**own, **readme}

    async def metadata(self) -> Mapping[str, Any]:
        """Return the metadata; if ``get_metadata`` fails, only that of manifest, docstring and README."""
        try:
            answer = self.completed(await self._sessions.metadata())
        except RequestError as error:
            logger.debug("get_metadata failed: %s", error.message)
            return self.own.model_dump()
        return answer if isinstance(answer, dict) else self.own.model_dump()

    async def readme(self) -> str | None:
        """Return the README; ``None`` if there is none."""
        readme = (await self.metadata()).get("readme_content")
        return readme if isinstance(readme, str) else None

    @property
    def _source(self) -> Any:
        """The class or function that creates environments."""
        source = self._sessions.factory.environment_class or self._sessions.factory.source
        while isinstance(source, partial):
            source = source.func
        return source

    @property
    def _docstring(self) -> str:
        """First paragraph of the class's own docstring."""
        own = vars(self._source).get("__doc__") if isinstance(self._source, type) else None
        return " ".join(inspect.cleandoc(own or "").partition("\n\n")[0].split())

    @cached_property
    def _folder(self) -> Path | None:
        """Folder of the environment's manifest; ``None`` if there is none."""
        try:
            source = inspect.getsourcefile(self._source)
        except (TypeError, OSError):  # the class has no source file
            return None
        folders = () if source is None else Path(source).resolve().parents
        return next((folder for folder in folders if (folder / _MANIFEST).is_file()), None)

    @cached_property
    def manifest(self) -> dict[str, str]:
        """Name, description and version of the manifest, those that it has."""
        if self._folder is None:
            return {}
        try:
            keys = read_yaml(self._folder / _MANIFEST)
        except ConfigurationError as error:
            logger.debug("the manifest can't be read: %s", error)
            return {}
        known = keys if isinstance(keys, dict) else {}
        return {key: str(known[key]) for key in _FROM_MANIFEST if known.get(key)}

    @cached_property
    def _readme(self) -> str | None:
        return find_readme([] if self._folder is None else [self._folder / "README.md"])


def find_readme(files: Iterable[Path]) -> str | None:
    """Return a README: of the file that ``ENV_README_PATH`` names, if it is set, else of the first file that is there.

    Args:
        files: The files.

    Returns:
        The text; ``None`` where no file can be read.
    """
    named = os.environ.get(_README_VARIABLE)
    texts = map(_text_of, [Path(named)] if named else files)
    return next((text for text in texts if text is not None), None)


def _text_of(file: Path) -> str | None:
    """Read a README; return ``None`` if the file can't be read or is larger than ``_LARGEST_README``."""
    try:
        with open_regular(file) as opened:
            content = opened.read(_LARGEST_README + 1)
    except (ConfigurationError, OSError) as error:
        logger.debug("%s can't be read: %s", file.name, error)
        return None
    return content.decode(errors="replace") if len(content) <= _LARGEST_README else None
