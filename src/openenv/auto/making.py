"""From an environment's name to a client that is ready to use."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openenv.auto.discovery import find_environment
from openenv.core.containers.local_process import LocalProcessProvider
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConfigurationError
from openenv.core.generic_client import GenericEnvClient

_URL = re.compile(r"(https?|wss?)://.+|[\w.-]+:\d+(/.*)?")
_ADAPTED = re.compile(r"[a-z][a-z0-9_]*:[^/].*")


def make(
    name_or_path_or_url: str | Path,
    *,
    environment: str | Path | None = None,
    max_sessions: int | None = None,
    env_vars: Mapping[str, str] | None = None,
    venv: bool = False,
    **client_kwargs: Any,
) -> EnvClient[Any, Any, Any]:
    """Make a client for an environment, with a server of its own unless a URL is given.

    The server starts in a local process when the client first connects, and ends when the client is closed.

    Args:
        name_or_path_or_url: Name of an installed environment (``wordle``), an environment's folder, the address of a
            running server (``http://host:8000``), or another world's environment (``gymnasium:CartPole-v1``), whose
            actions and observations are dicts.
        environment: For an address: name or folder of the environment that is served there, for the types of its
            client. Without it actions and observations are dicts.
        max_sessions: Sessions that the started server may hold at once; the environment's own default if ``None``.
        env_vars: Environment variables to set for the started server.
        venv: Whether to run it in a Python environment of its own, with what the environment's folder asks for; it is
            built on the first start, and kept.
        **client_kwargs: Passed to the client, such as ``message_timeout_s``.

    Returns:
        A client, not yet connected.

    Raises:
        EnvironmentNotFoundError: No such environment.
        ConfigurationError: The environment's manifest is not as it must be, or ``venv`` is asked for without a folder.

    Example::

        with openenv.make("wordle").sync() as client:
            print(client.reset(seed=1).observation)
    """
    if is_url(name_or_path_or_url):
        client_class = GenericEnvClient if environment is None else find_environment(environment).client_class()
        return client_class(base_url=str(name_or_path_or_url), **client_kwargs)
    if is_adapted(name_or_path_or_url):
        if venv:
            raise ConfigurationError(f"venv needs an environment's folder, and {name_or_path_or_url} has none.")
        provider = LocalProcessProvider(name_or_path_or_url, max_sessions=max_sessions, env_vars=env_vars)
        return GenericEnvClient(provider=provider, **client_kwargs)
    package = find_environment(name_or_path_or_url)
    provider = LocalProcessProvider(package.folder, max_sessions=max_sessions, env_vars=env_vars, venv=venv)
    return package.client_class()(provider=provider, **client_kwargs)


def is_url(target: str | Path) -> bool:
    """Say whether a target is a server's address rather than an environment's name or folder.

    Example:
        >>> [is_url(target) for target in ("http://host:8000", "localhost:8000", "wordle", "./my_env")]
        [True, True, False, False]
    """
    return isinstance(target, str) and _URL.fullmatch(target) is not None


def is_adapted(target: str | Path) -> bool:
    """Say whether a target names an environment of another world, as ``PREFIX:ID``, which ``openenv serve`` finds.

    Example:
        >>> [is_adapted(target) for target in ("gymnasium:CartPole-v1", "localhost:8000", "wordle", "./a:b")]
        [True, False, False, False]
    """
    return isinstance(target, str) and _ADAPTED.fullmatch(target) is not None and not is_url(target)
