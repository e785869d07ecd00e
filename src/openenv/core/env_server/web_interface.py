"""Public import path of what describes a server to people; the application itself lives in ``app``."""

import os
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from openenv.core.env_server.app import create_web_interface_app
from openenv.core.env_server.execution.introspection import looks_like_environment
from openenv.core.env_server.http.examples import example_of
from openenv.core.env_server.serving import DEFAULT_PORT
from openenv.core.env_server.sessions.about import find_readme
from openenv.core.env_server.web.interface import ActionLog, EpisodeState, WebInterfaceManager
from openenv.core.wire.types import EnvironmentMetadata

__all__ = [
    "ActionLog",
    "EpisodeState",
    "WebInterfaceManager",
    "create_web_interface_app",
    "get_quick_start_markdown",
    "load_environment_metadata",
]

# Where the containers of the public project keep the environment.
_CONTAINER_READMES = ("/app/env/README.md", "/app/README.md")
_SPACE_HOST_VARIABLE = "SPACE_HOST"

_QUICK_START = """### Play {name} from Python

```python
import openenv

with openenv.make("{url}").sync() as env:
    result = env.reset()
    result = env.step({action!r})
    print(result.observation, result.reward)
```
"""


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


def get_quick_start_markdown(
    metadata: EnvironmentMetadata | None, action_cls: type[BaseModel], observation_cls: type[BaseModel]
) -> str:
    """Return the first lines of Python for an environment, in Markdown.

    Args:
        metadata: Description of the environment, for its name.
        action_cls: Class of the actions, of which an example is stepped.
        observation_cls: Class of the observations; its name stands for that of an environment without metadata.

    Returns:
        The text. The address is that of the Space which ``SPACE_HOST`` names, else of the default port of this machine.
    """
    space = os.environ.get(_SPACE_HOST_VARIABLE)
    url = f"https://{space}" if space else f"http://localhost:{DEFAULT_PORT}"
    name = observation_cls.__name__.removesuffix("Observation") if metadata is None else metadata.name
    return _QUICK_START.format(name=name, url=url, action=example_of(action_cls) or {})
