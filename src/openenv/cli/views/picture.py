"""Pictures of an environment in the terminal, or in a file where a terminal can't show them."""

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from openenv.core.env_server.pictures import TEXT, Picture
from openenv.core.exceptions import ServerError
from openenv.core.schema.reader import image_fields, pixel_fields
from openenv.core.sync_client import SyncEnvClient
from openenv.core.wire.media import pixels_of_rows
from openenv.core.wire.results import PNG, png_of

SUFFIXES = {
    "text/html": ".html",
    "image/svg+xml": ".svg",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
}


class PictureFields:
    """The fields of an observation that are pictures, as the schema declares them."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._pixels = pixel_fields(schema)
        self._images = image_fields(schema)

    def pictures(self, observation: Mapping[str, Any]) -> dict[str, Picture]:
        """Return the pictures in an observation by the names of their fields."""
        found: dict[str, Picture] = {}
        for name in self._pixels & observation.keys():
            pixels = pixels_of_rows(observation[name])
            if pixels is not None:
                found[name] = Picture(media_type=PNG, content=base64.b64encode(png_of(pixels)).decode())
        for name, kind in self._images.items():
            if isinstance(observation.get(name), str):
                found[name] = Picture(media_type=kind, content=observation[name])
        return found


class Pictures:
    """The pictures of a game.

    A server that has none, or whose environment fails to draw, gets one request for each episode.
    """

    def __init__(self, client: SyncEnvClient[Any, Any, Any]) -> None:
        self._client = client
        self._may_request = True
        self._folder: Path | None = None
        self._count = 0

    def begin_episode(self) -> None:
        """Request pictures again, where the last episode's failed."""
        self._may_request = True

    def render(self) -> Picture | None:
        """Request a picture of the episode as it is now; ``None`` where there is none."""
        if not self._may_request:
            return None
        try:
            return self._client.render()
        except ServerError:
            self._may_request = False
            return None

    def view(self, picture: Picture) -> Text:
        """Make a picture readable: text with its colours, and of anything else the file that it was written to."""
        if picture.media_type == TEXT:
            return Text.from_ansi(picture.content.rstrip("\n"))
        file = self._keep(picture)
        return Text(f"picture: {file}", style=f"dim link {file.as_uri()}", overflow="fold")

    def _keep(self, picture: Picture) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="openenv-pictures-"))
        self._count += 1
        file = self._folder / f"{self._count:03}{SUFFIXES.get(picture.media_type, '.bin')}"
        file.write_bytes(picture.content.encode() if picture.image is None else picture.image)
        return file
