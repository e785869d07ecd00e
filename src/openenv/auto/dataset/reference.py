"""References to the environments of a dataset's repository, as people write them."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from openenv.core.exceptions import ConfigurationError
from openenv.hub.names import RepoName, checked_repo_id

DATASET_FILE = "environment.yaml"
"""File at the root of a dataset's repository that declares environments for its rows."""

HUB_SCHEME = "hf://"
_ON_HUB = re.compile(r"hf://datasets/(?P<repo>[^/@?]+/[^/@?]+)(/(?P<environment>[^/@?]+))?(@(?P<revision>[^@?\s]+))?")
_EXPECTED = "Expected an environment of a dataset, as in hf://datasets/ORG/REPO/ENV@REVISION or FOLDER/ENV"


@dataclass(frozen=True)
class DatasetRef:
    """Environment that a dataset's repository declares, on the Hub or in a folder.

    Attributes:
        repo: ``ORG/REPO`` on the Hub, or the path of the folder.
        environment: Its id in ``environment.yaml``; the only one there if ``None``.
        revision: Branch, tag or commit on the Hub; its main branch if ``None``.
        is_local: Whether the repository is a folder.
    """

    repo: str
    environment: str | None = None
    revision: str | None = None
    is_local: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a reference. The Hub is not queried.

        Args:
            text: ``hf://datasets/ORG/REPO/ENV@REVISION``, without ``ENV`` where there is only one, and without a
                revision for the main branch; or a folder with an ``environment.yaml``, that file, or ``FOLDER/ENV``.

        Raises:
            ConfigurationError: It is no reference.

        Example:
            >>> DatasetRef.parse("hf://datasets/me/sums/easy@v1").environment
            'easy'
        """
        if not text.startswith(HUB_SCHEME):
            return cls._of_path(Path(text).expanduser(), text)
        found = _ON_HUB.fullmatch(text)
        if found is None:
            raise ConfigurationError(f"{_EXPECTED}, got {text!r:.200}.")
        return cls(checked_repo_id(found["repo"], owner_needed=True), found["environment"], found["revision"])

    @classmethod
    def _of_path(cls, path: Path, text: str) -> Self:
        if path.name == DATASET_FILE and path.is_file():
            return cls(str(path.parent), is_local=True)
        if (path / DATASET_FILE).is_file():
            return cls(str(path), is_local=True)
        if (path.parent / DATASET_FILE).is_file():
            return cls(str(path.parent), path.name, is_local=True)
        raise ConfigurationError(f"{_EXPECTED}, got {text!r:.200}; there is no {path / DATASET_FILE}.")

    def __str__(self) -> str:
        """Return the reference as it is written."""
        if self.is_local:
            return str(Path(self.repo, self.environment or ""))
        environment = f"/{self.environment}" if self.environment else ""
        return f"hf://datasets/{self.repo}{environment}" + (f"@{self.revision}" if self.revision else "")

    @property
    def repo_name(self) -> RepoName:
        """The repository on the Hub, at its revision."""
        return RepoName(self.repo, "dataset", self.revision)

    def pinned(self, environment: str, commit: str | None) -> Self:
        """Return the reference with the id of its environment, and on the Hub at one commit."""
        return replace(self, environment=environment, revision=commit)


def is_dataset(text: str) -> bool:
    """Return whether a text is a reference to a dataset on the Hub, or a folder that declares environments."""
    if text.startswith(HUB_SCHEME):
        return True
    path = Path(text)
    declares = (path if path.name != DATASET_FILE else path.parent) / DATASET_FILE
    return declares.is_file() or (not path.exists() and (path.parent / DATASET_FILE).is_file() and path.parent != path)


def split_of_tasks(text: str) -> tuple[str, str] | None:
    """Return the reference and the split of ``REF?split=NAME``; ``None`` for any other text.

    Example:
        >>> split_of_tasks("hf://datasets/me/sums/easy@v1?split=test")
        ('hf://datasets/me/sums/easy@v1', 'test')
    """
    reference, found, split = text.partition("?split=")
    return (reference, split) if found and split else None
