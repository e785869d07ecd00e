"""The application of an environment that brings none along."""

import os
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.execution.introspection import EnvironmentFactory

if TYPE_CHECKING:
    from fastapi import FastAPI

SESSIONS_VARIABLE = "MAX_CONCURRENT_ENVS"
_DEFAULT_SESSIONS = 64


def app_for(source: Any, name: str, *, max_sessions: int | None = None, debug: bool | None = None) -> "FastAPI":
    """Build the application that serves an environment.

    Args:
        source: The environment's class, what makes one, or an instance.
        name: The environment's name, which clients see.
        max_sessions: Sessions at once; by default what ``MAX_CONCURRENT_ENVS`` says, else 64 for a class whose
            instances are independent, and 1 for others.
        debug: Whether clients are told where the environment raised; by default what ``OPENENV_DEBUG`` says.

    Raises:
        ConfigurationError: The class does not say what its actions and observations are, or can't be made.
    """
    from openenv.core.env_server.app import create_app

    factory = EnvironmentFactory(source)
    concurrent = factory.shared is None and getattr(factory.learn_class(), "SUPPORTS_CONCURRENT_SESSIONS", False)
    default = int(os.environ.get(SESSIONS_VARIABLE, _DEFAULT_SESSIONS if concurrent else 1))
    return create_app(source, env_name=name, max_concurrent_envs=max_sessions or default, debug=debug)
