"""From what an environment may be named by to a client."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from openenv.auto.discovery import find_environment
from openenv.auto.names import is_adapted, is_url
from openenv.core.env_client import EnvClient
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.core.sync_client import SyncEnvClient

Client = EnvClient[Any, Any, Any]
Source = str | Path | Client | SyncEnvClient[Any, Any, Any]
"""Name of an installed environment, its folder, ``PREFIX:ID``, a server's URL, or a client of one's own."""


def open_client(environment: Source, sessions: int, opened: ExitStack, *, arrays: bool = False) -> Client:
    """Return a client; one that is made here deals in plain dicts, and is closed by ``opened``.

    Args:
        environment: What to make it for.
        sessions: Sessions that a server started for it must hold.
        opened: Where to note what must be closed. A given client is its owner's to close.
        arrays: Whether a client that is made here receives arrays as such, not as nested lists.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
        ConfigurationError: The environment's manifest is not as it must be.
    """
    if isinstance(environment, SyncEnvClient):
        client: EnvClient[Any, Any, Any] = environment.async_client
        return client
    if isinstance(environment, EnvClient):
        return environment
    client = _make_client(environment, sessions, arrays)
    opened.callback(client.sync().close)
    return client


def _make_client(environment: str | Path, sessions: int, arrays: bool) -> Client:
    if is_url(environment):
        return GenericEnvClient(base_url=str(environment), arrays=arrays)
    served = environment if is_adapted(environment) else find_environment(environment).target
    return GenericEnvClient(provider=LocalProcessProvider(served, max_sessions=sessions), arrays=arrays)
