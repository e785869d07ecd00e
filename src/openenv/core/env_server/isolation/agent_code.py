"""Environments in which agents run code: each session gets a confined process, on servers of this machine alone."""

import logging
from dataclasses import replace

from pydantic import BaseModel

from openenv.core.confinement import MISSING, can_confine
from openenv.core.env_server.execution.introspection import EnvironmentFactory, runs_code
from openenv.core.env_server.isolation.forkserver_config import ForkServerConfig
from openenv.core.env_server.settings import SETTINGS, UNSET, ServerConfig, ServerSettings
from openenv.core.exceptions import ConfigurationError
from openenv.core.wire.redaction import withheld_variables

logger = logging.getLogger(__name__)


def isolating_code(
    config: ServerConfig, factory: EnvironmentFactory, action_class: type[BaseModel], given: ServerSettings
) -> ServerConfig:
    """Return a server's settings, with a process for each session where agents run code. A warning says so, or why not.

    Args:
        config: The server's settings.
        factory: Creates the environments.
        action_class: Class of the actions.
        given: The settings that the program gives; neither they nor a variable are overruled.
    """
    if not runs_code(factory.environment_class):
        return config
    is_chosen = given.get("isolation") is not None or SETTINGS["isolation"].read_variable() is not UNSET
    isolated = config if is_chosen else replace(config, isolation="process", sessions_per_process=1)
    reason = _refusal(isolated, factory, action_class)
    if reason is not None:
        logger.warning("%s lets agents run code, which is refused here: %s.", factory.name, reason)
        return config
    withheld = ", ".join(withheld_variables())
    logger.warning(
        "%s lets agents run code: each session has a confined process of its own. Environment variables that the "
        "environment, too, does not get there: %s. The code still has this user's files and the network; serve in a "
        'container to keep it from them. If all code that is run is trusted, set %s.CODE_SANDBOX = "none".',
        factory.name,
        withheld or "none, since no name or value is that of a secret",
        factory.name,
    )
    return isolated


def confines_code(factory: EnvironmentFactory, config: ServerConfig) -> bool:
    """Return whether the processes of the environments are confined, so that agents may run code there.

    Args:
        factory: Creates the environments.
        config: The server's settings.
    """
    return runs_code(factory.environment_class) and _obstacle(config) is None


def _refusal(config: ServerConfig, factory: EnvironmentFactory, action_class: type[BaseModel]) -> str | None:
    obstacle = _obstacle(config)
    if obstacle is not None:
        return obstacle
    try:
        ForkServerConfig.of(factory, action_class, confined=True)
    except ConfigurationError as error:
        return str(error).rstrip(".")
    return None


def _obstacle(config: ServerConfig) -> str | None:
    """Return why code may not run under a server's settings; ``None`` where it may."""
    if config.admits_others:
        return (
            "the server is open to other machines, since it has a token or requires none. Unset OPENENV_TOKEN, "
            "OPENENV_TOKENS and OPENENV_AUTH and listen on 127.0.0.1"
        )
    if config.environments_per_process != 1:
        return 'it needs isolation="process" and sessions_per_process=1'
    if not can_confine():
        return f"this machine has no {MISSING}"
    return None
