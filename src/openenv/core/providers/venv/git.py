"""Fetch one state of a git repository, without its history."""

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from openenv.core.exceptions import ConfigurationError, ProviderError

_PREFIX = "git+"
# Within a hook of git's these name the repository that it belongs to.
_OF_ANOTHER = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"})


def is_git_url(path: str) -> bool:
    """Say whether a project's path is a repository's address.

    Example:
        >>> is_git_url("git+https://huggingface.co/spaces/openenv/echo-env"), is_git_url("./echo_env")
        (True, False)
    """
    return path.startswith(_PREFIX)


def clone(url: str, parent: Path) -> Path:
    """Fetch a repository's files.

    Args:
        url: ``git+`` and the address; a branch, tag or commit may follow as ``@REVISION``, and a folder in it as
            ``#subdirectory=PATH``.
        parent: Where to put the folder, which gets the repository's name.

    Returns:
        The folder.

    Raises:
        ConfigurationError: It names no repository, or a folder outside of it.
        ProviderError: git is not installed, or could not fetch it; the message has what it said.
    """
    parts = urlsplit(url.removeprefix(_PREFIX))
    path, _, revision = parts.path.partition("@")  # an @ before the path belongs to the host, as in git@example.com
    repository = urlunsplit(parts._replace(path=path, fragment=""))
    name = Path(path).name.removesuffix(".git")
    if name in ("", ".."):
        raise ConfigurationError(f"Expected an address that ends in a repository's name, got {without_login(url)}.")
    folder = parent / name
    _git("init", "--quiet", "--", str(folder), url=url)
    # By fetching, since a clone takes branches and tags only.
    _git("-C", str(folder), "fetch", "--quiet", "--depth", "1", "--", repository, revision or "HEAD", url=url)
    _git("-C", str(folder), "checkout", "--quiet", "FETCH_HEAD", url=url)
    return _subdirectory(folder, parts.fragment)


def without_login(url: str) -> str:
    """Return an address without the name and the password or token in it, for people to see.

    Example:
        >>> without_login("git+https://me:s3cret@example.com/env.git@v1")
        'git+https://example.com/env.git@v1'
    """
    login, at, _ = urlsplit(url).netloc.rpartition("@")
    return url.replace(f"{login}{at}", "", 1) if at else url


def _subdirectory(folder: Path, fragment: str) -> Path:
    name, _, path = fragment.partition("=")
    if name != "subdirectory":
        return folder
    found = (folder / path).resolve()
    if not found.is_relative_to(folder.resolve()) or not found.is_dir():
        raise ConfigurationError(f"Expected a folder of the repository after #subdirectory=, got {path!r}.")
    return found


def _git(*arguments: str, url: str) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    variables["GIT_TERMINAL_PROMPT"] = "0"  # no person is there to type a password
    try:
        done = subprocess.run(  # noqa: S603  # the caller's arguments, behind --
            ["git", *arguments],  # noqa: S607  # the one that the user has
            check=False,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError as error:
        raise ProviderError(f"Fetching {without_login(url)} needs git, which is not installed.") from error
    if done.returncode != 0:
        raise ProviderError(f"git could not fetch {without_login(url)}.", done.stdout)
