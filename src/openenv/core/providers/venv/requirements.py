"""What an environment's folder says that it needs: its ``pyproject.toml`` or ``requirements.txt``, and its lock."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from openenv.core.documents import MAX_TOML_BYTES, DocumentError, parse_toml
from openenv.core.exceptions import ConfigurationError

PROJECT_FILE = "pyproject.toml"
LOCK_FILE = "uv.lock"
OURS = frozenset({"openenv", "openenv-core"})
"""Distributions that bring the package ``openenv``: the one that runs here takes the place of each."""

# Who requires the distribution of this name was written for the public package, and gets what came with that.
_IMPLIED = {"openenv": frozenset({"core"})}
_LISTS = ("requirements.txt", "server/requirements.txt")
# Options of a list that name files, which are meant from the list's own folder.
_OF_FILE = re.compile(r"(?P<option>-r|-c|-e|--requirement|--constraint|--editable)[ =]\s*(?P<path>[^\s:]+)")
_FURTHER_LIST = ("-r", "--requirement")
_CONSTRAINTS = ("-c", "--constraint")


class _Line(NamedTuple):
    """A line of a list as pip takes it, and what it stands for."""

    text: str
    content: str


@dataclass(frozen=True)
class Requirements:
    """What a folder needs.

    Attributes:
        file: The file that says so.
        lines: What it lists, as pip takes it, without OpenEnv itself.
        extras: OpenEnv's extras that it requires.
        is_locked: Whether there is a lock beside it, in which uv has chosen versions.
        python: Which Pythons it is made for, as in ``>=3.11``; empty for any.
        content: All that its environment depends on.
        sources: Folders of the requirements that uv has from a folder, by their normalized names; as pip takes them.
    """

    file: Path
    lines: tuple[str, ...]
    extras: frozenset[str]
    is_locked: bool
    python: str
    content: bytes
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def install_command(self) -> str:
        """Return the command that installs all of it into a Python environment where OpenEnv is already installed.

        Not ``pip install FOLDER``: where the folder requires the distribution ``openenv``, that would bring the public
        package, which overwrites files of this one. What has a folder is named by it: of a name, pip would choose what
        the index has, which may be of another author.
        """
        return shlex.join(["pip", "install", *(word for line in self.lines for word in self._words(line))])

    def _words(self, line: str) -> Sequence[str]:
        if line.startswith("-"):
            return shlex.split(line)
        requirement = requirement_of(line)
        source = self.sources.get(canonicalize_name(requirement.name)) if requirement else None
        if requirement is None or source is None:
            return [line]
        *option, folder = source
        return [*option, f"{folder}[{','.join(sorted(requirement.extras))}]" if requirement.extras else folder]


def requirement_of(line: str) -> Requirement | None:
    """Return the requirement in a line of a list; ``None`` for an option, a path or an address, which pip reads."""
    try:
        return Requirement(line)
    except InvalidRequirement:
        return None


def read_requirements(folder: Path, within: Path | None = None) -> Requirements:
    """Read what a folder needs. Where there is a ``pyproject.toml`` with a project, that says it.

    Args:
        folder: The folder.
        within: The folder, absolute and without links, of a project that is not trusted: lists and constraints that
            lie outside are left out. By default they may lie anywhere.

    Raises:
        ConfigurationError: No file says so, or one can't be read.
    """
    file = folder / PROJECT_FILE
    document = _toml(_read(file), file) if file.is_file() else {}
    project = _project(document)
    if project is None:
        return _from_list(folder, within)
    if "dependencies" in _texts(project, "dynamic", file):
        raise ConfigurationError(
            f"{file}: its dependencies are dynamic, so that only a build would tell them; list them in the file."
        )
    lines, extras = _without_ours(_texts(project, "dependencies", file))
    lock = folder / LOCK_FILE
    is_locked = lock.is_file()
    content = f"{_read(file)}{_read(lock) if is_locked else ''}".encode()
    python = _text(project, "requires-python", file)
    return Requirements(file, lines, extras, is_locked, python, content, _sources(document, folder))


def _texts(project: Mapping[str, Any], key: str, file: Path) -> list[str]:
    texts = project.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f"{file}: expected project.{key} to be a list of texts, got {texts!r:.100}.")
    return texts


def _text(project: Mapping[str, Any], key: str, file: Path) -> str:
    text = project.get(key, "")
    if not isinstance(text, str):
        raise ConfigurationError(f"{file}: expected project.{key} to be a text, got {text!r:.100}.")
    return text


def _project(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    project = document.get("project")
    return project if isinstance(project, dict) and "name" in project else None


def _sources(document: Mapping[str, Any], folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the folders that uv's settings name, as pip takes them."""
    found: dict[str, tuple[str, ...]] = {}
    for name, source in _table(_table(_table(document, "tool"), "uv"), "sources").items():
        path = source.get("path") if isinstance(source, dict) else None
        if isinstance(path, str):
            option = ("-e",) if source.get("editable") is True else ()
            found[canonicalize_name(name)] = (*option, os.path.normpath(folder.absolute() / path))
    return found


