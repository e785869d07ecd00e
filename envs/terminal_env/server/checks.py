"""Check what an agent has done. Nothing that it can change takes part: files are read from outside and compared here.

Programs and git are run in an unused sandbox, on copies.
"""

from typing import Any

from pydantic_core import from_json

from openenv.core.exceptions import SandboxFileError
from openenv.core.sandbox import Sandbox, SandboxPool

from .task_format import Check, FileCheck, FolderCheck, JsonCheck, ProgramCheck, RepositoryCheck

_MOST_FILE_BYTES = 2**20
_MOST_REPOSITORY_BYTES = 16 * 2**20
_WALL_S = 5.0
_ARCHIVE = ".openenv-check.tar"
_COPY = "copy.git"
_MISSING = ": No such file or directory\n"


class Checker:
    """Checks the files of one sandbox.

    Args:
        sandbox: The agent's sandbox.
        pool: Pool of other sandboxes.
    """

    def __init__(self, sandbox: Sandbox, pool: SandboxPool) -> None:
        self._sandbox = sandbox
        self._pool = pool

    def passes(self, check: Check) -> bool:
        """Return whether a check holds. A file that can't be read, for whatever reason, is not right."""
        try:
            if isinstance(check, FileCheck):
                return _is_same_text(self._text(check.path), check.text)
            if isinstance(check, JsonCheck):
                return self._passes_json(check)
            if isinstance(check, FolderCheck):
                return self._passes_folder(check)
            if isinstance(check, ProgramCheck):
                return self._passes_program(check)
            return self._passes_repository(check)
        except (SandboxFileError, ValueError):  # not there, a link, too long, no text, no JSON
            return False

    def _text(self, path: str) -> str:
        return self._sandbox.read_file(path, _MOST_FILE_BYTES).decode()

    def _passes_json(self, check: JsonCheck) -> bool:
        value: Any = from_json(self._text(check.path))
        for key in check.keys:
            inside = key in value if isinstance(value, dict) else _is_index(value, key)
            if not inside:
                return check.missing
            value = value[key]
        return not check.missing and _is_same_value(value, check.value)

    def _passes_folder(self, check: FolderCheck) -> bool:
        command = ["find", check.path, "-not", "-type", "d", "-printf", r"%P\0"]
        found = self._sandbox.run(command, wall_s=_WALL_S)
        if found.exit_code != 0 or found.truncated:  # whatever it could not look into
            return not check.files and not found.stdout and found.stderr.endswith(_MISSING)
        if set(found.stdout.split("\0")[:-1]) != check.files.keys():  # a link instead of the folder has an empty name
            return False
        return all(_is_same_text(self._text(f"{check.path}/{name}"), text) for name, text in check.files.items())

    def _passes_program(self, check: ProgramCheck) -> bool:
        with self._pool.take_with(self._sandbox, check.copies, check.files, _MOST_FILE_BYTES) as fresh:
            done = fresh.run(check.command, wall_s=_WALL_S)
        return done.exit_code == 0 and not done.truncated and _is_same_text(done.stdout, check.output)

    def _passes_repository(self, check: RepositoryCheck) -> bool:
        """Look at a branch in a repository of our own, with the agent's objects and none of its settings."""
        pack = ["tar", "--create", "--file", _ARCHIVE, "--directory", f"{check.path}/.git", "."]
        self._sandbox.run(["rm", "-rf", _ARCHIVE], wall_s=_WALL_S)
        if self._sandbox.run(pack, wall_s=_WALL_S).exit_code != 0:
            return False
        with self._pool.take_with(self._sandbox, [_ARCHIVE], most_bytes=_MOST_REPOSITORY_BYTES) as fresh:
            fresh.run(["git", "init", "--quiet", "--bare", _COPY], wall_s=_WALL_S)
            # Where there are no packed references, tar complains, and has unpacked the rest.
            unpack = [
                "tar",
                "--extract",
                "--file",
                _ARCHIVE,
                "--directory",
                _COPY,
                "./objects",
                "./refs",
                "./packed-refs",
            ]
            fresh.run(unpack, wall_s=_WALL_S)
            return _has_commits(fresh, check)


def _has_commits(sandbox: Sandbox, check: RepositoryCheck) -> bool:
    branch = f"refs/heads/{check.branch}"
    subjects = _git(sandbox, "log", "--format=%s", branch, "--")
    if subjects is None or not set(check.subjects) <= set(subjects.split("\n")):
        return False
    for path, text in check.files.items():
        given = _git(sandbox, "cat-file", "blob", f"{branch}:{path}")
        if given is None or not _is_same_text(given, text):
            return False
    return True


def _git(sandbox: Sandbox, *command: str) -> str | None:
    """Return what git writes about the copy; ``None`` where it fails. No object stands for another one."""
    done = sandbox.run(
        ["git", "--git-dir", _COPY, *command], environment={"GIT_NO_REPLACE_OBJECTS": "1"}, wall_s=_WALL_S
    )
    return done.stdout if done.exit_code == 0 and not done.truncated else None


def _is_same_text(given: str, expected: str) -> bool:
    return _lines(given) == _lines(expected)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _is_same_value(given: Any, expected: Any) -> bool:
    """Compare JSON values, for which Python's ``==`` takes ``1`` for ``True``."""
    if isinstance(given, dict) and isinstance(expected, dict):
        return given.keys() == expected.keys() and all(_is_same_value(given[key], expected[key]) for key in expected)
    if isinstance(given, list) and isinstance(expected, list):
        return len(given) == len(expected) and all(map(_is_same_value, given, expected))
    return isinstance(given, bool) == isinstance(expected, bool) and bool(given == expected)


def _is_index(value: Any, key: object) -> bool:
    return isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value)
