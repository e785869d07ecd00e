"""Sessions with one server that a training plays in: opened as they are needed, and ended together."""

import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from threading import Thread
from types import TracebackType
from typing import Any, Self, cast

from pydantic import BaseModel

from openenv.adapters.text import hidden_text_warning
from openenv.auto.discovery import find_environment, short_name
from openenv.auto.making import make
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import PACKAGED, Target
from openenv.core.client.blocking import wait_for
from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import (
    ConfigurationError,
    EnvironmentNotFoundError,
    OpenEnvError,
    ServerCapacityError,
)
from openenv.core.reset_check import has_labels, without_labels
from openenv.core.schema.reader import pixel_fields
from openenv.core.sync_client import SyncEnvClient
from openenv.core.typed_client import TypedEnvClient
from openenv.core.vector_client import SyncVectorEnv
from openenv.core.wire.array_fields import pixel_fields_of
from openenv.train.settings.config import STEP_TIMEOUT_S
from openenv.train.tasks.task_choice import named_tasks
from openenv.train.tools.environment_tools import EnvironmentTools, calls_tools_only
from openenv.train.tools.goals import goal_text, served_goal

__all__ = ["CAPACITY_WAIT_S", "Sessions", "environment_client", "has_only_tools", "package_of"]

CAPACITY_WAIT_S = 30.0

Client = SyncEnvClient[Any, Any, Any]
Vector = SyncVectorEnv[Any, Any, Any]


