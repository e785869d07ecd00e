"""Front matter of a Space's README, which the Hub reads."""

import re
from typing import Any

import yaml

from openenv.core.documents import DocumentError, parse_yaml
from openenv.core.exceptions import ConfigurationError

WEB_PATH = "/web"
"""Path of the page of servers of the public package; ours answers it with its first page."""
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n((?:.*\n)*?)---[ \t]*(?:\n|\Z)")
_LOOK = {"emoji": "🎮", "colorFrom": "blue", "colorTo": "green"}


def with_front_matter(readme: str, *, title: str, port: int, web_page: bool) -> str:
    """Return a README with all keys that the Hub needs to run a Space; its keys stay.

    Args:
        readme: The README.
        title: The Space's title, where it has none.
        port: The server's port, where it names none.
        web_page: Whether the server shows a page there, which is its first one: ``base_path`` is left to the README.

    Raises:
        ConfigurationError: Its front matter is not what it must be.

    Example:
        >>> print(with_front_matter("# Go", title="Go", port=8000, web_page=False))
        ---
        title: Go
        emoji: 🎮
        colorFrom: blue
        colorTo: green
        sdk: docker
        pinned: false
        app_port: 8000
        tags:
        - openenv
        ---
        <BLANKLINE>
        # Go
    """
    found = _FRONT_MATTER.match(readme)
    given = {} if found is None else _read(found[1])
    wanted = _completed(given, title, port, web_page)
    if wanted == given:
        return readme
    rest = readme if found is None else readme[found.end() :]
    matter = yaml.safe_dump(wanted, sort_keys=False, allow_unicode=True)
    return f"---\n{matter}---\n\n{rest.lstrip()}"


def _read(matter: str) -> dict[str, Any]:
    try:
        keys = parse_yaml(matter)
    except DocumentError as error:
        raise ConfigurationError(f"README.md: its front matter is not valid YAML; correct it: {error}") from error
    if not isinstance(keys, dict):
        raise ConfigurationError("README.md: expected keys and values in its front matter, such as `title: My env`.")
    return keys


def _completed(given: dict[str, Any], title: str, port: int, web_page: bool) -> dict[str, Any]:
    tags = given.get("tags") or []
    tags = tags if isinstance(tags, list) else [tags]
    usual = {"title": title, **_LOOK, "sdk": "docker", "pinned": False, "app_port": port}
    tagged = tags if "openenv" in tags else [*tags, "openenv"]
    keys = {**usual, **given, "sdk": "docker", "tags": tagged}
    if not web_page and keys.get("base_path") == WEB_PATH:
        del keys["base_path"]
    return keys
