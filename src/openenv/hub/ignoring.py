"""Files of an environment's folder that are no part of its Space."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from openenv.core.documents import read_text
from openenv.core.exceptions import ConfigurationError

ALWAYS = (
    ".*",
    "__pycache__",
    "*.pyc",
    "*.egg-info",
    "/build",
    "/dist",
    "/node_modules",
    "/outputs",
    "/runs",
    "/venv",
)
"""Files that are hidden, built, installed or written by runs."""


def is_ignored(path: PurePosixPath, patterns: Iterable[str]) -> bool:
    """Return whether a file or folder is left out.

    Args:
        path: As seen from the folder.
        patterns: Globs. One without a slash before its end is about the name of any file or folder; one with a slash is
            about a path from the folder, where ``*`` stands for slashes too.

    Example:
        >>> [is_ignored(PurePosixPath(path), ["*.log", "data/*"]) for path in ("a/b.log", "data/x/y", "my/data/x")]
        [True, True, False]
    """
    return any(_matches(path, pattern) for pattern in patterns)


def _matches(path: PurePosixPath, pattern: str) -> bool:
    whole = "/" in pattern.rstrip("/")
    candidates = [str(each) for each in (path, *path.parents[:-1])] if whole else path.parts
    return any(fnmatchcase(candidate, pattern.strip("/")) for candidate in candidates)


def read_patterns(file: Path) -> list[str]:
    """Read globs from a file, one a line; empty lines and those that begin with ``#`` do not count.

    Raises:
        ConfigurationError: The file can't be read, or has a line that includes files again.
    """
    lines = [line.strip() for line in read_text(file).splitlines()]
    patterns = [line for line in lines if line and not line.startswith("#")]
    included = [pattern for pattern in patterns if pattern.startswith("!")]
    if included:
        raise ConfigurationError(
            f"{file}: a line can't take another back, but one is {included[0]!r}; write globs that leave it in."
        )
    return patterns


def kept_files(folder: Path, exclude: Iterable[str] = ()) -> Iterator[PurePosixPath]:
    """Iterate over the files of a folder that are not left out, in order, each as seen from it.

    Args:
        folder: The folder.
        exclude: Globs of files to leave out beside ``ALWAYS``; see ``is_ignored``.

    Raises:
        ConfigurationError: Something is a link that leads out of the folder or to a folder, or is no file.
    """
    yield from _kept_below(folder.resolve(), PurePosixPath(), (*ALWAYS, *exclude))


def _kept_below(folder: Path, below: PurePosixPath, patterns: tuple[str, ...]) -> Iterator[PurePosixPath]:
    for entry in sorted((folder / below).iterdir()):
        path = below / entry.name
        if is_ignored(path, patterns):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _kept_below(folder, path, patterns)
        else:
            _check_is_file(entry, folder)
            yield path


def _check_is_file(entry: Path, folder: Path) -> None:
    if entry.is_symlink() and not entry.resolve().is_relative_to(folder):
        raise ConfigurationError(
            f"{entry} is a link that leads out of the folder, to {entry.resolve()}. Nothing from elsewhere is "
            "published: put the file itself there, or leave the link out with --exclude."
        )
    if not entry.is_file():
        kind = "a link to a folder, or to nothing" if entry.is_symlink() else "no file"
        raise ConfigurationError(f"{entry} is {kind}, and can't be published; leave it out with --exclude.")
