"""Imports of an environment's modules from its folder, whatever else is installed under the same name."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from openenv.core.documents import read_toml
from openenv.core.exceptions import ConfigurationError
from openenv.core.import_guard import importing

_WHICH_PACKAGE = "install the package that has this module, which may be of another name"


def module_path(folder: Path) -> tuple[str, Path]:
    """Return the import path of a package, such as ``games_env.chess``, and the folder of its topmost package.

    Raises:
        ConfigurationError: The folder's name can't be a module's.
    """
    if (folder / "__init__.py").exists() and (folder.parent / "__init__.py").exists():
        parent, top = module_path(folder.parent)
        return f"{parent}.{folder.name}", top
    name = _declared_name(folder) or folder.name.replace("-", "_")
    if not name.isidentifier():
        raise ConfigurationError(
            f"{folder}: {folder.name!r} can't be a Python package's name; rename the folder, or map the package's name "
            'to "." under [tool.setuptools.package-dir] in its pyproject.toml.'
        )
    return name, folder


def _declared_name(folder: Path) -> str | None:
    """Return the package that the folder's pyproject.toml maps to the folder itself."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    table: Any = read_toml(file)
    for key in ("tool", "setuptools", "package-dir"):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise ConfigurationError(
                f"{file}: expected {key} of [tool.setuptools.package-dir] to be a table, got {table!r:.100}."
            )
    return next((name for name, path in table.items() if name and path in (".", "./")), None)


def import_from_folder(module: str, top_folder: Path) -> ModuleType:
    """Import a module whose topmost package is a given folder.

    Args:
        module: The import path, such as ``my_env.server.app``.
        top_folder: The folder of ``my_env``. The folder above it joins the end of ``sys.path``, for the
            processes that the environment may start.

    Raises:
        ConfigurationError: The package is loaded from another folder already, needs a module that is not installed, or
            ends the process.
    """
    top = module.partition(".")[0]
    try:
        with _kept_from_ending(module, top_folder):
            _ensure_package(top, top_folder)
            return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] == top:
            raise
        raise ConfigurationError(_about_missing(module, top_folder, missing)) from error


@contextmanager
def _kept_from_ending(module: str, folder: Path) -> Iterator[None]:
    """Have a module that ends the process where it is imported be an error like any other.

    Raises:
        ConfigurationError: It does.
    """
    try:
        yield
    except SystemExit as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith(str(folder.absolute()))] or frames
        raise ConfigurationError(
            f"{own[-1].filename}, line {own[-1].lineno}: ends the process when {module} is imported ({own[-1].line}); "
            'put what only a program does under `if __name__ == "__main__":`.'
        ) from error


def _about_missing(module: str, folder: Path, missing: str) -> str:
    if _is_of_openenv(missing):
        return f"{module} needs {_absent_here(missing)}"
    command = _install_command(folder)
    if command is None:
        return (
            f"{module} needs the module {missing!r}, which is not installed; {_WHICH_PACKAGE}, and list it in "
            f"{folder / 'requirements.txt'} or in a pyproject.toml."
        )
    return (
        f"{module} needs the module {missing!r}, which is not installed; install what the environment depends on: "
        f"{command} (or have `openenv serve {folder} --venv` do so in a separate virtual environment)"
    )


def _is_of_openenv(missing: str) -> bool:
    """Return whether a missing module may be of this package: pip would install the public package for it."""
    return missing.startswith("openenv.")


def _absent_here(missing: str) -> str:
    return (
        f"the module {missing!r}, which this OpenEnv does not have, and no installation brings it. What of the public "
        "package is left out, and what is there instead: docs/drop-in.md."
    )


def _install_command(folder: Path) -> str | None:
    """Return the command that installs the requirements of a folder; ``None`` if it lists none."""
    from openenv.core.providers.venv.requirements import read_requirements  # most imports succeed

    try:
        requirements = read_requirements(folder)
    except ConfigurationError:
        requirements = None
    return requirements.install_command() if requirements and requirements.lines else None


@contextmanager
def bare_names(folder: Path) -> Iterator[None]:
    """Let a folder's modules be imported by their bare names for the time of the block, as in ``from models import X``.

    Public environments do that, or fall back on it: their containers start in their folder. These modules are forgotten
    afterwards, as the next folder has modules of the same names.
    """
    if str(folder) in sys.path:
        yield
        return
    before = set(sys.modules)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if _has_bare_name(name, folder):
                del sys.modules[name]


def _has_bare_name(name: str, folder: Path) -> bool:
    """Return whether a module was loaded from a folder as a module at the top, and not as part of a package."""
    module, top = sys.modules[name], name.partition(".")[0]
    paths = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    tops = (folder / top, folder / f"{top}.py")
    return any(Path(path).is_relative_to(home) for path in paths if path is not None for home in tops)


def _ensure_package(name: str, folder: Path) -> None:
    loaded = sys.modules.get(name)
    if loaded is not None:
        homes = [Path(home).resolve() for home in getattr(loaded, "__path__", [])]
        if folder.resolve() not in homes:
            raise ConfigurationError(
                f"Can't import {name} from {folder}: this process has loaded another {name} "
                f"from {', '.join(map(str, homes)) or loaded}. Rename one, or use them in two processes."
            )
        return
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))
    _load_package(name, folder)


def _load_package(name: str, folder: Path) -> None:
    init = folder / "__init__.py"
    spec = spec_from_file_location(name, init, submodule_search_locations=[str(folder)])
    if not init.is_file() or spec is None or spec.loader is None:
        raise ConfigurationError(f"{folder} has no __init__.py, so it is no package; add an empty one.")
    _run(name, spec)


def import_file(file: Path) -> ModuleType:
    """Import a file: as a module of its package, if it is in one, else by its own name.

    The program itself is not imported a second time, so that its classes are the same.

    Raises:
        ConfigurationError: Another module of that name is loaded, or the file imports what is not installed.
    """
    main = sys.modules["__main__"]
    if Path(str(getattr(main, "__file__", None))).resolve() == file:
        return main
    name = file.stem.replace("-", "_")
    with importing(f"openenv, which serves {file.name},"):
        if (file.parent / "__init__.py").is_file():
            package, top = module_path(file.parent)
            return import_from_folder(f"{package}.{name}", top)
        return _import_alone(name, file)


def _import_alone(name: str, file: Path) -> ModuleType:
    loaded = sys.modules.get(name)
    if loaded is not None:
        if Path(str(getattr(loaded, "__file__", None))).resolve() == file:
            return loaded
        raise ConfigurationError(f"A module {name} is loaded already, from {loaded.__file__}; rename {file}.")
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))
    with _clear_of_missing(file):
        return load_file(name, file)


def load_file(name: str, file: Path) -> ModuleType:
    """Run a file as the module of a name, which is loaded afterwards, but not where it raises.

    Raises:
        ConfigurationError: It ends the process.
    """
    spec = spec_from_file_location(name, file)
    assert spec is not None
    with _kept_from_ending(file.name, file.parent):
        return _run(name, spec)


def _run(name: str, spec: ModuleSpec) -> ModuleType:
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _clear_of_missing(file: Path) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if _is_of_openenv(missing):
            raise ConfigurationError(f"{file} imports {_absent_here(missing)}") from error
        raise ConfigurationError(
            f"{file} imports {missing!r}, which is neither installed nor in the file's folder; {_WHICH_PACKAGE}."
        ) from error
    except SyntaxError as error:
        raise ConfigurationError(f"{error.filename or file}, line {error.lineno or 1}: {error.msg}.") from error
