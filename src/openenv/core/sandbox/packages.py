"""Where the interpreter and the allowed packages lie on the server's machine."""

import json
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from re import match

from openenv.core.exceptions import ConfigurationError


def interpreter() -> Path:
    """Return the program that runs this server, outside any virtual environment."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Path(sys.base_prefix) / "bin" / version


def standard_library() -> Path:
    """Return the folder of the standard library."""
    return Path(sysconfig.get_path("stdlib"))


def package_files(names: Iterable[str]) -> dict[str, Path]:
    """Find what allowed packages are made of, with the packages that they require.

    Args:
        names: Names of installed distributions.

    Returns:
        Files and folders by the name under which they are imported.

    Raises:
        ConfigurationError: One is not installed, or only by a link to a checkout.
    """
    found: dict[str, Path] = {}
    for package in _with_requirements(names):
        found |= _files_of(package)
    return found


def _files_of(package: Distribution) -> dict[str, Path]:
    tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
    # https://packaging.python.org/en/latest/specifications/direct-url/: a link to a checkout may have files beside it.
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable") or not any(
        top.isidentifier() or top.endswith((".py", ".so")) for top in tops
    ):
        raise ConfigurationError(
            f"The package {package.name!r} is to be allowed in the sandbox, but nothing of it is in the folder of "
            "installed packages, as with an editable installation; install it as others do: pip install PATH."
        )
    return {top: Path(str(package.locate_file(top))) for top in tops}


def _with_requirements(names: Iterable[str]) -> Iterator[Distribution]:
    waiting, seen = list(names), set[str]()
    required_by: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        package = _installed(name, required_by.get(name))
        if package is None or package.name in seen:
            continue
        seen.add(package.name)
        yield package
        for requirement in package.requires or ():
            further = _requirement_name(requirement)
            if further is not None:
                required_by[further] = package.name
                waiting.append(further)


def _installed(name: str, required_by: str | None) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        if required_by is not None:  # for another platform or version, as its marker says
            return None
        raise ConfigurationError(
            f"The package {name!r} is to be allowed in the sandbox, but is not installed here; install it first."
        ) from error


def _requirement_name(requirement: str) -> str | None:
    """Return the name at the start of a requirement; ``None`` for one of an extra."""
    if "extra ==" in requirement:
        return None
    name = match(r"[A-Za-z0-9._-]+", requirement)
    return None if name is None else name[0]
