"""The README of an environment, for agents to read."""

import inspect
import logging
import os
from pathlib import Path
from typing import Any

from openenv.core.env_server.sessions import Sessions
from openenv.core.exceptions import RequestError

logger = logging.getLogger(__name__)

_VARIABLE = "ENV_README_PATH"
_MANIFEST = "openenv.yaml"


class Readme:
    """A README: the one in the environment's metadata, or the file beside its manifest.

    Args:
        sessions: Where to ask the environment.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._known = False
        self._text: str | None = None

    async def text(self) -> str | None:
        """Return it; ``None`` where there is none. It is looked for once."""
        if not self._known:
            self._text = await self._told() or self._file()
            self._known = True
        return self._text

    async def _told(self) -> str | None:
        try:
            metadata: Any = await self._sessions.metadata()
        except RequestError as error:
            logger.debug("the environment can't say what it is: %s", error.message)
            return None
        about = metadata if isinstance(metadata, dict) else vars(metadata)
        told = about.get("readme_content")
        return told if isinstance(told, str) else None

    def _file(self) -> str | None:
        named = os.environ.get(_VARIABLE)
        path = Path(named) if named else self._beside_manifest()
        try:
            return None if path is None else path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            logger.debug("there is no README: %s", error)
            return None

    def _beside_manifest(self) -> Path | None:
        cls = self._sessions.factory.environment_class
        try:
            source = None if cls is None else inspect.getsourcefile(cls)
        except TypeError:  # a class that was made without a file
            source = None
        if source is None:
            return None
        return next(
            (folder / "README.md" for folder in Path(source).resolve().parents if (folder / _MANIFEST).exists()), None
        )
