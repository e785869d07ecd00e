"""Files in the work folder, opened without following a link and without waiting for a pipe."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_PATH_BYTES = 1024
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def write_file(root: str, path: str, data: bytes) -> None:
    """Write a file, and make the folders above it.

    Args:
        root: The work folder.
        path: Of the file, below it.
        data: Its new contents.

    Raises:
        OSError: It can't be written.
        ValueError: The path leads out of the folder, or to something that is no plain file.
    """
    *folders, name = _parts(path)
    with _folder(root, folders, make=True) as folder:
        file = os.open(name, _FILE | os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=folder)
        with os.fdopen(file, "wb") as stream:
            _require_plain(file, path)
            stream.truncate(0)
            stream.write(data)


def read_file(root: str, path: str, most_bytes: int) -> bytes:
    """Read a file.

    Args:
        root: The work folder.
        path: Of the file, below it.
        most_bytes: A longer file is refused.

    Raises:
        OSError: It can't be read.
        ValueError: It is too long, the path leads out of the folder, or to something that is no plain file.
    """
    *folders, name = _parts(path)
    with _folder(root, folders, make=False) as folder:
        file = os.open(name, _FILE | os.O_RDONLY, dir_fd=folder)
        with os.fdopen(file, "rb") as stream:
            _require_plain(file, path)
            data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"{path} is longer than {most_bytes} bytes")
    return data


def _parts(path: str) -> list[str]:
    if len(path.encode(errors="replace")) > _MOST_PATH_BYTES:
        raise ValueError(f"expected a path of at most {_MOST_PATH_BYTES} bytes")
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"expected a path below the work folder such as 'folder/name.txt', got {path!r}")
    return parts


@contextmanager
def _folder(root: str, folders: list[str], make: bool) -> Iterator[int]:
    folder = os.open(root, _FOLDER)
    try:
        for name in folders:
            above, folder = folder, _enter(folder, name, make)
            os.close(above)
        yield folder
    finally:
        os.close(folder)


def _enter(folder: int, name: str, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(name, dir_fd=folder)
    return os.open(name, _FOLDER, dir_fd=folder)


def _require_plain(file: int, path: str) -> None:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise ValueError(f"{path} is no plain file")
