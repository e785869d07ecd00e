"""What an environment is: its name, description, version and README, as its author wrote them down.

An environment's ``get_metadata`` has the last word. What that leaves at its default comes from the manifest
(``openenv.yaml``) beside the environment's class, and from the class's docstring; the README from the file beside the
manifest, or from the file that the variable ``ENV_README_PATH`` names.
"""

import inspect
import logging
import os
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from openenv.core.documents import read_yaml
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.core.exceptions import ConfigurationError, RequestError

logger = logging.getLogger(__name__)

_README_VARIABLE = "ENV_README_PATH"
_MANIFEST = "openenv.yaml"
_LARGEST_README = 1024 * 1024
_FROM_MANIFEST = ("name", "description", "version")
# What ``Environment.get_metadata`` says of every class.
_DEFAULT_VERSION = "1.0.0"


class About:
    """What the environment of a server is.

    Args:
        sessions: Where to ask the environment.
        name: What the server calls it.
    """

    def __init__(self, sessions: Sessions, name: str) -> None:
        self._sessions = sessions
        self._name = name

    @cached_property
    def own(self) -> EnvironmentMetadata:
        """What is written down: no environment is made for it."""
        written = {
            "name": self._name,
            "description": self._docstring or f"{self._name} environment",
            "version": _DEFAULT_VERSION,
            **self._manifest,
        }
        return EnvironmentMetadata(**written, readme_content=self._readme)

    def completed(self, answer: Any) -> Any:
        """Complete what an environment says of itself by what is written down.

        Args:
            answer: What its ``get_metadata`` returned. Anything but metadata or a dict stays what it is.
        """
        said = answer.model_dump() if isinstance(answer, EnvironmentMetadata) else answer
        if not isinstance(said, dict):
            return answer
        readme = {"readme_content": said.get("readme_content") or self._readme}
        if said.get("description") == f"{said.get('name')} environment" and said.get("version") == _DEFAULT_VERSION:
            return {**said, **self.own.model_dump(include=set(_FROM_MANIFEST)), **readme}
        return {**said, **readme}

    async def metadata(self) -> Mapping[str, Any]:
        """Say what the environment is; where it can't say, what is written down has to do."""
        try:
            answer = self.completed(await self._sessions.metadata())
        except RequestError as error:
            logger.debug("the environment can't say what it is: %s", error.message)
            return self.own.model_dump()
        return answer if isinstance(answer, dict) else self.own.model_dump()

    async def readme(self) -> str | None:
        """Return the README; ``None`` where there is none."""
        readme = (await self.metadata()).get("readme_content")
        return readme if isinstance(readme, str) else None

    @property
    def _source(self) -> Any:
        """What was written to make environments: their class, or a function."""
        source = self._sessions.factory.environment_class or self._sessions.factory.source
        while isinstance(source, partial):
            source = source.func
        return source

    @property
    def _docstring(self) -> str:
        """The first paragraph of the class's own docstring."""
        own = vars(self._source).get("__doc__") if isinstance(self._source, type) else None
        return " ".join(inspect.cleandoc(own or "").partition("\n\n")[0].split())

    @cached_property
    def _folder(self) -> Path | None:
        """The folder with the environment's manifest."""
        try:
            source = inspect.getsourcefile(self._source)
        except (TypeError, OSError):  # what was made without a file
            return None
        folders = () if source is None else Path(source).resolve().parents
        return next((folder for folder in folders if (folder / _MANIFEST).is_file()), None)

    @cached_property
    def _manifest(self) -> dict[str, str]:
        if self._folder is None:
            return {}
        try:
            keys = read_yaml(self._folder / _MANIFEST)
        except ConfigurationError as error:
            logger.debug("the manifest says nothing: %s", error)
            return {}
        known = keys if isinstance(keys, dict) else {}
        return {key: str(known[key]) for key in _FROM_MANIFEST if known.get(key)}

    @cached_property
    def _readme(self) -> str | None:
        named = os.environ.get(_README_VARIABLE)
        if named:
            return _text_of(Path(named))
        return None if self._folder is None else _text_of(self._folder / "README.md")


def _text_of(file: Path) -> str | None:
    """Read a README; ``None`` where there is none, or one that is too large to be one."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST_README + 1)
    except OSError as error:
        logger.debug("%s can't be read: %s", file.name, error)
        return None
    return content.decode(errors="replace") if len(content) <= _LARGEST_README else None
