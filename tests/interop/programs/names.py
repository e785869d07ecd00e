"""List what each public module of this interpreter's package promises: its ``__all__``, else what it defines.

And apart from that: which models, environments, clients and their functions each module has, of any module.
"""

import importlib
import inspect
import json
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

import openenv

ASIDE = ("openenv.core.harness", "openenv.harbor", "openenv.cli.commands.harbor")
"""Modules that are counted apart, with all below them."""

TEMPLATES = "openenv.cli.templates."
"""Files with placeholders in the place of names."""

HELD = "client_types env_client env_server.interfaces env_server.mcp_types env_server.serialization env_server.types"


def public_modules() -> Iterator[ModuleType]:
    """Import every module whose path has no private part; leaves out what needs a package that is not installed."""
    yield openenv
    for found in pkgutil.walk_packages(openenv.__path__, "openenv.", onerror=_leave_out):
        if not _is_counted(found.name):
            continue
        try:
            yield importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            sys.stderr.write(f"{found.name}: {error}\n")


def promised(module: ModuleType) -> list[str]:
    """Return the public names of a module: of those that it has, classes, functions and its Typer application."""
    members = inspect.getmembers(module)
    names = getattr(module, "__all__", [name for name, value in members if _is_own(name, value, module)])
    return sorted(name for name in names if not name.startswith("_"))


def held(module: ModuleType) -> list[str]:
    """Return the names of a module's models, environments, clients and their functions, imported ones among them."""
    owners = {f"openenv.core.{name}" for name in HELD.split()}
    members = inspect.getmembers(module)
    return [name for name, value in members if name[0] != "_" and getattr(value, "__module__", "") in owners]


def _leave_out(package: str) -> None:
    sys.stderr.write(f"{package}: can't be imported\n")


def _is_counted(module: str) -> bool:
    aside = any(module == name or module.startswith(f"{name}.") for name in ASIDE)
    private = any(part.startswith("_") for part in module.split("."))
    return not (aside or private or module.startswith(TEMPLATES))


def _is_own(name: str, value: object, module: ModuleType) -> bool:
    return getattr(value, "__module__", "") == module.__name__ or (name, type(value).__name__) == ("app", "Typer")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = list(public_modules())
        listed = {kind.__name__: {module.__name__: kind(module) for module in modules} for kind in (promised, held)}
        sys.stdout.write(json.dumps(listed))
