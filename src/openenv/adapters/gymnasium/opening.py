"""Client of what names an environment."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from openenv.auto.discovery import located
from openenv.auto.making import in_process_provider, server_of
from openenv.auto.target import MADE, Target, TargetKind
from openenv.core.env_client import EnvClient
from openenv.core.generic_client import GenericEnvClient
from openenv.core.sync_client import SyncEnvClient

Client = EnvClient[Any, Any, Any]
Playable = str | Path | Client | SyncEnvClient[Any, Any, Any] | Callable[[], Any]
"""Anything that ``openenv.make`` takes, or a client."""


def open_client(environment: Playable, sessions: int, opened: ExitStack, *, arrays: bool = False) -> Client:
    """Return a client of plain dicts, which is closed by ``opened``; a given client is returned and stays open.

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


def _make_client(environment: Any, sessions: int, arrays: bool) -> Client:
    target = located(Target.of(environment).required(MADE, "The vector of Gymnasium"))
    if target.kind is TargetKind.ADDRESS:
        return GenericEnvClient(base_url=target.text, arrays=arrays)
    is_class = target.kind is TargetKind.CLASS
    server = in_process_provider(target, sessions) if is_class else server_of(target, max_sessions=sessions)
    return GenericEnvClient(provider=server, arrays=arrays)
