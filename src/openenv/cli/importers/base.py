"""Importers of environments from projects of other libraries, and the registry that looks through them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

__all__ = ["DetectedEnvironment", "EnvironmentImporter", "ImporterRegistry"]


@dataclass(frozen=True)
class DetectedEnvironment:
    """An environment that a project of another library defines.

    Attributes:
        source_type: The library that it is written for, as ``ors``.
        class_name: Its class, or the function that makes it.
        module_path: Its module, as seen from ``root``.
        file_path: The module's file.
        description: The first line of its docstring; empty if it has none.

    Example:
        >>> DetectedEnvironment("ors", "Riddles", "games.riddles", Path("games/riddles.py")).qualified_name
        'games.riddles:Riddles'
    """

    source_type: str
    class_name: str
    module_path: str
    file_path: Path
    description: str = ""

    @property
    def qualified_name(self) -> str:
        """Module and name."""
        return f"{self.module_path}:{self.class_name}"

    @property
    def root(self) -> Path:
        """The folder that its topmost package or module lies in."""
        depth = self.module_path.count(".") + (self.file_path.name == "__init__.py")
        return self.file_path.parents[depth]


class EnvironmentImporter(Protocol):
    """Finder of a library's environments in a project, and writer of the folders that play them.

    Attributes:
        source_type: Name of the library, as ``openenv import --type`` takes it.
    """

    source_type: str

    def detect(self, source: Path) -> list[DetectedEnvironment]:
        """Return the environments that a project's folder defines, by its source alone."""

    def generate(self, *, source: Path, destination: Path, env_name: str, detected: DetectedEnvironment) -> None:
        """Write the folder of an environment that plays one of a project.

        Args:
            source: Folder of the project.
            destination: The new folder.
            env_name: The new environment's name.
            detected: The project's environment.
        """


class ImporterRegistry:
    """Importers, by the library that each is for.

    Args:
        importers: The importers, in the order in which they are used.

    Example:
        >>> from openenv.cli.importers import DEFAULT_IMPORTERS
        >>> ImporterRegistry(DEFAULT_IMPORTERS).supported_types
        ['ors', 'verifiers']
    """

    def __init__(self, importers: Sequence[EnvironmentImporter]) -> None:
        self._importers = {importer.source_type: importer for importer in importers}

    @property
    def supported_types(self) -> list[str]:
        """Names of the libraries, in the importers' order."""
        return list(self._importers)

    def get(self, source_type: str) -> EnvironmentImporter:
        """Return the importer of a library.

        Args:
            source_type: Name of the library.

        Raises:
            ValueError: There is none for it.
        """
        if source_type not in self._importers:
            raise ValueError(
                f"Unsupported source type '{source_type}'. Supported: {', '.join(self.supported_types) or 'none'}"
            )
        return self._importers[source_type]

    def detect(
        self, source: Path, source_type: str | None = None
    ) -> list[tuple[EnvironmentImporter, DetectedEnvironment]]:
        """Return the environments that a project defines, each with the importer that found it.

        Args:
            source: Folder of the project.
            source_type: Name of the only library to look for; ``None`` for all.

        Raises:
            ValueError: There is no importer for ``source_type``.
        """
        importers = list(self._importers.values()) if source_type is None else [self.get(source_type)]
        return [(importer, found) for importer in importers for found in importer.detect(source)]
