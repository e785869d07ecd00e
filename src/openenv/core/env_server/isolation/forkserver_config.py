"""Configuration of a fork server: the imports of its process, and the settings of the processes that it forks."""

import logging
import socket
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel

from openenv.core.env_server.execution.import_spec import ImportSpec
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.actions import action_members


@dataclass(frozen=True)
class ForkServerConfig:
    """Configuration of a fork server.

    Attributes:
        classes: The environments' factory, and their action classes.
        preload: Whether the fork server imports ``classes`` itself, rather than each process after its fork.
        log_level: Lowest level of log records that the server receives.
        confined: Whether the processes are confined, because agents run code there.
        measures_cpu: Whether the CPU time of the environments is measured.
    """

    classes: ImportSpec
    preload: bool
    log_level: int
    confined: bool = False
    measures_cpu: bool = False

    @classmethod
    def of(cls, factory: EnvironmentFactory, action_class: type[BaseModel], *, confined: bool = False) -> Self:
        """Return the configuration for a factory and an action class.

        Args:
            factory: Creates the environments.
            action_class: Class of the actions that are sent to the environments.
            confined: Whether the processes are confined.

        Raises:
            ConfigurationError: Another process can't import one of the two.
        """
        if factory.shared is not None:
            raise ConfigurationError(
                f"{factory.name} was given as one instance for all sessions, which can't be moved to another process; "
                'with isolation="process", give its class, or a function or functools.partial that makes it.'
            )
        classes = ImportSpec.of(
            (factory.source, action_members(action_class)),
            f"{factory.name} and its actions' class {action_class.__qualname__}",
            needed_for='isolation="process"',
            instead='isolation="none"',
        )
        if confined:
            classes = classes.without_arguments()
        return cls(classes, True, logging.getLogger().level, confined, factory.measures_cpu)

    def load(self, server: socket.socket | None = None) -> EnvironmentFactory:
        """Import the environments' factory.

        Args:
            server: See ``ImportSpec.load``.
        """
        source, _ = self.classes.load(server)
        factory = EnvironmentFactory(source)
        factory.measures_cpu = self.measures_cpu
        return factory
