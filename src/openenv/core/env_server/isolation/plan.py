"""What a template needs to know to import the environment; or why no process can."""

import logging
import socket
from dataclasses import dataclass

from pydantic import BaseModel

from openenv.core.env_server.action_unions import action_members
from openenv.core.env_server.environment_types import EnvironmentFactory
from openenv.core.env_server.importable import Importable
from openenv.core.exceptions import ConfigurationError


@dataclass(frozen=True)
class Plan:
    """What a template needs to know.

    Attributes:
        classes: What makes environments, and the classes of their actions.
        preload: Whether the template imports them itself, rather than each process after its fork.
        log_level: Least severe log record that the processes pass on.
    """

    classes: Importable
    preload: bool
    log_level: int

    def load(self, server: socket.socket | None = None) -> EnvironmentFactory:
        """Import what makes the environments.

        Args:
            server: See ``Importable.load``.
        """
        source, _ = self.classes.load(server)
        return EnvironmentFactory(source)


def plan_for(factory: EnvironmentFactory, action_class: type[BaseModel]) -> Plan:
    """Describe a factory to the processes that will import it.

    Args:
        factory: Makes the environments.
        action_class: Class of the actions that are sent to them.

    Raises:
        ConfigurationError: Another process can't import one of the two.
    """
    if factory.shared is not None:
        raise ConfigurationError(
            f"{factory.name} was given as one instance for all sessions, which can't be moved to another process; with "
            'isolation="process", give its class, or a function or functools.partial that makes it.'
        )
    classes = Importable.of(
        (factory.source, action_members(action_class)),
        f"{factory.name} and its actions' class {action_class.__qualname__}",
        needed_for='isolation="process"',
        instead='isolation="none"',
    )
    return Plan(classes, True, logging.getLogger().level)
