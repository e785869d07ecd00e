"""Download of a repository of the Hub into a folder to work in."""

import os
import shutil
import tempfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from openenv.core.exceptions import ConfigurationError
from openenv.hub.client import Hub
from openenv.hub.downloading import download, find_commit
from openenv.hub.names import RepoName


class Pulled(NamedTuple):
    """Result of a pull.

    Attributes:
        folder: The folder.
        commit: The commit.
        files: Its files, as seen from the folder.
    """

    folder: Path
    commit: str
    files: list[PurePosixPath]


def pull(name: RepoName, folder: Path, hub: Hub, *, force: bool = False) -> Pulled:
    """Download a repository into a folder. None of its code is run.

    Args:
        name: The repository and its revision.
        folder: The folder; made if it is not there.
        hub: The Hub.
        force: Whether files in the folder may be overwritten. Those that the repository lacks stay.

    Raises:
        ConfigurationError: There is something in the folder already, or with ``force`` a link that leads out of it.
        HubError: There is no such repository or revision; or the Hub can't be reached. The folder is untouched.
    """
    check_free(folder, force=force)
    commit = find_commit(name, hub)
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".openenv-pull-", dir=folder.absolute().parent) as aside:
        files = download(name, commit, Path(aside), hub)
        _check_targets(folder, files)
        for path in files:
            _put(Path(aside) / path, folder / path)
    folder.mkdir(exist_ok=True)
    return Pulled(folder, commit, files)


def check_free(folder: Path, *, force: bool = False) -> None:
    """Refuse a folder that is not empty.

    Raises:
        ConfigurationError: It is not empty and not to be overwritten; or it is no folder.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigurationError(f"{folder} is no folder; choose another.")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise ConfigurationError(f"There are files in {folder}; choose another folder, or overwrite with --force.")


def _check_targets(folder: Path, files: list[PurePosixPath]) -> None:
    """Refuse to write through a link, which leads out of the folder, or over a folder."""
    for path in files:
        for parent in list(path.parents)[:-1]:
            target = folder / parent
            if target.is_symlink() or (target.exists() and not target.is_dir()):
                raise ConfigurationError(f"{target} is a link or a file where a folder is to be; move it away.")
        target = folder / path
        if target.is_dir() and not target.is_symlink():
            raise ConfigurationError(f"{target} is a folder where a file is to be; move it away.")


def _put(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(file, target)  # noqa: PTH105  # replaces a link, whatever that leads to
    except OSError:
        target.unlink(missing_ok=True)
        shutil.copyfile(file, target)