class Sessions:
    """Sessions with one server, which share one client and, on v1 of the wire, one connection.

    `try_reset` and `step` are for many that are stepped together, `session` for one at a time. All of them live on the
    process's background loop, so pings are answered while a model trains. They end with `close`, when nothing holds
    them any more, and with the process.

    Args:
        name: Short name of the environment.
        client: The client. It is closed with the sessions, which ends a server that was started for it.
        package: The environment's package; ``None`` for a server that was given by its URL, and for another library's
            environment.

    Attributes:
        tools: The environment's tools, if they were requested.
        hidden_text: Advice about the text of the first observations, where it is only in their metadata; known from the
            first reset on.

    Example:
        >>> sessions = Sessions("wordle", openenv.make("wordle").sync())  # doctest: +SKIP
        >>> games = [sessions.session() for _ in range(64)]  # doctest: +SKIP
        >>> games[0].reset(seed=1)  # doctest: +SKIP
    """

    def __init__(self, name: str, client: Client, package: EnvironmentPackage | None = None) -> None:
        self.name = name
        self.client = client
        self.package = package
        self.tools: EnvironmentTools | None = None
        self.hidden_text: str | None = None
        self._vector: Vector | None = None
        self._named: dict[str, list[dict[str, Any]]] = {}
        # Where they are collected, any thread may be running, also the clients' loop, which can't wait for itself.
        self._finalizer = weakref.finalize(self, _close_in_thread, client)
        self._finalizer.atexit = False  # clients and providers see to that

    @classmethod
    def open(
        cls,
        environment: str,
        count: int,
        *,
        with_tools: bool | None = False,
        step_timeout_s: float = STEP_TIMEOUT_S,
        env_vars: Mapping[str, str] | None = None,
        base_url: str | None = None,
        takes_fewer: bool = False,
    ) -> Self:
        """Connect to a server, starting it in a process of its own unless it is given by its URL.

        Args:
            environment: Name of an installed environment, its folder, another library's environment as ``PREFIX:ID``,
                or a server's URL.
            count: How many sessions to open.
            with_tools: Whether to list the environment's tools too; ``None`` where it has no other actions.
            step_timeout_s: Seconds that a reset or a step may take; then its episode is given up.
            env_vars: Environment variables to set for a server that is started.
            base_url: Address of the environment's server, which is then not started. ``environment`` finds the package
                with its types and its player, where it is installed.
            takes_fewer: Whether to open as many sessions as the server holds, where it holds fewer.

        Returns:
            The sessions, connected.

        Raises:
            EnvironmentNotFoundError: There is no such environment.
            ConnectionFailedError: There is no server at the URL.
            ProviderError: The server could not be started.
            ServerCapacityError: The server holds fewer sessions. Without v1 this error comes only with the first
                `reset`.
        """
        if with_tools is None:
            with_tools = has_only_tools(base_url or environment, package_of(environment, base_url))
        sessions = cls.unopened(
            environment, base_url, max_sessions=count, env_vars=env_vars, message_timeout_s=step_timeout_s
        )
        try:
            if takes_fewer:
                sessions._open_up_to(count)
            else:
                sessions._vector_of(count)
            sessions.tools = sessions.ask_tools() if with_tools else None
        except BaseException:
            sessions.close()
            raise
        return sessions

    @classmethod
    def unopened(cls, environment: str, base_url: str | None = None, **client_options: Any) -> Self:
        """Make the sessions of an environment, of which the first one that is used starts or reaches the server.

        Raises:
            EnvironmentNotFoundError: There is no such environment.
        """
        package = package_of(environment, base_url)
        client = environment_client(environment, base_url, **client_options)
        return cls(short_name(environment) if package is None else package.name, client, package)

    @property
    def reset_schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of the parameters of ``reset``; ``None`` where the server has none. Read once from the server.

        Raises:
            ConnectionFailedError: The server can't be reached.
        """
        return self._schemas.get("reset")

    @cached_property
    def pixels(self) -> frozenset[str]:
        """Fields of observations that are declared as the pixels of a picture.

        Raises:
            ConnectionFailedError: The server can't be reached.
        """
        own = self.client.async_client
        if self.package is not None:
            return pixel_fields_of(self.package.observation_class())
        typed = isinstance(own, TypedEnvClient)
        return pixel_fields_of(own.observation_class) if typed else pixel_fields(self._schemas["observation"])

    @cached_property
    def _schemas(self) -> Mapping[str, Mapping[str, Any]]:
        return cast("Mapping[str, Mapping[str, Any]]", self.client.schemas())

    @staticmethod
    def name_of(environment: str) -> str:
        """Return the short name of an environment, without starting or reading a server.

        Args:
            environment: As for `open`.

        Raises:
            EnvironmentNotFoundError: There is no such environment.
        """
        package = package_of(environment)
        return short_name(environment) if package is None else package.name

    @cached_property
    def action(self) -> type[BaseModel] | Mapping[str, Any]:
        """Class of the actions, or their JSON Schema where there is none at hand."""
        if self.package is not None:
            return self.package.action_class()
        own = self.client.async_client
        action: type[BaseModel] | Mapping[str, Any] = (
            own.action_class if isinstance(own, TypedEnvClient) else self._schemas["action"]
        )
        return action

    @property
    def closed(self) -> bool:
        """True once the sessions have ended."""
        return not self._finalizer.alive

    def __len__(self) -> int:
        """Return the number of sessions that are open to be stepped together."""
        return 0 if self._vector is None else len(self._vector)

    def session(self) -> Client:
        """Return a client of a session of its own, which opens with its first use.

        Raises:
            ConfigurationError: The sessions were closed.
            ProviderError: The server could not be started.
        """
        self.check_open()
        wait_for(self.client.async_client._started)
        child: EnvClient[Any, Any, Any] = self.client.async_client._child(None)
        return child.sync()

    def ask_tools(self, task: Mapping[str, Any] | None = None) -> EnvironmentTools:
        """List the environment's tools, in the first open session where there is one: the server may hold no more.

        Args:
            task: Parameters of a ``reset`` before; an environment may have more tools once a task is known. It ends the
                episode of the first session.

        Raises:
            ConfigurationError: It has no tools.
            OpenEnvError: There is no server, or the reset failed.
        """
        if self._vector is None:
            return EnvironmentTools.of(self.client, task)
        if task is not None:
            self.reset_tasks([task])
        return EnvironmentTools.of(self.client.async_client._child(self._vector.vector.session(0)))

    def check_open(self) -> None:
        """Refuse to continue after the end.

        Raises:
            ConfigurationError: The sessions were closed.
        """
        if self.closed:
            raise ConfigurationError("The environment's sessions were closed; make a new EnvSpec.")

    @cached_property
    def goal(self) -> str:
        """The environment's goal for a model: name and description of its package, else those that its server has.

        Raises:
            ConnectionFailedError: The server can't be reached.
        """
        if self.package is not None:
            return goal_text(self.package.name, self.package.description)
        served: str = wait_for(served_goal, self.client.async_client, self.name)
        return served

    def named_tasks(self, name: str) -> list[dict[str, Any]]:
        """Return the tasks of a split, in a file, or of a dataset; they are read once.

        Args:
            name: A split of the environment's tasks, a file of them, or ``REF?split=NAME``.

        Raises:
            ConfigurationError: The file can't be read, or there are no tasks.
            OpenEnvError: The environment has no such split, or no tasks.
        """
        if name not in self._named:
            task_sets = None if self.package is None else self.package.task_sets
            self._named[name] = named_tasks(name, self.client, task_sets=task_sets)
        return self._named[name]

    def parameters_of(self, task: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what of a task ``reset`` is passed: without labels, as ``difficulty``, that it does not take."""
        return without_labels(self.reset_schema, task) if has_labels(task) else task

    def reset_tasks(self, tasks: Sequence[Mapping[str, Any]]) -> list[StepResult[Any]]:
        """Start an episode in the first ``len(tasks)`` sessions.

        Args:
            tasks: Parameters of each reset, with its seed.

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
            tasks: Parameters of each reset, with its seed. Where there are more than sessions, more are opened.

        Returns:
            The first observation, or the error, of each.

        Raises:
            ConfigurationError: The sessions were closed.
            ServerCapacityError: The server holds fewer sessions.
        """
        self.check_open()
        passed = list(map(self.parameters_of, tasks))
        results = self._vector_of(len(tasks)).reset(tasks=passed, slots=range(len(tasks)))
        given = [result for result in results[: len(tasks)] if result is not None]
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
        if self._vector is None or not actions:
            return {}
        results = self._vector.step([actions.get(number) for number in range(len(self))])
        return {number: result for number in actions if (result := results[number]) is not None}

    def close(self) -> None:
        """End the sessions, and the server if it was started for them. May be called twice."""
        if self._finalizer.detach() is not None:
            self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open_up_to(self, count: int) -> None:
        """Open as many sessions to be stepped together as the server holds, at most ``count``.

        Raises:
            ServerCapacityError: It holds none, or is about to end.
        """
        while self._vector is None:
            try:
                self._vector = self.client.vector(count)
            except ServerCapacityError as error:
                # A limit below the number is that of all clients; else other clients hold some of the sessions.
                fewer = error.max_sessions if 0 < error.max_sessions < count else count // 2
                if error.draining or not fewer:
                    raise
                count = fewer

    def _vector_of(self, count: int) -> Vector:
        """Return at least ``count`` sessions, to be stepped together."""
        vector = self._vector
        if vector is None or len(vector) < count:
            if vector is not None:
                self._vector = None  # of the server's sessions none may be left, and the next call opens them anew
                vector.close()
            vector = self._vector = self.client.vector(count)
        return vector


def environment_client(environment: str, base_url: str | None = None, **options: Any) -> Client:
    """Make a client, not yet connected, of an environment or its address, with types where its package is installed.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
    """
    has_types = base_url is not None and package_of(environment, base_url) is not None
    return make(base_url or environment, environment=environment if has_types else None, **options).sync()


def package_of(environment: str | Target, base_url: str | None = None) -> EnvironmentPackage | None:
    """Return an environment's package; ``None`` of another library's, or of a server's where it is not installed.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
    """
    if Target.of(environment).kind not in PACKAGED:
        return None
    try:
        return find_environment(environment)
    except EnvironmentNotFoundError:
        if base_url is None:
            raise
        return None


def has_only_tools(target: str, package: EnvironmentPackage | None) -> bool:
    """Return whether an environment has tools and no other actions; without its package, a server is queried."""
    if package is not None:
        return calls_tools_only(package.action_class().model_json_schema())
    client: Client = make(target).sync()
    try:
        return calls_tools_only(client.schemas()["action"])
    finally:
        client.close()


def _close_in_thread(client: Client) -> None:
    Thread(target=client.close, name="openenv-close", daemon=True).start()
