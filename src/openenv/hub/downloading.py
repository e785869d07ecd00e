"""Downloads of a repository of the Hub, at one commit, into a folder."""

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath

from openenv.core.documents import new_folder
from openenv.core.exceptions import ConfigurationError, HubError
from openenv.core.providers.cache import cache_folder
from openenv.hub.client import Hub
from openenv.hub.library import LocalEntryNotFoundError
from openenv.hub.names import RepoName, read_repo_name

_OF_THE_LIBRARY = ".cache"
"""Folder of the library's records of downloads."""

_OF_GIT = ".git"
"""Folder in which no repository may have a file, at whatever depth: git would act on it."""


def download_space(
    space: str, revision: str | None = None, *, hub: Hub | None = None, cache: Path | None = None
) -> Path:
    """Download a Space, unless it was downloaded before. None of its code is run.

    Args:
        space: ``OWNER/NAME``, or the address of its page.
        revision: A branch, tag or commit; that of the address if ``None``, else its main branch.
        hub: The Hub.
        cache: Folder of all downloads; ``~/.cache/openenv/spaces`` (or below ``XDG_CACHE_HOME``) if ``None``.

    Returns:
        The folder, whose name can be a package's. It is the same for the same commit: don't change its files.

    Raises:
        ConfigurationError: That is no Space's name.
        HubError: There is no such Space, or no such revision; or the Hub can't be reached.

    Example::

        folder = download_space("openenv/echo-env")
        package = find_environment(folder)
    """
    hub = hub or Hub()
    name = read_repo_name(space)
    if name.kind != "space":
        raise ConfigurationError(f"Expected a Space, got {space}, which is a {name.kind}; `openenv pull` gets those.")
    return _cached(name._replace(revision=revision or name.revision), cache or cache_folder("spaces"), hub)


def download_dataset(name: RepoName, *, hub: Hub | None = None, cache: Path | None = None) -> Path:
    """Download a dataset, unless it was downloaded before. None of its code is run.

    Args:
        name: The dataset and its revision.
        hub: The Hub.
        cache: Folder of all downloads; ``~/.cache/openenv/datasets`` (or below ``XDG_CACHE_HOME``) if ``None``.

    Returns:
        The folder, in one with the name of the commit. It is the same for the same commit: don't change its files.

    Raises:
        HubError: There is no such dataset, or no such revision; or the Hub can't be reached.
    """
    return _cached(name, cache or cache_folder("datasets"), hub or Hub())


def _cached(name: RepoName, cache: Path, hub: Hub) -> Path:
    commit = find_commit(name, hub)
    folder = cache / name.id.replace("/", "--") / commit / folder_name(name.own_name)
    if not folder.is_dir():
        with new_folder(folder) as draft:
            download(name, commit, draft, hub)
    return folder


def folder_name(name: str) -> str:
    """Return a repository's name in a form that a package may have.

    Example:
        >>> folder_name("echo-env"), folder_name("2048.v2")
        ('echo_env', '_2048_v2')
    """
    plain = name.replace("-", "_").replace(".", "_")
    return f"_{plain}" if plain[:1].isdigit() else plain


def find_commit(name: RepoName, hub: Hub) -> str:
    """Find the commit of a revision.

    Raises:
        HubError: There is no such repository or revision; or the Hub can't be reached.
    """
    doing = f"find {name.id}" + (f" at {name.revision}" if name.revision else "")
    call = partial(hub.api.repo_info, name.id, revision=name.revision, repo_type=name.kind)
    commit = hub.request(doing, call).sha
    if commit is None:
        raise HubError(f"Could not {doing}: the Hub does not name its commit.")
    return commit


def download(name: RepoName, commit: str, folder: Path, hub: Hub) -> list[PurePosixPath]:
    """Download all files of a repository at a commit into an empty folder, which no other process knows.

    Raises:
        HubError: A file's path leads out of the folder, or the Hub can't be reached.
    """
    listing = partial(hub.api.list_repo_files, name.id, revision=commit, repo_type=name.kind)
    paths = hub.request(f"list the files of {name.id}", listing)
    check_paths(paths, name.id)
    hub.request(f"download {name.id}", partial(_snapshot, name, commit, folder, hub))
    shutil.rmtree(folder / _OF_THE_LIBRARY, ignore_errors=True)
    return [PurePosixPath(path) for path in paths]


def check_paths(paths: Iterable[str], repo_id: str) -> None:
    """Refuse a repository with a file whose path leads out of its folder.

    Raises:
        HubError: There is one.
    """
    for path in paths:
        parts = path.split("/")
        leads_out = not all(parts) or ".." in parts or "." in parts
        elsewhere = "\\" in path or "\0" in path or PureWindowsPath(path).drive  # on some system or other
        folded = path.lower().split("/")
        if leads_out or elsewhere or _OF_GIT in folded or folded[0] == _OF_THE_LIBRARY:
            raise HubError(
                f"{repo_id} has a file with the path {path!r}, which may lead out of the folder to download it to. "
                "Nothing was downloaded; don't trust its author."
            )


def _snapshot(name: RepoName, commit: str, folder: Path, hub: Hub) -> None:
    try:
        hub.api.snapshot_download(name.id, repo_type=name.kind, revision=commit, local_dir=folder)
    except LocalEntryNotFoundError as error:  # "it is not here either" hides the Hub's message
        raise error.__cause__ or error from None
