"""Names of repositories on the Hub, as people write them."""

import os
import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.spaces import HUB_VARIABLE

HUB_HOSTS = frozenset({"huggingface.co", "www.huggingface.co", "hf.co"})
_PART = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?")
_KINDS = {"spaces": "space", "datasets": "dataset"}


class RepoName(NamedTuple):
    """Repository and revision.

    Attributes:
        id: ``OWNER/NAME``.
        kind: ``space``, ``model`` or ``dataset``.
        revision: A branch, tag or commit; its main branch if ``None``.
    """

    id: str
    kind: str = "space"
    revision: str | None = None

    @property
    def own_name(self) -> str:
        """The name without the owner's."""
        return self.id.rpartition("/")[2]


def is_hub_address(text: str) -> bool:
    """Return whether a text is the address of a page of the Hub.

    Example:
        >>> is_hub_address("https://huggingface.co/spaces/openenv/echo"), is_hub_address("https://openenv-echo.hf.space")
        (True, False)
    """
    return urlsplit(text).scheme in ("http", "https") and urlsplit(text).hostname in _hub_hosts()


def read_repo_name(text: str) -> RepoName:
    """Read the name of a repository.

    Args:
        text: ``OWNER/NAME``, which is a Space; or the address of its page.

    Raises:
        ConfigurationError: It is neither.

    Example:
        >>> read_repo_name("openenv/echo-env")
        RepoName(id='openenv/echo-env', kind='space', revision=None)
        >>> read_repo_name("https://huggingface.co/datasets/me/words/tree/v1")
        RepoName(id='me/words', kind='dataset', revision='v1')
    """
    if "://" not in text:
        return RepoName(checked_repo_id(text, owner_needed=True))
    parts = [unquote(part) for part in urlsplit(text).path.split("/") if part]
    kind = _KINDS.get(parts[0], "model") if parts else "model"
    owner_at = 0 if kind == "model" else 1
    name = parts[owner_at : owner_at + 2]
    if not is_hub_address(text) or len(name) < 2:
        raise ConfigurationError(
            f"Expected OWNER/NAME or the address of a page, as in https://huggingface.co/spaces/OWNER/NAME; got {text}."
        )
    below = parts[owner_at + 2 :]
    revision = "/".join(below[1:]) if below[:1] == ["tree"] else ""
    return RepoName(checked_repo_id("/".join(name), owner_needed=True), kind, revision or None)


def checked_repo_id(text: str, *, owner_needed: bool = False) -> str:
    """Return a repository's id, if the Hub would take it; without ``owner_needed`` it may lack the owner.

    Raises:
        ConfigurationError: It would not.
    """
    parts = text.split("/")
    good = all(_PART.fullmatch(part) and "--" not in part and ".." not in part for part in parts)
    if not good or len(parts) > 2 or len(text) > 96 or text.endswith(".git"):
        raise ConfigurationError(
            f"{text!r} is no repository of the Hub. Expected {'OWNER/NAME' if owner_needed else 'NAME or OWNER/NAME'}, "
            "each of letters, digits, '-', '_' and '.', without '-' or '.' at its ends or twice in a row."
        )
    if owner_needed and len(parts) == 1:
        raise ConfigurationError(f"Expected OWNER/NAME, got {text!r}; the owner is missing.")
    return text


def _hub_hosts() -> frozenset[str]:
    """Return the hosts of the Hub, with that of ``HF_ENDPOINT``."""
    endpoint = urlsplit(os.environ.get(HUB_VARIABLE, "")).hostname
    return HUB_HOSTS | {endpoint} if endpoint else HUB_HOSTS