def _table(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = document.get(key)
    return table if isinstance(table, dict) else {}


def _from_list(folder: Path, within: Path | None) -> Requirements:
    file = next((folder / name for name in _LISTS if (folder / name).is_file()), None)
    if file is None:
        raise ConfigurationError(
            f"{folder} has neither a {PROJECT_FILE} with a [project] nor a requirements.txt, which would say what its "
            "own environment needs; add one."
        )
    listed = list(_listed(file, within))
    lines, extras = _without_ours(line.text for line in listed)
    return Requirements(file, lines, extras, False, "", "\n".join(line.content for line in listed).encode())


def _listed(file: Path, within: Path | None, above: tuple[Path, ...] = ()) -> Iterator[_Line]:
    """Give the lines of a list, and in the place of each list that it names, that one's."""
    if file.resolve() in above or not _lies_within(file, within):  # the former would never end
        return
    for line in _lines(_read(file)):
        found = _OF_FILE.fullmatch(line)
        path = file.parent / (found["path"] if found else "")
        text = f"{found['option']} {path}" if found else line
        if found and found["option"] in _FURTHER_LIST:
            yield from _listed(path, within, (*above, file.resolve()))
        elif found and found["option"] in _CONSTRAINTS:
            if _lies_within(path, within):
                yield _Line(text, _read(path))
        else:
            yield _Line(text, text)


def _lies_within(file: Path, folder: Path | None) -> bool:
    return folder is None or file.resolve().is_relative_to(folder)


def _lines(text: str) -> list[str]:
    joined = " ".join(map(str.strip, text.split("\\\n")))
    listed = (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in listed if line]


def _read(file: Path) -> str:
    if file.exists() and not file.is_file():  # reading a device or a pipe might never end
        raise ConfigurationError(f"{file}: can't be read, since it is no file; it says what is needed.")
    try:
        with file.open(encoding="utf-8") as stream:
            text = stream.read(MAX_TOML_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: can't be read ({error}); it says what is needed.") from error
    if len(text) > MAX_TOML_BYTES:
        raise ConfigurationError(f"{file}: expected at most {MAX_TOML_BYTES} characters, but it is longer.")
    return text


def _without_ours(listed: Iterable[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Part what is listed into that of others and the extras of ours."""
    others, extras = [], set[str]()
    for line in listed:
        ours = _ours(line)
        if ours is None:
            others.append(line)
        else:
            extras |= ours.extras | _IMPLIED.get(canonicalize_name(ours.name), frozenset())
    return tuple(others), frozenset(extras)


def _ours(line: str) -> Requirement | None:
    requirement = requirement_of(line)
    return requirement if requirement and canonicalize_name(requirement.name) in OURS else None


def _toml(text: str, file: Path) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except DocumentError as error:
        raise ConfigurationError(f"{file}: is not valid TOML; mend this: {error}") from error
