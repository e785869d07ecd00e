"""Hand out a package's public names on first use, so that importing it stays cheap (PEP 562)."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, tuple[str, ...]], optional: Mapping[str, str] | None = None
) -> tuple[list[str], Callable[[str], Any]]:
    """Build a package's ``__all__`` and its module-level ``__getattr__``.

    Args:
        package: The package's ``__name__``.
        modules: For each module, as an absolute name, the public names that live there.
        optional: For names that need an extra, the package that it brings: without it they are ``None``.

    Returns:
        The sorted public names, and the function to bind as ``__getattr__``.

    Example:
        >>> __all__, __getattr__ = lazy_exports(__name__, {"json": ("dumps",)})
        >>> __all__
        ['dumps']
        >>> __getattr__("dumps")([1])
        '[1]'
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def resolve(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if optional and name in optional and not _is_installed(optional[name]):
            return None
        return getattr(import_module(homes[name]), name)

    return sorted(homes), resolve


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # it was hidden from this process
        return False
