"""Many sessions of one environment, reset and stepped together over the WebSocket."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel

from openenv.auto.discovery import find_environment
from openenv.auto.making import is_url, make
from openenv.auto.package import EnvironmentPackage
from openenv.core.background_loop import background_loop
from openenv.core.client_types import StepResult
from openenv.core.containers.health import opener_for
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import ConnectionFailedError, OpenEnvError

__all__ = ["Sessions"]

Client = EnvClient[Any, Any, Any]
SCHEMA_TIMEOUT_S = 10.0


class Sessions:
    """Sessions with one server, one for each episode that is played at once.

    All of them live on the process's background loop, so pings are answered while a model trains. Open them with
    `open`, and close them; a server that was started for them ends then.

    Attributes:
        name: Short name of the environment.
        package: Its package; ``None`` for a server that was given by its URL.
        action: The actions' class, or their JSON Schema for a server that was given by its URL.
    """

    def __init__(self, name: str, clients: Sequence[Client], action: type[BaseModel] | Mapping[str, Any]) -> None:
        self.name = name
        self.package: EnvironmentPackage | None = None
        self.action = action
        self._clients = list(clients)

    @classmethod
    def open(cls, environment: str, count: int) -> Self:
        """Connect to a server, starting it in a process of its own unless it is given by its URL.

        Args:
            environment: Name of an installed environment, its folder, or a server's URL.
            count: How many sessions to open.

        Returns:
            The sessions, connected.

        Raises:
            EnvironmentNotFoundError: There is no such environment.
            ConnectionFailedError: There is no server at the URL.
            ProviderError: The server could not be started.
            ServerCapacityError: The server holds fewer sessions; raised by the first `reset`.
        """
        first = make(environment, max_sessions=count)
        if is_url(environment):
            return cls(_host(environment), _connect(first, count), _fetch_action_schema(environment))
        package = find_environment(environment)
        sessions = cls(package.name, _connect(first, count), package.action_class())
        sessions.package = package
        return sessions

    def __len__(self) -> int:
        return len(self._clients)

    def reset(self, seeds: Sequence[int]) -> list[StepResult[Any]]:
        """Start an episode in the first ``len(seeds)`` sessions.

        Args:
            seeds: One seed for each episode.

        Returns:
            The first observations.

        Raises:
            ServerError: The server has too few sessions, or the environment failed.
            ConnectionLostError: The server went away.
        """
        if len(seeds) > len(self._clients):
            raise ValueError(f"{len(seeds)} episodes need as many sessions; there are {len(self._clients)}")
        return background_loop().run(_reset_all(self._clients[: len(seeds)], seeds))

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult[Any] | OpenEnvError]:
        """Do one action in each of some sessions; a failure in one harms no other.

        Args:
            actions: The actions by the number of their session.

        Returns:
            The result, or the error, by the number of the session.
        """
        clients = [self._clients[number] for number in actions]
        results = background_loop().run(_step_all(clients, list(actions.values())))
        return dict(zip(actions, results, strict=True))

    def close(self) -> None:
        """End the sessions, and the server if it was started for them."""
        background_loop().run(_close(self._clients[0]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _connect(first: Client, count: int) -> list[Client]:
    return background_loop().run(_connect_all(first, count))


async def _connect_all(first: Client, count: int) -> list[Client]:
    try:
        await first.connect()
        return [first, *await asyncio.gather(*(first.new_session() for _ in range(count - 1)))]
    except BaseException:
        await first.close()
        raise


async def _close(first: Client) -> None:
    await first.close()


async def _reset_all(clients: Sequence[Client], seeds: Sequence[int]) -> list[StepResult[Any]]:
    return await asyncio.gather(*(client.reset(seed=seed) for client, seed in zip(clients, seeds, strict=True)))


async def _step_all(clients: Sequence[Client], actions: Sequence[Any]) -> list[StepResult[Any] | OpenEnvError]:
    steps = (client.step(action) for client, action in zip(clients, actions, strict=True))
    outcomes = await asyncio.gather(*steps, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, OpenEnvError):
            raise outcome
    return cast("list[StepResult[Any] | OpenEnvError]", outcomes)


def _host(url: str) -> str:
    return urlsplit(url if "://" in url else f"//{url}").hostname or url


def _fetch_action_schema(url: str) -> dict[str, Any]:
    address = url if "://" in url else f"http://{url}"
    address = re.sub(r"^ws(s?)://", r"http\1://", address).rstrip("/") + "/schema"
    try:
        with opener_for(address).open(address, timeout=SCHEMA_TIMEOUT_S) as answer:
            return dict(json.load(answer)["action"])
    except (OSError, KeyError, ValueError) as error:
        raise ConnectionFailedError(f"Expected the environment's schema at {address}, but: {error!r}.") from error
