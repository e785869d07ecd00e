"""Search for environments: those that installed packages register, and those in folders."""

import difflib
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import Distribution, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from openenv.auto.catalog import catalog_entry, published
from openenv.auto.files import find_file
from openenv.auto.installing import downloaded_space
from openenv.auto.manifest import MANIFEST_FILE
from openenv.auto.names import environment_key
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import PACKAGED, Target, TargetKind
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError, OpenEnvError

ENTRY_POINT_GROUP = "openenv.environments"
PUBLIC_PREFIX = "openenv-"
"""Beginning of the names of most distributions of public environments, which register nothing."""

_PUBLIC_METADATA = re.compile(r"(openenv[-_.].+|.+[-_.]env(-\d.*)?)\.(dist|egg)-info", re.IGNORECASE)
"""Name of the folder of metadata of such a distribution, or of a distribution whose name ends in ``_env``."""

_REQUIRES_OPENENV = re.compile(r"openenv(-core)?\b", re.IGNORECASE)

DEEPEST = 3
"""Levels of folders that ``list_folders`` looks into."""

PASSED_OVER = frozenset({"__pycache__", "build", "dist", "node_modules", "venv"})

logger = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Registration:
    """Environment that an installed distribution registers, before its folder is read.

    Attributes:
        name: The environment's name.
        module: Import path of its package.
        is_manifest_needed: Whether it is an error if its wheel has no ``openenv.yaml``, as for those that register
            themselves. Many wheels for the public package lack it.
    """

    name: str
    module: str
    is_manifest_needed: bool = True

    def locate(self) -> EnvironmentPackage:
        """Find the package's folder and read its manifest, importing nothing.

        Raises:
            ConfigurationError: The package is not there, or its manifest is not as it must be.
        """
        folders = _folders_of(self.module)
        if not folders:
            raise ConfigurationError(
                f"The environment {self.name!r} is registered as {self.module}, which can't be found; "
                "reinstall the package that registers it."
            )
        if not self.is_manifest_needed and not (folders[0] / MANIFEST_FILE).is_file():
            return EnvironmentPackage.without_manifest(folders[0], self.name)
        return EnvironmentPackage.from_folder(folders[0], self.name)


def list_environments() -> list[EnvironmentPackage]:
    """Return the installed environments, by name. Broken ones are left out, with a warning in the log.

    Nothing of an environment is imported.
    """
    packages = []
    for registration in _registrations():
        try:
            packages.append(registration.locate())
        except OpenEnvError as error:
            logger.warning("left out the environment %r: %s", registration.name, error)
    return packages


@dataclass(frozen=True)
class KnownEnvironment:
    """Environment that can be found without a server's address. Nothing of it was imported.

    Attributes:
        name: Its name.
        status: Whether it is installed, in a folder below the working directory, or in this project's catalog alone.
        version: Its version; ``None`` of an entry of the catalog, as the attributes below.
        description: A sentence for people.
        module: Import path of its package.
        folder: Its folder.
        install: The command that installs it; ``None`` where none is needed.
    """

    name: str
    status: Literal["installed", "here", "catalog"]
    version: str | None
    description: str
    module: str | None
    folder: str | None
    install: str | None

    @property
    def location(self) -> str:
        """The folder, seen from the working directory where it lies below, or the command that installs it."""
        if self.folder is None:
            return str(self.install)
        return f"./{Path(self.folder).relative_to(Path.cwd())}" if self.status == "here" else self.folder


def known_environments() -> list[KnownEnvironment]:
    """Return the environments that are installed, then those in folders here, then the others of the catalog."""
    installed = list_environments()
    folders = {package.folder for package in installed}
    names = {environment_key(package.name) for package in installed}
    here = [package for package in list_folders(Path.cwd()) if package.folder not in folders]
    return [
        *(_known_package(package, "installed") for package in installed),
        *(_known_package(package, "here") for package in here),
        *(
            KnownEnvironment(entry.name, "catalog", None, entry.description, None, None, entry.install_command)
            for entry in published()
            if environment_key(entry.name) not in names
        ),
    ]


def _known_package(package: EnvironmentPackage, status: Literal["installed", "here"]) -> KnownEnvironment:
    folder = str(package.folder)
    return KnownEnvironment(package.name, status, package.version, package.description, package.module, folder, None)


