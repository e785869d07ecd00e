"""The environments that this project publishes, installed or not, as ``catalog.json`` beside this module has them.

``python -m openenv.auto.catalog envs`` writes that file anew from the folders that hold them.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from openenv.auto.manifest import MANIFEST_FILE, load_manifest
from openenv.auto.names import environment_key
from openenv.core.documents import read_toml

CATALOG_FILE = "catalog.json"


@dataclass(frozen=True, order=True)
class CatalogEntry:
    """Environment of the catalog.

    Attributes:
        name: The environment's name.
        description: One sentence for people.
        distribution: The package that has it.
    """

    name: str
    description: str
    distribution: str

    @property
    def install_command(self) -> str:
        """Command that installs it from a checkout of this project; no index has it."""
        folder = self.distribution.removeprefix("openenv-").replace("-", "_")
        return f"pip install ./envs/{folder}"


@cache
def published() -> tuple[CatalogEntry, ...]:
    """Return the environments that this project publishes, by name."""
    text = (files("openenv.auto") / CATALOG_FILE).read_text(encoding="utf-8")
    return tuple(CatalogEntry(**entry) for entry in json.loads(text))


def catalog_entry(name: str) -> CatalogEntry | None:
    """Return the entry of a name, in any of its forms, or ``None``."""
    key = environment_key(name)
    return next((entry for entry in published() if environment_key(entry.name) == key), None)


def read_entries(folder: Path) -> list[CatalogEntry]:
    """Describe the environments in the folders of a folder, each a distribution of one or several environments.

    Raises:
        ConfigurationError: A manifest is not as it must be.
    """
    return sorted(entry for project in folder.glob("*/pyproject.toml") for entry in _entries_of(project))


def catalog_text(folder: Path) -> str:
    """Write the catalog of the environments in a folder, as ``CATALOG_FILE`` has it; see ``read_entries``."""
    entries = [asdict(entry) for entry in read_entries(folder)]
    return f"{json.dumps(entries, indent=2, ensure_ascii=False)}\n"


def _entries_of(project_file: Path) -> Iterator[CatalogEntry]:
    distribution = read_toml(project_file)["project"]["name"]
    for file in project_file.parent.rglob(MANIFEST_FILE):
        manifest = load_manifest(file.parent)
        yield CatalogEntry(environment_key(manifest.name), manifest.description, distribution)


if __name__ == "__main__":
    Path(__file__).with_name(CATALOG_FILE).write_text(catalog_text(Path(sys.argv[1])), encoding="utf-8")
