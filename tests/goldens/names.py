"""Public names: what each package of ``openenv`` promises by its ``__all__``."""

import importlib
from importlib.util import find_spec
from pathlib import Path

from tests.support.modules import MODULES


def names_of_packages(folder: Path) -> dict[str, list[str]]:
    """Return the sorted ``__all__`` of every package that has one, but for private ones."""
    packages = (importlib.import_module(name) for name in MODULES if "._" not in name and _is_package(name))
    return {package.__name__: sorted(package.__all__) for package in packages if hasattr(package, "__all__")}


def _is_package(name: str) -> bool:
    spec = find_spec(name)
    return spec is not None and spec.submodule_search_locations is not None
