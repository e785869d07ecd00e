"""Folder of an environment as its checks see it: files, manifest and syntax trees. Nothing of it is imported."""

import ast
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from openenv.auto.importing import module_path
from openenv.auto.manifest import MANIFEST_FILE, Manifest, load_manifest
from openenv.core.documents import MAX_TEXT_BYTES
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

IGNORED_FOLDERS = frozenset({"__pycache__", "build", "dist", "node_modules", "outputs", "runs", "venv"})
NO_SOURCE = frozenset({".git", "__pycache__", ".venv", ".worktrees", "outputs"})
"""Folders that the digest of a package leaves out."""


@dataclass(frozen=True)
class Source:
    """The files of an environment's folder.

    Attributes:
        folder: The folder, absolute.
        manifest: Its manifest, or the error that reading it gave.
        module: Import path of the package that the folder is, or the error that finding it gave.
        top_folder: Folder of the topmost package, which is the folder itself unless that is a subpackage.
        texts: The content of each text file, by its path in the folder.
        trees: The syntax tree of each Python file, or the error in its syntax.
    """

    folder: Path
    manifest: Manifest | ConfigurationError
    module: str | ConfigurationError
    top_folder: Path
    texts: dict[str, str]
    trees: dict[str, ast.Module | SyntaxError]

    def tree(self, path: str) -> ast.Module | None:
        """Return the syntax tree of a Python file.

        Args:
            path: The file as seen from the folder; ``../models.py`` is a file of the package that the folder is part
                of, and an absolute path is a file outside of it.

        Returns:
            The tree, or ``None`` where there is no such file, or it is no Python.
        """
        if path.startswith("/"):
            return _library_tree(path)
        tree = self._trees_around.get(path) if path.startswith("../") else self.trees.get(path)
        return tree if isinstance(tree, ast.Module) else None

    @cached_property
    def files(self) -> list[str]:
        """The paths of all files, text or not."""
        return [file.relative_to(self.folder).as_posix() for file in _files(self.folder)]

    @cached_property
    def _trees_around(self) -> dict[str, ast.Module | SyntaxError]:
        """The trees of the package that the folder is part of."""
        if self.top_folder == self.folder:
            return {}
        files = ((self.top_folder / path, text) for path, text in _texts(self.top_folder) if path.endswith(".py"))
        paths = ((os.path.relpath(file, self.folder), text) for file, text in files)
        return {path: _parse(text, path) for path, text in paths if path.startswith("../")}


def read_source(folder: Path) -> Source:
    """Read an environment's folder.

    Args:
        folder: The folder that holds ``openenv.yaml``.

    Returns:
        Its files. Hidden folders, build products and run outputs are left out, and so are files that are no text.

    Raises:
        EnvironmentNotFoundError: There is no such folder, or it holds no ``openenv.yaml``.
    """
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise EnvironmentNotFoundError(f"There is no folder {folder}; give the folder that holds {MANIFEST_FILE}.")
    if not (folder / MANIFEST_FILE).is_file():
        raise EnvironmentNotFoundError(f"{folder} holds no {MANIFEST_FILE}; `openenv init NAME` makes an environment.")
    return read_files(folder)


def read_files(folder: Path) -> Source:
    """Read a folder that need not hold an environment; the manifest may be an error."""
    texts = dict(_texts(folder))
    trees = {path: _parse(text, path) for path, text in texts.items() if path.endswith(".py")}
    module, top_folder = _module(folder)
    return Source(folder, _manifest(folder), module, top_folder, texts, trees)


def source_digest(root: Path) -> str:
    """Return the SHA-256 over a package's files: their paths and contents.

    Args:
        root: The package's folder. Folders of Git, of virtual environments, of bytecode and of outputs do not count.

    Raises:
        ValueError: There is a symbolic link, or a file that is no regular file.

    Example:
        >>> source_digest(Path("envs/catch_env"))  # doctest: +SKIP
        '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
    """
    digest = hashlib.sha256()
    for path in sorted(_source_files(root), key=lambda path: path.relative_to(root).as_posix()):
        digest.update(path.relative_to(root).as_posix().encode(errors="surrogateescape") + b"\0")
        with path.open("rb") as content:
            while block := content.read(2**20):
                digest.update(block)
        digest.update(b"\0")
    return digest.hexdigest()


def digest_if_readable(folder: Path) -> str:
    """Return the digest of a folder; nothing where its files can't be read, or are links, which may change alone."""
    try:
        return source_digest(folder)
    except (OSError, ValueError):
        return ""


def _source_files(root: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(root, onerror=_raise):
        folders[:] = [name for name in folders if name not in NO_SOURCE]
        for path in (Path(parent, name) for name in (*folders, *names)):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                raise ValueError("validation source may not contain symbolic links")
            if stat.S_ISREG(mode):
                yield path
            elif not stat.S_ISDIR(mode):
                raise ValueError("validation source must contain regular files")


def _raise(error: OSError) -> None:
    raise error


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in _files(folder):
        text = _text(path)
        if text is not None:
            yield path.relative_to(folder).as_posix(), text


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_ignored(name))
        yield from (Path(parent, name) for name in sorted(names))


def _is_ignored(folder_name: str) -> bool:
    return folder_name.startswith(".") or folder_name.endswith(".egg-info") or folder_name in IGNORED_FOLDERS


def _text(path: Path) -> str | None:
    if not path.is_file() or path.stat().st_size > MAX_TEXT_BYTES:
        return None
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


@cache
def _library_tree(path: str) -> ast.Module | None:
    text = _text(Path(path))
    tree = None if text is None else _parse(text, path)
    return tree if isinstance(tree, ast.Module) else None


def _parse(text: str, path: str) -> ast.Module | SyntaxError:
    try:
        return ast.parse(text, path)
    except SyntaxError as error:
        return error
    except ValueError as error:  # a null byte
        return SyntaxError(str(error))
    except (RecursionError, MemoryError):  # how the parser says so
        return SyntaxError("it is nested too deeply")


def _manifest(folder: Path) -> Manifest | ConfigurationError:
    try:
        return load_manifest(folder)
    except ConfigurationError as error:
        return error


def _module(folder: Path) -> tuple[str | ConfigurationError, Path]:
    try:
        return module_path(folder)
    except ConfigurationError as error:
        return error, folder
