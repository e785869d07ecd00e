"""From ``PREFIX:ID`` to another world's environment, ready to be served."""

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv._extras import install_command
from openenv.adapters import ADAPTERS
from openenv.adapters.ids import did_you_mean, short_name
from openenv.auto.discovery import find_environment
from openenv.auto.names import check_no_image, is_adapted
from openenv.auto.package import EnvironmentPackage
from openenv.auto.serving import app_for
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.environment_types import EnvironmentTypes, environment_types
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True)
class AdaptedEnvironment:
    """An environment of another world.

    Attributes:
        name: Its prefix and its short name, such as ``gymnasium:CartPole-v1``. Clients see it, so it holds no
            parameter, which may be a path.
        source: Its class, or a partial of one.
    """

    name: str
    source: type | partial[Any]

    @property
    def environment_class(self) -> type:
        """The class of the environments."""
        return EnvironmentFactory(self.source).learn_class()

    def types(self) -> EnvironmentTypes:
        """Return the classes of its actions, observations and state."""
        return environment_types(self.environment_class)

    def app(self, traces: str | Path | None = None) -> "FastAPI":
        """Build the application that serves it.

        Args:
            traces: Where its episodes are kept; by default what ``OPENENV_TRACES`` says.
        """
        return app_for(self.source, self.name, traces=traces)


def find_target(target: str, app: str | None = None) -> EnvironmentPackage | AdaptedEnvironment:
    """Find an environment by its name, folder or file, or another world's as ``PREFIX:ID``.

    Args:
        target: Its name, its folder, its file, or ``PREFIX:ID``.
        app: The application to serve, as ``module:attribute`` from the folder; by default what the manifest says.

    Raises:
        EnvironmentNotFoundError: There is none of that name.
        ConfigurationError: It is not as it must be, or what it needs is not installed.
    """
    if app is not None:
        return EnvironmentPackage.from_app(Path(target), app)
    return find_adapted(target) if is_adapted(target) else find_environment(target)


def find_adapted(target: str) -> AdaptedEnvironment:
    """Find an environment of another world.

    Args:
        target: ``PREFIX:ID``, where ``ADAPTERS`` has the prefix.

    Raises:
        ConfigurationError: What it needs is not installed, or its parameters are not as they must be.
        EnvironmentNotFoundError: That world has no such environment, or there is no such prefix.
    """
    check_no_image(target)
    prefix, _, env_id = target.partition(":")
    if prefix not in ADAPTERS:
        raise EnvironmentNotFoundError(
            f"No other world is called {prefix!r}.{did_you_mean(prefix, ADAPTERS)} There are: {', '.join(ADAPTERS)}."
        )
    adapter = ADAPTERS[prefix]
    if find_spec(adapter.package) is None:
        raise ConfigurationError(
            f"{target} needs {adapter.package}, which is not installed: {install_command(adapter.extra)}"
        )
    module, _, function = adapter.factory.partition(":")
    return AdaptedEnvironment(f"{prefix}:{short_name(env_id)}", getattr(import_module(module), function)(env_id))
