"""Files of one commit of a Git repository, read by git itself and without a checkout."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from openenv.discovery.errors import CatalogError
from openenv.discovery.models import github_repository, relative_path

MAX_FILE_BYTES = 1024 * 1024
MAX_ENVIRONMENTS = 10_000
_MANIFEST = "openenv.yaml"
_TIMEOUT_S = 60
_SYMLINK = "120000"
# Nothing is fetched, prompted for or replaced: only what the commit has is read.
_GIT_VARIABLES = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


class GitFile(NamedTuple):
    """File of a commit."""

    mode: str
    object_id: str
    bytes: int


class MetadataError(CatalogError):
    """Error in an environment's files, which lack what its entry needs; the catalog has an issue instead.

    Attributes:
        code: ``missing_metadata``, ``symlink_metadata``, ``metadata_limit`` or ``invalid_metadata``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class GitMetadataSource:
    """A repository at one commit, and the environments in a folder of it.

    Args:
        repository: The repository on this machine.
        repository_uri: Its public address, ``https://github.com/OWNER/NAME.git``.
        revision: A commit, a branch or a tag.
        root: The folder that holds the environments' folders; ``.`` for the repository itself.

    Attributes:
        repository_id: ``OWNER/NAME``.
        uri: The public address.
        revision: The commit's full hash.
        files: Its files by path, with mode, object and size.
        environments: The folders with an ``openenv.yaml``, sorted.

    Raises:
        CatalogError: An argument is not as it must be, or git can't read the repository.

    Example::

        source = GitMetadataSource(Path("."), "https://github.com/acme/games.git", "v1.2", "envs")
        for folder in source.environments:
            print(folder, source.read(f"{folder}/README.md"))
    """

    def __init__(self, repository: Path, repository_uri: str, revision: str = "HEAD", root: str = "envs") -> None:
        try:
            self.repository_id, self.root = github_repository(repository_uri), relative_path(root)
        except ValueError as error:
            raise CatalogError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
        self.uri = repository_uri
        self.repository = repository
        commit = f"{revision}^{{commit}}"
        self.revision = self._git("rev-parse", "--verify", "--end-of-options", commit).decode("ascii").strip()
        self.files = dict(map(_read_row, filter(None, self._git("ls-tree", "-rlz", self.revision).split(b"\0"))))
        self.environments = self._find_environments()

    def read(self, path: str, *, required: bool = False) -> str | None:
        """Return a file's text; ``None`` where there is no such file and it is not ``required``.

        Raises:
            MetadataError: It is a link, too long, not UTF-8, or required and not there.
        """
        file = self.files.get(path)
        if file is None:
            if required:
                raise MetadataError("missing_metadata", f"The commit has no file {path}.")
            return None
        if file.mode == _SYMLINK:
            raise MetadataError("symlink_metadata", f"{path} is a link; expected a file.")
        if file.bytes > MAX_FILE_BYTES:
            raise MetadataError("metadata_limit", f"{path} has {file.bytes} bytes, and at most {MAX_FILE_BYTES} fit.")
        try:
            return self._git("cat-file", "blob", file.object_id).decode("utf-8")
        except UnicodeDecodeError as error:
            raise MetadataError("invalid_metadata", f"{path} is not UTF-8 text.") from error

    def url(self, path: str) -> str:
        """Return the address of a file's page."""
        return f"https://github.com/{self.repository_id}/blob/{self.revision}/{quote(path)}"

    def _find_environments(self) -> list[str]:
        prefix = "" if self.root == "." else f"{self.root}/"
        inside = [path.removeprefix(prefix) for path in self.files if path.startswith(prefix)]
        if not inside:
            raise CatalogError(
                f"{self.repository} has no folder {self.root} at {self.revision}; name another with --root."
            )
        folders = [path.removesuffix(f"/{_MANIFEST}") for path in inside if path.endswith(f"/{_MANIFEST}")]
        found = sorted(f"{prefix}{folder}" for folder in folders if "/" not in folder)
        if len(found) > MAX_ENVIRONMENTS:
            raise CatalogError(f"{self.root} has {len(found)} environments, and a catalog at most {MAX_ENVIRONMENTS}.")
        return found

    def _git(self, *arguments: str) -> bytes:
        command = ["git", "--no-pager", "-C", str(self.repository), *arguments]
        try:
            done = subprocess.run(  # noqa: S603  # git, with arguments that are no options
                command, capture_output=True, check=True, timeout=_TIMEOUT_S, env={**os.environ, **_GIT_VARIABLES}
            )
        except subprocess.CalledProcessError as error:
            report = error.stderr.decode(errors="replace").strip()
            raise CatalogError(f"git can't read {self.repository}: {report}") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CatalogError(f"git can't read {self.repository}: {error}") from error
        return done.stdout


def _read_row(row: bytes) -> tuple[str, GitFile]:
    about, _, path = row.partition(b"\t")
    mode, _kind, object_id, size = about.decode("ascii").split()
    try:
        return path.decode("utf-8"), GitFile(mode, object_id, int(size) if size.isdecimal() else 0)
    except UnicodeDecodeError as error:
        raise CatalogError(f"The repository has a file whose name is not UTF-8: {path!r}.") from error
