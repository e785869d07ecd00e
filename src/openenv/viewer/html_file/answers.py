"""Answers of a viewer's routes that a file has instead of a server, as far as they fit."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlencode

import httpx
from starlette.applications import Starlette

from openenv.core.exceptions import ConfigurationError
from openenv.viewer.answers import json_of

# Bytes of an observation of which an environment makes its view, as on the page.
_MAX_VIEWED = 1_000_000
# Observations of an environment without a view after which none is expected.
_MAX_TRIED = 20


class Answers:
    """Answers that are read from an application and kept as JSON, until a limit is reached.

    Attributes:
        kept: The answers by ``key_of``.
        left_out: Number of answers that did not fit, or could not be read, by their name in the plural.
    """

    def __init__(self, app: Starlette, max_bytes: int) -> None:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 0))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://viewer.invalid")
        self._bytes_left = max_bytes
        self._without_view: Counter[str] = Counter()
        self.kept: dict[str, bytes] = {}
        self.left_out: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        """Return the answers."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the client."""
        await self._client.aclose()

    @property
    def is_open(self) -> bool:
        """True until the limit is reached."""
        return self._bytes_left > 0

    async def read(self, path: str, **query: Any) -> Any:
        """Return the answer to a path; ``None`` where it is no success."""
        answer = await self._get(path, query)
        return answer.json() if answer.is_success else None

    async def require(self, path: str, **query: Any) -> Any:
        """Return the answer to a path, without which there is nothing to show.

        Raises:
            ConfigurationError: It is no success.
        """
        answer = await self._get(path, query)
        if not answer.is_success:
            raise ConfigurationError(answer.json()["detail"])
        return answer.json()

    async def view(self, environment: str, answer: Mapping[str, Any]) -> Any:
        """Return an environment's view of an entry's answer; ``None`` without an observation or a view of it."""
        observation = answer.get("observation")
        if not isinstance(observation, Mapping) or not observation:
            return None
        shown = {**observation, "reward": answer.get("reward"), "done": bool(answer.get("done"))}
        if len(json_of(shown)) > _MAX_VIEWED or self._without_view[environment] >= _MAX_TRIED:
            return None
        viewed = await self._client.post("/web/view", json={"environment": environment, "observation": shown})
        found = viewed.json() if viewed.is_success else {"html": None}
        self._without_view[environment] += found.get("html", "") is None
        return found

    def keep(self, what: str, contents: Mapping[str, Any], spare: int = 0) -> bool:
        """Keep answers if all of them fit."""
        written = {key: json_of(content) for key, content in contents.items()}
        fits = self.reserve(spare + sum(len(key) + len(content) for key, content in written.items()))
        if fits:
            self.kept |= written
        self.left_out[what] += not fits
        return fits

    def put(self, key: str, content: Any) -> None:
        """Keep an answer that is small, or for which bytes were reserved."""
        self.kept[key] = json_of(content)

    def reserve(self, size: int) -> bool:
        """Reserve bytes; return whether there are as many."""
        fits = size <= self._bytes_left
        self._bytes_left -= size * fits
        return fits

    async def add(self, what: str, path: str, **query: Any) -> Any:
        """Read and keep an answer; return ``None`` where it can't be read or does not fit."""
        answer = await self._get(path, query)
        found = answer.json()
        return found if answer.is_success and self.keep(what, {key_of(path, **query): found}) else None

    async def _get(self, path: str, query: Mapping[str, Any]) -> httpx.Response:
        return await self._client.get(f"/{path}", params={name: _text(value) for name, value in query.items()})


def key_of(path: str, **query: Any) -> str:
    """Return the key of an answer; a path with ``?*`` behind it has the same answer to every other query."""
    return f"{path}?{urlencode(sorted((name, _text(value)) for name, value in query.items()))}" if query else path


def _text(value: Any) -> str:
    """Return a value of a query as the page writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