def list_folders(root: Path) -> list[EnvironmentPackage]:
    """Return the environments in the folders below a folder, and in itself. Nothing of an environment is imported.

    Args:
        root: The folder. Hidden folders and those of build tools are passed over, and what lies deeper than
            ``DEEPEST`` levels.

    Returns:
        The environments, by folder. Broken ones are left out, with a warning in the log.
    """
    packages = []
    for folder in sorted(_folders_with_manifest(root, DEEPEST)):
        try:
            packages.append(EnvironmentPackage.from_folder(folder))
        except OpenEnvError as error:
            logger.warning("left out the environment in %s: %s", folder, error)
    return packages


def _folders_with_manifest(folder: Path, levels: int) -> Iterator[Path]:
    if (folder / MANIFEST_FILE).is_file():
        yield folder
    if levels:
        with suppress(PermissionError):
            for below in folder.iterdir():
                passed_over = below.name.startswith(".") or below.name in PASSED_OVER
                if not passed_over and below.is_dir() and not below.is_symlink():
                    yield from _folders_with_manifest(below, levels - 1)


def find_environment(name_or_path: str | Path | Target) -> EnvironmentPackage:
    """Find an environment by its name, folder, file or Space. Nothing of it is imported.

    Args:
        name_or_path: A file of Python, ``guess.py`` or ``guess.py:GuessEnvironment``; a folder that holds
            ``openenv.yaml``, which wins; the name of an installed environment, where ``wordle``, ``wordle-env`` and
            ``wordle_env`` are the same; or a Space, ``OWNER/NAME``, which is downloaded if its code may run here.

    Returns:
        The environment's package.

    Raises:
        EnvironmentNotFoundError: There is no environment of that name, the folder holds no ``openenv.yaml``, or a
            Space's code may not run here.
        ConfigurationError: Its manifest is not as it must be, or two packages register the name.
        HubError: There is no such Space.
    """
    target = Target.of(name_or_path).required(PACKAGED, "find_environment")
    if target.kind is TargetKind.FILE:
        return find_file(target)
    if target.kind is TargetKind.NAME:
        return _choose(target.text, _registrations()).locate()
    folder = downloaded_space(target.text) if target.kind is TargetKind.SPACE else Path(target.text)
    if not (folder / MANIFEST_FILE).is_file():
        raise EnvironmentNotFoundError(_missing_folder(folder))
    return EnvironmentPackage.from_folder(folder)


def located(target: Target, *, trusted: bool = False) -> Target:
    """Return a target on this machine: for a Space the folder that it is downloaded to, else the target itself.

    Raises:
        EnvironmentNotFoundError: A Space's code may not run here.
        HubError: There is no such Space, or the Hub can't be reached.
    """
    return Target.of(downloaded_space(target.text, trusted=trusted)) if target.kind is TargetKind.SPACE else target


def checked(target: Target, *, imports: bool = True) -> str:
    """Return the text by which the server's process finds an environment, if it is there. A folder is not imported.

    Args:
        target: A target that a process of this machine serves.
        imports: Whether a file or an adapter's library is imported, to see that it has an environment.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
        ConfigurationError: The environment is not as it must be.
    """
    if target.kind is TargetKind.ADAPTED:
        if imports:
            import_module("openenv.adapters.targets").find_adapted(target)
        return target.text
    package = find_environment(target)
    if imports:
        package.check()
    return package.target


def short_name(target: Any) -> str:
    """Return the short name of an environment, whether it is there or not. No server is started or queried.

    Args:
        target: Its name, folder or file, ``PREFIX:ID``, an image, a Space, a class, or a server's address, whose short
            name is its host.

    Example:
        >>> short_name("http://localhost:8000"), short_name("gymnasium:CartPole-v1"), short_name("envs/unknown/")
        ('localhost', 'gymnasium:CartPole-v1', 'unknown')
    """
    found = Target.of(target)
    if found.kind is TargetKind.ADDRESS:
        return found.host
    if found.kind is TargetKind.SPACE:
        return found.repo.own_name
    if found.kind not in PACKAGED:
        return found.text
    try:
        return find_environment(found).name
    except OpenEnvError:
        return Path(found.text).resolve().name


