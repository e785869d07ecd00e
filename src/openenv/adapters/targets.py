"""Environment of another library by ``PREFIX:ID``, ready to be served."""

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
from openenv.auto.package import EnvironmentPackage
from openenv.auto.serving import app_for
from openenv.auto.target import SERVED, Target, TargetKind
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.environment_types import EnvironmentTypes, environment_types
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True)
class AdaptedEnvironment:
    """Environment of another library.

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
        """Build the application that serves it; ``traces`` are by default those of ``OPENENV_TRACES``."""
        return app_for(self.source, self.name, traces=traces)


def find_target(target: str | Target, app: str | None = None) -> EnvironmentPackage | AdaptedEnvironment:
    """Find an environment that a process of this machine serves.

    Args:
        target: Its name, its folder, its file, a Space, or ``PREFIX:ID``.
        app: The application to serve, as ``module:attribute`` from the folder; by default that of the manifest.

    Raises:
        EnvironmentNotFoundError: There is no environment of that name.
        ConfigurationError: It is not as it must be, or what it needs is not installed.
    """
    found = Target.of(target)
    if app is not None:
        return EnvironmentPackage.from_app(Path(found.text), app)
    found.required(SERVED, "find_target")
    return find_adapted(found) if found.kind is TargetKind.ADAPTED else find_environment(found)


def find_adapted(target: str | Target) -> AdaptedEnvironment:
    """Find an environment of another library.

    Args:
        target: ``PREFIX:ID``, where ``ADAPTERS`` has the prefix.

    Raises:
        ConfigurationError: What it needs is not installed, or its parameters are not as they must be.
        EnvironmentNotFoundError: The library has no such environment, or there is no such prefix.
    """
    text = Target.of(target).required({TargetKind.ADAPTED}, "find_adapted").text
    prefix, _, env_id = text.partition(":")
    if prefix not in ADAPTERS:
        raise EnvironmentNotFoundError(
            f"No adapter has the prefix {prefix!r}.{did_you_mean(prefix, ADAPTERS)} There are: {', '.join(ADAPTERS)}."
        )
    adapter = ADAPTERS[prefix]
    if find_spec(adapter.package) is None:
        raise ConfigurationError(
            f"{text} needs {adapter.package}, which is not installed: {install_command(adapter.extra)}"
        )
    module, _, function = adapter.factory.partition(":")
    return AdaptedEnvironment(f"{prefix}:{short_name(env_id)}", getattr(import_module(module), function)(env_id))
