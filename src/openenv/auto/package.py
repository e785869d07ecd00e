"""Package of an environment: its folder, its manifest, and the classes in it."""

import ast
import inspect
import sys
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from openenv.auto.classes import find_class, load_attribute, only_environment
from openenv.auto.importing import bare_names, import_file, import_from_folder, module_path
from openenv.auto.manifest import MANIFEST_FILE, Manifest, load_manifest
from openenv.auto.serving import app_for
from openenv.core.documents import read_text
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsObservation
from openenv.core.env_server.types import Action, Observation
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from openenv.core.env_client import EnvClient

_USUAL_APP = "server/app.py"

Player = Callable[[Any], BaseModel]
"""Scripted player of one episode: from each observation, the first of them reset's, to the next action."""


class EnvClientLike(ABC):  # noqa: B024  # which classes are of it, the hook says
    """Any class that is made with a server's address, and has the methods that play an episode."""

    @classmethod
    def __subclasshook__(cls, other: type[Any]) -> bool:
        has_methods = all(inspect.isfunction(inspect.getattr_static(other, name, None)) for name in ("reset", "step"))
        return has_methods and "base_url" in inspect.signature(other).parameters


@dataclass(frozen=True)
class EnvironmentPackage:
    """An environment that is installed or lies in a folder. Its constructor imports nothing of it; its methods do.

    Attributes:
        name: Its name, such as ``wordle``.
        module: Import path of its package, such as ``wordle_env``.
        folder: Folder of its ``openenv.yaml``.
        manifest: Contents of ``openenv.yaml``.
    """

    name: str
    module: str
    folder: Path
    manifest: Manifest

    @classmethod
    def from_folder(cls, folder: Path, name: str | None = None) -> "EnvironmentPackage":
        """Describe the environment in a folder.

        Args:
            folder: The folder that holds ``openenv.yaml``.
            name: Its name; the manifest's if ``None``.

        Raises:
            ConfigurationError: The manifest is not as it must be, or the folder can't be a package.
        """
        folder = folder.resolve()
        return cls._with_manifest(folder, load_manifest(folder), name)

    @classmethod
    def without_manifest(cls, folder: Path, name: str) -> "EnvironmentPackage":
        """Describe an installed environment whose wheel left ``openenv.yaml`` out.

        Args:
            folder: The folder of its package.
            name: Its name.
        """
        return cls._with_manifest(folder.resolve(), Manifest(name=name), name)

    @classmethod
    def _with_manifest(cls, folder: Path, manifest: Manifest, name: str | None) -> "EnvironmentPackage":
        module = module_path(folder)[0]
        return cls(name or manifest.name, module, folder, manifest.seen_from(module.rpartition(".")[2]))

    @classmethod
    def from_app(cls, folder: Path, app: str) -> "EnvironmentPackage":
        """Describe the environment that an application in a folder serves, whether or not there is a manifest.

        Args:
            folder: The folder.
            app: The application, as ``module:attribute`` from the folder.

        Raises:
            ConfigurationError: There is no such folder, it can't be a package, or that is no application's name.
        """
        folder = folder.expanduser().resolve()
        if not folder.is_dir():
            raise ConfigurationError(f"There is no folder {folder}; give the folder that {app} is in.")
        module = module_path(folder)[0]
        has_manifest = (folder / MANIFEST_FILE).is_file()
        keys = load_manifest(folder).model_dump(exclude_unset=True) if has_manifest else {"name": module}
        try:
            manifest = Manifest.model_validate({**keys, "app": app})
        except ValidationError as error:
            raise ConfigurationError(
                f"Expected an application as module:attribute, as in server.app:app, got {app!r}."
            ) from error
        return cls(manifest.name, module, folder, manifest)

    @property
    def task_sets(self) -> dict[str, str]:
        """References of the environments of datasets that ``openenv.yaml`` names, by their names."""
        return self.manifest.task_sets_from(self.folder)

    @property
    def target(self) -> str:
        """Target by which commands find it: its folder, or its name where it is installed without a manifest."""
        return str(self.folder) if (self.folder / MANIFEST_FILE).is_file() else self.name

    @property
    def description(self) -> str:
        """One sentence for people; empty if the manifest has none."""
        return self.manifest.description

    @property
    def version(self) -> str:
        """The environment's version."""
        return self.manifest.version

    def client_class(self) -> "type[EnvClient[Any, Any, Any]]":
        """Return the package's client; where it has none, a client for tools, or for its environment's class.

        A client in the package that extends no class of OpenEnv, as for a server that speaks HTTP only, counts too.

        Raises:
            ConfigurationError: Several classes could be it, or the one that the manifest names is not there.
        """
        from openenv.core.env_client import EnvClient  # a server needs no client

        found = find_class(self, EnvClient, "client", ("client", ""), otherwise=EnvClientLike)
        return derived_client_class(self.environment_class()) if found is None else found

    def action_class(self) -> type[BaseModel]:
        """Return the class of the actions.

        Raises:
            ConfigurationError: Several classes could be it, or none.
        """
        try:
            found = find_class(self, BaseModel if self.manifest.action else Action, "action", ("models", "client", ""))
        except ConfigurationError as several:
            if self.manifest.action is not None:
                raise
            return self._union_of_actions(several)
        return environment_types(self.environment_class()).action if found is None else found

    def observation_class(self) -> type[BaseModel]:
        """Return the class of the observations; of several, the one that is not only of tools.

        Raises:
            ConfigurationError: Several classes could be it, or none.
        """
        base = BaseModel if self.manifest.observation else Observation
        tools = (ListToolsObservation, CallToolObservation)
        found = find_class(self, base, "observation", ("models", "client", ""), second_choice=tools)
        return environment_types(self.environment_class()).observation if found is None else found

    def _union_of_actions(self, several: ConfigurationError) -> type[BaseModel]:
        """Return the class that the environment takes where there are several: it may be a union of them."""
        try:
            environment = self.environment_class()
        except (ConfigurationError, ImportError):
            raise several from None
        return environment_types(environment).action

    def environment_class(self) -> type[Environment[Any, Any, Any]]:
        """Return the environment's class. This imports what the server needs.

        Raises:
            ConfigurationError: Several classes could be it, or none.
        """
        app_module = self.manifest.app.partition(":")[0]
        with bare_names(self.folder):
            if self.manifest.environment is None and not self._has_app():
                return self._only_environment()
            found = find_class(self, Environment, "environment", (app_module,))
        if found is None:
            raise ConfigurationError(
                f"{self.folder}: no Environment class is imported by {app_module}; "
                "name its location in openenv.yaml, as in `environment: server.my_environment:MyEnvironment`."
            )
        return found

    def make_player(self, seed: int) -> Player | None:
        """Make a scripted player of one episode.

        Args:
            seed: Players with the same seed choose alike.

        Returns:
            A function from the last observation to the next action, or ``None`` if the package has no player.

        Raises:
            ConfigurationError: The function that the manifest names is not there.
        """
        if self.manifest.player is None:
            return None
        player: Player = load_attribute(self, "player", self.manifest.player)(seed)
        return player

    def check(self) -> None:
        """Refuse a folder without an environment, before a server is started; it is imported by its server alone."""

    def app(self) -> "FastAPI":
        """Import the server's application, or build it, for a process that serves nothing else.

        Raises:
            ConfigurationError: The application that the manifest names is not there; or there is neither one nor a
                single environment that could be served.
        """
        # Public environments fall back on `import models`, as in a container that starts in their folder.
        if str(self.folder) not in sys.path:
            sys.path.append(str(self.folder))
        if not self._has_app():
            return app_for(self.environment_class(), self.name)
        app: FastAPI = load_attribute(self, "app", self.manifest.app)
        return app

    def import_module(self, name: str) -> ModuleType:
        """Import one of the package's modules.

        Args:
            name: The module, as seen from the folder: ``client``, ``server.app``; the package itself if empty.
        """
        return import_from_folder(f"{self.module}.{name}".rstrip("."), module_path(self.folder)[1])

    def _has_app(self) -> bool:
        """Return whether the manifest names an application, or the usual file has one."""
        return "app" in self.manifest.model_fields_set or (self.folder / _USUAL_APP).is_file()

    def _only_environment(self) -> type[Environment[Any, Any, Any]]:
        """Return the only environment's class in the folder or its ``server``.

        Only files that define a class by such a name are imported: a folder may have scripts too.
        """
        files = sorted([*self.folder.glob("*.py"), *self.folder.glob("server/*.py")])
        return only_environment({str(file): import_file(file) for file in files if _may_define_environment(file)})


def derived_client_class(environment: type[Environment[Any, Any, Any]]) -> "type[EnvClient[Any, Any, Any]]":
    """Return a client for an environment without a client: one for tools, or one for its class."""
    from openenv.core.mcp_client import MCPToolClient  # a server needs no client
    from openenv.core.typed_client import client_for

    of_tools = environment_types(environment).action is CallToolAction
    return MCPToolClient if of_tools else client_for(environment)


def _may_define_environment(file: Path) -> bool:
    """Return whether a class in a file may extend an environment's; a file that can't be parsed may."""
    try:
        tree = ast.parse(read_text(file))
        bases = [ast.unparse(base) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for base in node.bases]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of what is nested deeply
        return True
    return any("Environment" in base for base in bases)
