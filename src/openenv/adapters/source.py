"""Objects of a project that is not OpenEnv's, loaded from its folder or from its installation."""

import hashlib
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from openenv.auto.importing import import_from_folder, load_file
from openenv.core.exceptions import ConfigurationError
from openenv.core.import_guard import importing

__all__ = ["load_object"]


def load_object(reference: str, root: Path) -> Any:
    """Load an object of a project.

    Args:
        reference: Its module and its name, as in ``my_package.games:Riddle``.
        root: The folder that the module lies in, if the project is on this machine. Where it is not there, the module
            is imported as installed.

    Raises:
        ConfigurationError: It is in neither, or what it needs is not installed.
    """
    module, _, name = reference.partition(":")
    root = root.resolve()
    file = root / f"{module.replace('.', '/')}.py"
    package = file.with_suffix("")
    with importing(f"openenv, which loads {reference},"):
        if "." not in module and file.is_file():
            loaded = _load_file(file)
        elif file.is_file() or (package / "__init__.py").is_file():
            loaded = import_from_folder(module, root / module.partition(".")[0])
        else:
            loaded = _import_installed(module, root)
    try:
        return getattr(loaded, name)
    except AttributeError:
        raise ConfigurationError(f"{loaded.__file__} has no {name}.") from None


def _load_file(file: Path) -> ModuleType:
    """Load a file under a distinct name: a project's ``server.py`` is not an environment's package ``server``."""
    name = f"openenv_source_{hashlib.sha256(str(file).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    try:
        return load_file(name, file)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{file} imports {error.name!r}, which is not installed; install what the project needs, or have "
            "`openenv serve FOLDER --venv` do so in a separate virtual environment."
        ) from error


def _import_installed(module: str, root: Path) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(
            f"The project's module {module} is neither in {root} nor installed; install the project (pip install "
            "FOLDER), or correct the path in the environment's module."
        ) from error
