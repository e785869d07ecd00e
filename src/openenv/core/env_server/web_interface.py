"""Public import path of what describes a server to people; the application itself lives in ``app``."""

from functools import partial
from pathlib import Path
from typing import Any

from openenv.core.env_server.app import create_web_interface_app
from openenv.core.env_server.execution.introspection import looks_like_environment
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.quick_start import get_quick_start_markdown
from openenv.core.env_server.serialization import deserialize_action_with_preprocessing, serialize_observation
from openenv.core.env_server.sessions.about import find_readme
from openenv.core.env_server.web.interface import ActionLog, EpisodeState, WebInterfaceManager
from openenv.core.wire.types import Action, EnvironmentMetadata, Observation, State

__all__ = [
    "Action",
    "ActionLog",
    "Environment",
    "EpisodeState",
    "Observation",
    "State",
    "WebInterfaceManager",
    "create_web_interface_app",
    "deserialize_action_with_preprocessing",
    "get_quick_start_markdown",
    "load_environment_metadata",
    "serialize_observation",
]

# Where the containers of the public project keep the environment.
_CONTAINER_READMES = ("/app/env/README.md", "/app/README.md")


def load_environment_metadata(env: Any, env_name: str | None = None) -> EnvironmentMetadata:
    """Return the metadata of an environment, with its README.

    Args:
        env: An environment, whose ``get_metadata`` is called; or its class or factory, of which no instance is made.
        env_name: Name of the environment; by default that of the class or factory.

    Returns:
        The metadata. The README of a class is the file that the variable ``ENV_README_PATH`` names, else
        ``envs/NAME/README.md`` in the working folder, else the file in the container's ``/app``.
    """
    if looks_like_environment(env):
        metadata: EnvironmentMetadata = env.get_metadata()
        return metadata
    source = env
    while isinstance(source, partial):
        source = source.func
    own_name = source.__name__ if isinstance(source, type) or env_name is None else env_name
    readmes = [*([] if env_name is None else [f"envs/{env_name}/README.md"]), *_CONTAINER_READMES]
    return EnvironmentMetadata(
        name=env_name or own_name,
        description=f"{own_name} environment",
        version="1.0.0",
        readme_content=find_readme(map(Path, readmes)),
    )
