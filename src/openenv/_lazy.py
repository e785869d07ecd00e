"""Imports of a package's public names on first use, so that importing it stays cheap (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from openenv._mixture import warn_of_mixture
from openenv._version import PACKAGE_FOLDER

# Here, as each of our packages imports this module: the file that would be first, openenv/__init__.py, is one of those
# that the public package overwrites.
warn_of_mixture(PACKAGE_FOLDER)


def lazy_exports(
    package: str,
    modules: Mapping[str, tuple[str, ...]],
    optional: Mapping[str, str] | None = None,
    unlisted: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Build a package's ``__all__`` and its module-level ``__getattr__`` and ``__dir__``.

    Args:
        package: The package's ``__name__``.
        modules: For each module, as an absolute name, the public names that live there.
        optional: For names that need an extra, the package of it: without it they are ``None``.
        unlisted: As ``modules``, for names that programs may import and that are shown nowhere.

    Returns:
        The sorted public names, the function to bind as ``__getattr__``, and the one to bind as ``__dir__``, with which
        completion lists the public names, the submodules imported so far, and nothing else.

    Example:
        >>> __all__, __getattr__, __dir__ = lazy_exports(__name__, {"json": ("dumps",)})
        >>> __all__
        ['dumps']
        >>> __getattr__("dumps")([1])
        '[1]'
        >>> "dumps" in __dir__()
        True
    """
    listed = sorted(name for names in modules.values() for name in names)
    homes = {name: module for module, names in (*modules.items(), *(unlisted or {}).items()) for name in names}

    def resolve(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if optional and name in optional and not _is_installed(optional[name]):
            return None
        return getattr(import_module(homes[name]), name)

    def names() -> list[str]:
        own = [name for name, value in vars(sys.modules[package]).items() if _is_public(package, name, value)]
        return sorted({*listed, *own})

    return listed, resolve, names


def _is_public(package: str, name: str, value: Any) -> bool:
    """Return whether a global of a package is of its interface: ``__version__`` and the like, or a submodule."""
    if name.startswith("__"):
        return True
    return isinstance(value, ModuleType) and value.__name__ == f"{package}.{name}" and not name.startswith("_")


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # it was hidden from this process
        return False
