"""Arguments of a Dockerfile, and the files that it refers to."""

import re
from pathlib import Path

from openenv.core.documents import read_text
from openenv.core.exceptions import ConfigurationError

DOCKERFILES = ("server/Dockerfile", "Dockerfile")
"""Paths in an environment's folder; the first that is there counts."""


class Dockerfile:
    """Parsed Dockerfile.

    Attributes:
        path: The file.
        text: Its content.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = read_text(path)

    @staticmethod
    def of_folder(folder: Path) -> "Dockerfile":
        """Find the Dockerfile of an environment's folder.

        Raises:
            ConfigurationError: There is none.
        """
        for name in DOCKERFILES:
            if (folder / name).is_file():
                return Dockerfile(folder / name)
        raise ConfigurationError(
            f"{folder} has neither {' nor '.join(DOCKERFILES)}. `openenv init` makes a folder with one to copy."
        )

    @property
    def arguments(self) -> set[str]:
        """The names that ``--build-arg`` may give it."""
        return set(re.findall(r"(?mi)^[ \t]*ARG[ \t]+(\w+)", self.text))

    def check_takes(self, argument: str) -> None:
        """Raise ``ConfigurationError`` if it has no such argument."""
        if argument not in self.arguments:
            raise ConfigurationError(
                f"{self.path} takes no {argument}. Begin it with a line such as `ARG {argument}=...`, and use it."
            )

    def mentions(self, name: str) -> bool:
        """Return whether it has a file or folder, by name or as ``nam[e]``, a pattern that may find nothing."""
        lines = [line for line in self.text.splitlines() if not line.lstrip().startswith("#")]
        pattern = re.compile(rf"{re.escape(name[:-1])}\[?{re.escape(name[-1])}(?!\w)")
        return any(pattern.search(line) for line in lines)
