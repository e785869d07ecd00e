"""Application of an environment that has none."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.execution.introspection import EnvironmentFactory

if TYPE_CHECKING:
    from fastapi import FastAPI

SESSIONS_VARIABLE = "MAX_CONCURRENT_ENVS"


def app_for(
    source: Any,
    name: str,
    *,
    max_sessions: int | None = None,
    debug: bool | None = None,
    traces: str | Path | None = None,
) -> "FastAPI":
    """Build the application that serves an environment.

    Args:
        source: The environment's class, a function that makes an environment, or an instance.
        name: The environment's name, which clients see.
        max_sessions: Sessions at once; by default as for ``openenv.serve``.
        debug: Whether errors that clients get have the environment's traceback; by default that of ``OPENENV_DEBUG``.
        traces: Where its episodes are kept; by default the file of ``OPENENV_TRACES``.

    Raises:
        ConfigurationError: The class does not declare the types of its actions and observations, or can't be made.
    """
    from openenv.core.env_server.app import SERVED_SESSIONS, create_app, default_sessions

    if max_sessions is None:
        factory = EnvironmentFactory(source)
        factory.learn_class()
        max_sessions = default_sessions(factory, SERVED_SESSIONS)
    return create_app(source, env_name=name, max_concurrent_envs=max_sessions, debug=debug, traces=traces)
