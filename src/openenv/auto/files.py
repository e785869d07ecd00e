"""An environment in a file, ``guess.py`` or ``guess.py:GuessEnvironment``, without a folder."""

import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel

from openenv.auto.classes import only_environment, own_classes
from openenv.auto.importing import import_file
from openenv.auto.manifest import Manifest
from openenv.auto.package import EnvironmentPackage, Player, derived_client_class
from openenv.auto.serving import app_for
from openenv.auto.target import Target, is_source
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.interfaces import Environment
from openenv.core.environment_types import environment_types
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from openenv.core.env_client import EnvClient


@dataclass(frozen=True)
class EnvironmentFile(EnvironmentPackage):
    """An environment whose class is in one file. Its methods import the file.

    Attributes:
        file: The file, absolute.
        attribute: Name of the class, or of a function or an application, in it; ``None`` for its only environment.
    """

    file: Path
    attribute: str | None

    @property
    def target(self) -> str:
        """Target by which commands find it."""
        return str(self.file) if self.attribute is None else f"{self.file}:{self.attribute}"

    def client_class(self) -> "type[EnvClient[Any, Any, Any]]":
        """Return the only client in the file; where it has none, a client for the environment's class.

        Raises:
            ConfigurationError: The file has several environments, or none.
        """
        from openenv.core.env_client import EnvClient  # a server needs no client

        clients = own_classes(self.import_module(""), EnvClient)
        return clients[0] if len(clients) == 1 else derived_client_class(self.environment_class())

    def action_class(self) -> type[BaseModel]:
        """Return the class of the actions."""
        return environment_types(self.environment_class()).action

    def observation_class(self) -> type[BaseModel]:
        """Return the class of the observations."""
        return environment_types(self.environment_class()).observation

    def environment_class(self) -> type[Environment[Any, Any, Any]]:
        """Return the environment's class.

        Raises:
            ConfigurationError: The file has several environments, or none.
        """
        return EnvironmentFactory(self._source()).learn_class()

    def make_player(self, seed: int) -> Player | None:
        """Make a scripted player with the file's function ``make_player``; ``None`` where it has none."""
        make = getattr(self.import_module(""), "make_player", None)
        return None if make is None else cast("Player", make(seed))

    def app(self) -> "FastAPI":
        """Return the application that the file has by the name that was given, or build the environment's.

        Raises:
            ConfigurationError: The file has several environments, or none.
        """
        from fastapi import FastAPI

        source = self._source()
        return source if isinstance(source, FastAPI) else app_for(source, self.name)

    def check(self) -> None:
        """Import the file, and refuse a file that has no environment.

        Raises:
            ConfigurationError: The file has several environments, or none.
        """
        from fastapi import FastAPI

        source = self._source()
        if not isinstance(source, FastAPI):
            environment_types(EnvironmentFactory(source).learn_class())

    def import_module(self, name: str) -> ModuleType:
        """Import the file, or a module of the package that it is in."""
        if name:
            return super().import_module(name)
        return import_file(self.file)

    def _source(self) -> Any:
        module = self.import_module("")
        if self.attribute is None:
            return only_environment({str(self.file): module})
        if not hasattr(module, self.attribute):
            found = ", ".join(cls.__name__ for cls in own_classes(module, Environment)) or "none"
            raise ConfigurationError(f"{self.file} has no {self.attribute}; its environments are: {found}.")
        found = getattr(module, self.attribute)
        if not is_source(found):
            raise ConfigurationError(
                f"{self.file}:{self.attribute} is no environment: expected a class with the methods reset and step, "
                f"got {found!r:.100}."
            )
        return found


def find_file(target: Target) -> EnvironmentFile:
    """Describe the environment in a file. Nothing of it is imported.

    Raises:
        ConfigurationError: The file's name can't be a module's.
        EnvironmentNotFoundError: There is no such file, or it is no file of Python.
    """
    file = Path(target.text).resolve()
    if not file.is_file():
        raise EnvironmentNotFoundError(f"There is no file {target.text}; give the file that has the environment.")
    if not _is_python(file):
        raise EnvironmentNotFoundError(f"{target.text} is no file of Python; give the file that has the environment.")
    name = file.stem.replace("-", "_")
    if not name.isidentifier() or name in sys.stdlib_module_names:
        raise ConfigurationError(f"{file}: {file.stem!r} can't be the name of a module; rename the file.")
    attribute = target.attribute
    return EnvironmentFile(attribute or name, name, file.parent, Manifest(name=name), file, attribute)


def _is_python(file: Path) -> bool:
    """Return whether a file has the name and the text of a module; its syntax is left to its import."""
    if file.suffix != ".py":
        return False
    try:
        with tokenize.open(file) as text:
            return "\0" not in text.read()
    except (SyntaxError, UnicodeDecodeError):  # an unknown encoding, or bytes that are no text
        return False