def _choose(name: str, registrations: list[Registration]) -> Registration:
    keys = {environment_key(name), environment_key(name).removeprefix(environment_key(PUBLIC_PREFIX))}
    found = [each for each in registrations if keys & {environment_key(each.name), environment_key(each.module)}]
    if not found:
        raise EnvironmentNotFoundError(_unknown_name(name, registrations))
    if len(found) > 1:
        modules = " and ".join(each.module for each in found)
        raise ConfigurationError(f"{name!r} is registered by {modules}; uninstall one, or give the folder instead.")
    return found[0]


def _registrations() -> list[Registration]:
    entries = entry_points(group=ENTRY_POINT_GROUP)
    registered = {Registration(entry.name, entry.value) for entry in entries}
    modules = {each.module.partition(".")[0] for each in registered}
    public = {each for each in _public_registrations() if each.module not in modules}
    return sorted(registered | public)


def _public_registrations() -> Iterator[Registration]:
    """Iterate over environments of the public OpenEnv, whose distributions' names begin or end alike."""
    for distribution in filter(_is_public, _public_distributions()):
        module = next((name for name in _modules_of(distribution) if _is_environment(name)), None)
        if module is not None:
            yield Registration(module, module, is_manifest_needed=False)


def _public_distributions() -> Iterator[Distribution]:
    """Read the metadata of those only: that of hundreds of others takes ten times as long."""
    for folder in sys.path:
        with suppress(OSError):  # a folder that is not there, or an archive
            for found in Path(folder).iterdir():
                if _PUBLIC_METADATA.fullmatch(found.name):
                    yield Distribution.at(found)


def _is_public(distribution: Distribution) -> bool:
    """Return whether a distribution is for OpenEnv, by its name or by its requirements."""
    is_named_so = distribution.name.lower().startswith(PUBLIC_PREFIX[:-1])
    return is_named_so or any(map(_REQUIRES_OPENENV.match, distribution.requires or ()))


def _modules_of(distribution: Distribution) -> Iterator[str]:
    """Yield the names that its package may have: ``my_env`` for ``openenv-my``, or those that setuptools lists.

    A distribution with dots in its name may have a package within others.
    """
    from packaging.utils import canonicalize_name  # few installations have such a distribution

    name = canonicalize_name(distribution.name).removeprefix(PUBLIC_PREFIX).replace("-", "_")
    yield f"{name.removesuffix('_env')}_env"  # before ``name``: openenv-textarena is not the library textarena
    yield name
    yield distribution.name.replace("-", "_")
    yield from (distribution.read_text("top_level.txt") or "").split()


def _is_environment(module: str) -> bool:
    """Return whether a package has a manifest of an environment or, if the wheel left that out, a client."""
    return any((folder / file).is_file() for folder in _folders_of(module) for file in (MANIFEST_FILE, "client.py"))


def _folders_of(module: str) -> list[Path]:
    """Return the folders of a package; none of the packages around it is imported."""
    top, *below = module.split(".")
    spec = find_spec(top) if top.isidentifier() else None
    homes = [] if spec is None else [Path(home).joinpath(*below) for home in spec.submodule_search_locations or ()]
    return [home for home in homes if home.is_dir()]


def _missing_folder(folder: Path) -> str:
    if (folder / "server" / "app.py").is_file():
        return (
            f"{folder} holds no {MANIFEST_FILE}, only a server: write one, of the lines `name: {folder.name}` and "
            f"`app: server.app:app`; or start the server itself, from the folder above: "
            f"`uvicorn {folder.name}.server.app:app`."
        )
    if folder.is_dir():
        return f"{folder} holds no {MANIFEST_FILE}, so it is no environment; `openenv init NAME` makes one."
    return f"There is no folder {folder}; give an environment's folder, or the name of an installed one."


def _unknown_name(name: str, registrations: list[Registration]) -> str:
    entry = catalog_entry(name)
    if entry is not None:
        return (
            f"The environment {entry.name!r} is not installed; install it from a checkout of OpenEnv: "
            f"{entry.install_command}"
        )
    names = [each.name for each in registrations]
    known = {*names, *(entry.name for entry in published())}
    close = difflib.get_close_matches(environment_key(name), known, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    installed = ", ".join(names) or "none"
    return (
        f"No environment is called {name!r}.{hint} Installed are: {installed}. To add one, install its package "
        f"(pip install FOLDER_OR_URL), or give the folder that holds its {MANIFEST_FILE}; `openenv list` shows more."
    )
