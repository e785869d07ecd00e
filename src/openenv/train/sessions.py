"""Many sessions of one environment, reset and stepped together over the WebSocket."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel

from openenv.auto.discovery import find_environment
from openenv.auto.making import is_url, make
from openenv.auto.package import EnvironmentPackage
from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError
from openenv.core.sync_client import SyncEnvClient
from openenv.core.vector_client import SyncVectorEnv

__all__ = ["Sessions"]

Client = SyncEnvClient[Any, Any, Any]
Vector = SyncVectorEnv[Any, Any, Any]


class Sessions:
    """Sessions with one server, one for each episode that is played at once.

    All of them live on the process's background loop, so pings are answered while a model trains. Open them with
    `open`, and close them; a server that was started for them ends then.

    Attributes:
        name: Short name of the environment.
        package: Its package; ``None`` for a server that was given by its URL.
        action: The actions' class, or their JSON Schema for a server that was given by its URL.
    """

    def __init__(self, name: str, client: Client, vector: Vector, action: type[BaseModel] | Mapping[str, Any]) -> None:
        self.name = name
        self.package: EnvironmentPackage | None = None
        self.action = action
        self._client = client
        self._vector = vector

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
            ServerCapacityError: The server holds fewer sessions. One that does not have v1 says so only on the first
                `reset`.
        """
        client: Client = make(environment, max_sessions=count).sync()
        try:
            vector = client.vector(count)
            if is_url(environment):
                return cls(_host(environment), client, vector, client.schemas()["action"])
            package = find_environment(environment)
            sessions = cls(package.name, client, vector, package.action_class())
        except BaseException:
            client.close()
            raise
        sessions.package = package
        return sessions

    def __len__(self) -> int:
        return len(self._vector)

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
        if len(seeds) > len(self):
            raise ValueError(f"{len(seeds)} episodes need as many sessions; there are {len(self)}")
        results: list[StepResult[Any]] = []
        for result in self._vector.reset(seeds=seeds, slots=range(len(seeds)))[: len(seeds)]:
            if isinstance(result, OpenEnvError):
                raise result
            assert result is not None
            results.append(result)
        return results

    def step(self, actions: Mapping[int, Any]) -> dict[int, StepResult[Any] | OpenEnvError]:
        """Do one action in each of some sessions; a failure in one harms no other.

        Args:
            actions: The actions by the number of their session.

        Returns:
            The result, or the error, by the number of the session.
        """
        results = self._vector.step([actions.get(number) for number in range(len(self))])
        return {number: result for number in actions if (result := results[number]) is not None}

    def close(self) -> None:
        """End the sessions, and the server if it was started for them."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _host(url: str) -> str:
    return urlsplit(url if "://" in url else f"//{url}").hostname or url
