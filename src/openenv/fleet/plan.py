"""Settings of the servers of a fleet: described here, made in processes of Ray's."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from openenv.adapters.targets import AdaptedEnvironment, find_target
from openenv.auto.discovery import find_environment
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import SERVED, Target, TargetKind
from openenv.core.env_server.app import SERVED_SESSIONS, create_app, default_sessions
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.logs import LogFormat
from openenv.core.env_server.settings import SETTINGS, ServerSettings, environment_variables
from openenv.core.env_server.tls import TLS
from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.resources import Resources

FOUND = (EnvironmentPackage, AdaptedEnvironment)
"""Environments that ``find_target`` finds by a name."""

SESSIONS_VARIABLE = SETTINGS["max_sessions"].variable
# Variables of the program that starts a fleet which its servers get too.
_HANDED_ON = "OPENENV_"


@dataclass(frozen=True)
class ServerPlan:
    """Settings of a server of a fleet.

    Attributes:
        environment: Name or folder of an environment, ``PREFIX:ID``, a result of ``find_target``, or a factory of
            environments, such as a class.
        host: Address to listen on; ``None`` for that of the machine that Ray chooses.
        variables: Environment variables of its process.
        resources: Resources that Ray reserves for it, where they are free.
        runtime_env: Ray's setting of that name for its process.
        log_level: Least severe log message that is shown; ``None`` for the default.
        log_format: How to write the log.
        tls: The certificate to serve ``wss`` with.
    """

    environment: Any
    host: str | None
    variables: Mapping[str, str] = field(repr=False)
    resources: Resources
    runtime_env: Mapping[str, Any] | None = field(default=None, repr=False)
    log_level: str | None = None
    log_format: LogFormat | None = None
    tls: TLS | None = None

    def make_app(self) -> FastAPI:
        """Make the application; its variables have to be set.

        Raises:
            ConfigurationError: The environment is not as it must be.
            EnvironmentNotFoundError: There is none of that name.
        """
        if isinstance(self.environment, str):
            return find_target(self.environment).app()
        if isinstance(self.environment, FOUND):
            return self.environment.app()
        factory = EnvironmentFactory(self.environment)
        factory.learn_class()
        return create_app(self.environment, max_concurrent_envs=default_sessions(factory, SERVED_SESSIONS))


def name_of(environment: Any) -> str:
    """Return the name of an environment of these settings."""
    if isinstance(environment, str):
        return Path(environment).name
    return environment.name if isinstance(environment, FOUND) else EnvironmentFactory(environment).name


def environment_of(given: Any) -> Any:
    """Return a form of an environment that means the same in another process.

    Raises:
        ConfigurationError: It is one instance, which several servers can't share.
    """
    if isinstance(given, FOUND):
        return given
    if isinstance(given, Path):
        return str(given.resolve())
    if isinstance(given, str):
        target = Target.of(given).required(SERVED, "A fleet")
        return find_environment(target).target if target.kind in (TargetKind.FILE, TargetKind.FOLDER) else given
    if EnvironmentFactory(given).shared is not None:
        raise ConfigurationError("Expected a class or a function, which each server of a fleet calls; got an instance.")
    return given


def server_variables(settings: ServerSettings, max_sessions: int | None) -> dict[str, str]:
    """Return the environment variables in which the servers of a fleet get their settings."""
    variables = {
        name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON) or name == SESSIONS_VARIABLE
    }
    variables |= environment_variables(settings)
    return variables if max_sessions is None else variables | environment_variables({"max_sessions": max_sessions})
