"""Many sessions of one environment, reset and stepped together over the WebSocket."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel

from openenv.adapters.text import ActionText, hidden_text_warning
from openenv.auto.discovery import find_environment
from openenv.auto.making import is_adapted, is_url, make
from openenv.auto.package import EnvironmentPackage
from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError
from openenv.core.sync_client import SyncEnvClient
from openenv.core.vector_client import SyncVectorEnv
from openenv.train.config import STEP_TIMEOUT_S
from openenv.train.environment_tools import EnvironmentTools, calls_tools_only
from openenv.train.task_choice import named_tasks

__all__ = ["Sessions"]

CAPACITY_WAIT_S = 30.0

Client = SyncEnvClient[Any, Any, Any]
Vector = SyncVectorEnv[Any, Any, Any]


class Sessions:
    """Sessions with one server, one for each episode that is played at once.

    All of them live on the process's background loop, so pings are answered while a model trains. Open them with
    `open`, and close them; a server that was started for them ends then.

    Attributes:
        name: Short name of the environment.
        package: Its package; ``None`` for a server that was given by its URL, and for another world's environment.
        action: The actions' class, or their JSON Schema where there is no package.
        client: The client that all of them were made of.
        tools: Its tools, where they were asked for.
        hidden_text: What to do about the text of the first observations, where it is only in their metadata; known from
            the first reset on.
    """

    def __init__(self, name: str, client: Client, vector: Vector, action: type[BaseModel] | Mapping[str, Any]) -> None:
        self.name = name
        self.package: EnvironmentPackage | None = None
        self.action = action
        self.client = client
        self.tools: EnvironmentTools | None = None
        self.hidden_text: str | None = None
        self._vector = vector
        self._named: dict[str, list[dict[str, Any]]] = {}

    @classmethod
    def open(
        cls, environment: str, count: int, *, with_tools: bool | None = False, step_timeout_s: float = STEP_TIMEOUT_S
    ) -> Self:
        """Connect to a server, starting it in a process of its own unless it is given by its URL.

        Args:
            environment: Name of an installed environment, its folder, another world's environment as ``PREFIX:ID``,
                or a server's URL.
            count: How many sessions to open.
            with_tools: Whether to ask for the environment's tools too.
            step_timeout_s: Seconds that a reset or a step may take; then its episode is given up.

        Returns:
            The sessions, connected.

        Raises:
            EnvironmentNotFoundError: There is no such environment.
            ConnectionFailedError: There is no server at the URL.
            ProviderError: The server could not be started.
            ServerCapacityError: The server holds fewer sessions. One that does not have v1 says so only on the first
                `reset`.
        """
        if with_tools is None:
            with_tools = _calls_tools_only(environment)
        # The place of the session that asks for the tools is free again a moment after it has asked.
        wait_s = CAPACITY_WAIT_S if with_tools else 0.0
        client: Client = make(
            environment, max_sessions=count, capacity_wait_s=wait_s, message_timeout_s=step_timeout_s
        ).sync()
        try:
            tools = EnvironmentTools.of(client) if with_tools else None
            sessions = cls._of(environment, client, client.vector(count))
        except BaseException:
            client.close()
            raise
        sessions.tools = tools
        return sessions

    @classmethod
    def _of(cls, environment: str, client: Client, vector: Vector) -> Self:
        if is_url(environment) or is_adapted(environment):
            name = _host(environment) if is_url(environment) else environment
            return cls(name, client, vector, client.schemas()["action"])
        package = find_environment(environment)
        sessions = cls(package.name, client, vector, package.action_class())
        sessions.package = package
        return sessions

    def __len__(self) -> int:
        return len(self._vector)

    def instructions(self, actions: ActionText) -> str:
        """Return what a model is told before the first observation where its actions are texts.

        Args:
            actions: The environment's actions as text.
        """
        return f"{self.introduction()}\n{actions.instructions()}"

    def introduction(self) -> str:
        """Return what a model is told of the environment itself."""
        description = self.package.description if self.package else ""
        return f"You act in the environment {self.name}. {description}"

    def named_tasks(self, name: str) -> list[dict[str, Any]]:
        """Return the tasks of a split, or those in a file; they are read once.

        Args:
            name: A split of the environment's tasks, or a file of them.

        Raises:
            ConfigurationError: The file can't be read, or there are no tasks.
            OpenEnvError: The environment has no such split, or no tasks.
        """
        if name not in self._named:
            self._named[name] = named_tasks(name, self.client)
        return self._named[name]

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
        return self.reset_tasks([{"seed": seed} for seed in seeds])

    def reset_tasks(self, tasks: Sequence[Mapping[str, Any]]) -> list[StepResult[Any]]:
        """Start an episode in the first ``len(tasks)`` sessions.

        Args:
            tasks: What each reset is passed, its seed among it.

        Returns:
            The first observations.

        Raises:
            ServerError: The server has too few sessions, or the environment failed.
            ConnectionLostError: The server went away.
        """
        results: list[StepResult[Any]] = []
        for result in self.try_reset(tasks):
            if isinstance(result, OpenEnvError):
                raise result
            results.append(result)
        return results

    def try_reset(self, tasks: Sequence[Mapping[str, Any]]) -> list[StepResult[Any] | OpenEnvError]:
        """Start an episode in the first ``len(tasks)`` sessions; a failure in one harms no other.

        Args:
            tasks: What each reset is passed, its seed among it.

        Returns:
            The first observation, or the error, of each.
        """
        if len(tasks) > len(self):
            raise ValueError(f"{len(tasks)} episodes need as many sessions; there are {len(self)}")
        results = self._vector.reset(tasks=tasks, slots=range(len(tasks)))[: len(tasks)]
        given = [result for result in results if result is not None]
        for result in given[:1]:
            if isinstance(result, StepResult):
                self.hidden_text = hidden_text_warning(result.observation)
        return given

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
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _calls_tools_only(environment: str) -> bool:
    if not is_url(environment) and not is_adapted(environment):
        return calls_tools_only(find_environment(environment).action_class().model_json_schema())
    client: Client = make(environment).sync()
    try:
        return calls_tools_only(client.schemas()["action"])
    finally:
        client.close()


def _host(url: str) -> str:
    return urlsplit(url if "://" in url else f"//{url}").hostname or url
