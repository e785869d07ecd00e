"""A fleet: many servers of one environment behind one address."""

import asyncio
import atexit
import os
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from pathlib import Path
from socket import socket
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from openenv.core.addresses import is_loopback, url_of
from openenv.core.env_server.access.policy import AccessPolicy, AuthRequirement, new_token
from openenv.core.env_server.logs import LogFormat
from openenv.core.env_server.operations.drain import longest_frame
from openenv.core.env_server.serving import listen
from openenv.core.env_server.settings import SETTINGS, ServerConfig, ServerSettings
from openenv.core.env_server.tls import TLS
from openenv.core.event_loop import new_event_loop
from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.resources import Resources
from openenv.fleet.autoscaling import Autoscaling
from openenv.fleet.cluster import Cluster
from openenv.fleet.plan import ServerPlan, environment_of, name_of, server_variables
from openenv.fleet.status import FleetStatus

if TYPE_CHECKING:
    from openenv.fleet.running import FleetPlan, RunningFleet

ResultT = TypeVar("ResultT")

JOURNAL_VARIABLE = SETTINGS["journal"].variable
# What the address and all servers share for as long as the fleet runs.
_FIXED = frozenset({"allowed_hosts", "allowed_origins", "auth", "journal", "token", "tokens"})


class Fleet:
    """Many servers of one environment behind one address, on Ray.

    It starts Ray on this machine, unless ``RAY_ADDRESS`` names one that runs, or this program uses one already; such a
    one is left running. The servers are actors of Ray's, which starts them where their resources are. All methods
    block.

    Args:
        environment: Name or folder of an environment, ``PREFIX:ID``, a class, a function that makes environments, or a
            result of ``find_target``.
        replicas: Number of servers to begin with.
        host: Address to listen on. The default is reachable from this machine only; on another one, and with a Ray of
            several machines, clients need the fleet's ``token``.
        port: Port to listen on; 0 takes a free one.
        max_sessions: Sessions at once of each server; by default the environment's.
        autoscaling: Bounds between which the fleet chooses the number of its servers by its sessions; by default it has
            ``replicas`` until ``scale`` is called.
        resources: Resources of each server, which runs where they are free. By default one processor, and on a Ray that
            the fleet starts, nothing.
        runtime_env: Ray's setting of that name for the servers' processes, such as an environment's package.
        start_timeout_s: Seconds that a server may need until it is ready.
        hang_s: Seconds without an answer after which a server is replaced.
        log_level: Least severe log message that is shown; by default ``OPENENV_LOG_LEVEL``, or ``warning``.
        log_format: How to write the log, see ``logs.log_config``.
        tls: The certificate to serve ``https`` and ``wss`` with; it has to have the same path on each machine.
        **settings: See ``ServerSettings``; each server gets them.

    Raises:
        ConfigurationError: An argument makes no sense, or Ray is not installed.

    Example:
        >>> with Fleet("wordle", replicas=4, journal="journal") as fleet:  # doctest: +SKIP
        ...     games = WordleEnv(base_url=fleet.address).sync().vector(2000)
        ...     fleet.scale(8)
    """

    def __init__(
        self,
        environment: Any,
        *,
        replicas: int = 1,
        host: str = "127.0.0.1",
        port: int = 0,
        max_sessions: int | None = None,
        autoscaling: Autoscaling | None = None,
        resources: Resources | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        start_timeout_s: float = 120.0,
        hang_s: float = 10.0,
        log_level: str | None = None,
        log_format: LogFormat | None = None,
        tls: TLS | None = None,
        **settings: Unpack[ServerSettings],
    ) -> None:
        self._environment = environment_of(environment)
        self._replicas = replicas if autoscaling is None else autoscaling.within(replicas)
        self._host = host
        self._port = port
        self._max_sessions = max_sessions
        self._autoscaling = autoscaling
        self._resources = resources
        self._runtime_env = runtime_env
        self._patience_s = {"start_timeout_s": start_timeout_s, "hang_s": hang_s}
        for name, seconds in self._patience_s.items():
            if not seconds > 0:
                raise ConfigurationError(f"Expected {name} to be above 0, got {seconds}.")
        self._log_level = log_level
        self._log_format = log_format
        self._tls = tls
        self._settings = _with_absolute_files(settings)
        self._access = AccessPolicy.of(ServerConfig.read(settings, max_sessions=max_sessions))
        self._cluster: Cluster | None = None
        self._listener: socket | None = None
        self._thread: _LoopThread | None = None
        self._running: RunningFleet | None = None

    @property
    def address(self) -> str:
        """Address for clients, as ``http://host:port``.

        Raises:
            ConfigurationError: It was not started, or was closed.
        """
        host, port = self.bound
        return url_of(host, port, https=self._tls is not None)

    @property
    def bound(self) -> tuple[str, int]:
        """The address and the port that it listens on.

        Raises:
            ConfigurationError: It was not started, or was closed.
        """
        if self._listener is None:
            raise _not_running()
        host, port = self._listener.getsockname()[:2]
        return host, port

    @property
    def name(self) -> str:
        """Name of the environment."""
        return name_of(self._environment)

    @property
    def token(self) -> str | None:
        """Token that clients show: those not on loopback, with ``auth="always"`` all; ``None`` for nothing."""
        return self._access.token if self._access.requires_token else None

    @property
    def auth_requirement(self) -> AuthRequirement:
        """Requirement for clients."""
        return self._access.auth_requirement

    def start(self) -> Self:
        """Start Ray where it is needed, then the servers; returns once all of them are ready.

        Raises:
            ConfigurationError: It runs already, the address can't be listened on, or the journal can't be shared by
                several machines.
            ProviderError: Ray or a server could not be started; nothing is left of it.
        """
        if self._listener is not None:
            raise ConfigurationError("The fleet runs already; close() ends it.")
        self._listener = listen(self._host, self._port)
        try:
            self._cluster = Cluster()
            atexit.register(self.close)  # after that of Ray, which is called later then
            plan = self._plan(self._cluster)
            from openenv.fleet.running import RunningFleet  # it needs a Ray that was started

            self._thread = _LoopThread()
            self._running = RunningFleet(plan, self._cluster.free_resources)
            self._thread.run(self._running.start(self._replicas, self._listener))
        except BaseException:
            self.close()
            raise
        return self

    def scale(self, replicas: int) -> None:
        """Have so many servers. Those that are too many drain; this returns when that is done.

        Args:
            replicas: Number of servers.

        Raises:
            ConfigurationError: It is fewer than one, or not between the bounds of ``autoscaling``.
            ProviderError: A server could not be started; there are then as many as before.
        """
        thread, running = self._at_work()
        thread.run(running.scale(replicas))

    def update(
        self, environment: Any = None, *, max_sessions: int | None = None, **settings: Unpack[ServerSettings]
    ) -> None:
        """Replace all servers by new ones, without an interruption; this returns when that is done.

        Each new server starts before an old one drains, in a separate process that imports the environment again.
        Sessions that are left when an old server ends continue in the new one, where there is a journal and the
        environment is still the same class, name and version.

        Args:
            environment: Environment to serve from now on; by default the same, as it is on the disk now.
            max_sessions: Sessions at once of each server; by default as before.
            **settings: Settings that change; the journal, and who may use the fleet, stay as they are.

        Raises:
            ConfigurationError: An argument makes no sense.
            ProviderError: A new server could not be started; the old ones that are left serve on.
        """
        thread, running = self._at_work()
        assert self._cluster is not None
        if fixed := settings.keys() & _FIXED:
            raise ConfigurationError(
                f"{', '.join(sorted(fixed))} can't change while a fleet runs, since its address and all of its servers "
                "share it: close the fleet, and start another one."
            )
        before = (self._environment, self._max_sessions, self._settings)
        self._environment = self._environment if environment is None else environment_of(environment)
        self._max_sessions = self._max_sessions if max_sessions is None else max_sessions
        self._settings = {**self._settings, **settings}
        try:
            self._config()  # refuses what makes no sense before any server is replaced
            thread.run(running.update(self._server_plan(self._cluster)))
        except BaseException:
            self._environment, self._max_sessions, self._settings = before
            raise

    def status(self) -> FleetStatus:
        """Describe the fleet and its servers."""
        thread, running = self._at_work()
        return thread.run(_call(running.status))

    def drain(self) -> None:
        """Open no further sessions, and let the episodes that are under way end, before it is closed."""
        thread, running = self._at_work()
        thread.run(running.drain())

    def close(self) -> None:
        """End all servers, and the Ray that the fleet has started. May be called twice."""
        atexit.unregister(self.close)
        thread, self._thread = self._thread, None
        running, self._running = self._running, None
        try:
            if thread is not None and running is not None:
                thread.run(running.close())
        finally:
            if thread is not None:
                thread.end()
            if self._cluster is not None:
                self._cluster.close()
            if self._listener is not None:
                self._listener.close()
            self._cluster = self._listener = None

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End it."""
        self.close()

    def _at_work(self) -> "tuple[_LoopThread, RunningFleet]":
        if self._thread is None or self._running is None:
            raise _not_running()
        return self._thread, self._running

    def _plan(self, cluster: Cluster) -> "FleetPlan":
        from openenv.fleet.running import FleetPlan

        if (
            not (cluster.is_started_here and is_loopback(self._host) and self._access.trusts_this_machine)
            and self._access.requires_token
            and self._access.token is None
        ):
            self._settings["token"] = new_token()
            self._access = AccessPolicy.of(self._config())
        server = self._server_plan(cluster)
        journal = server.variables.get(JOURNAL_VARIABLE)
        if journal is not None and "://" not in journal and cluster.nodes > 1:
            raise ConfigurationError(
                f"Expected a journal that all {cluster.nodes} machines of this Ray reach, as in "
                f"postgresql://user@host/database, got the file {journal}."
            )
        config = self._config()
        return FleetPlan(
            server=server,
            address=self.address,
            access=self._access,
            mode=config.mode,
            autoscaling=self._autoscaling,
            longest_frame=longest_frame(config),
            moves_sessions=journal is not None,
            **self._patience_s,
        )

    def _config(self) -> ServerConfig:
        return ServerConfig.read(self._settings, max_sessions=self._max_sessions)

    def _server_plan(self, cluster: Cluster) -> ServerPlan:
        resources = self._resources or Resources(cpus=None if cluster.is_started_here else 1)
        return ServerPlan(
            environment=self._environment,
            host=self._host if cluster.is_started_here else None,
            variables=server_variables(self._settings, self._max_sessions),
            resources=resources,
            runtime_env=self._runtime_env,
            log_level=self._log_level,
            log_format=self._log_format,
            tls=self._tls,
        )


class _LoopThread:
    """An event loop in a separate thread."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="openenv-fleet", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine there and wait for its result; it is cancelled where the wait is interrupted."""
        future: Future[ResultT] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _call(function: Callable[[], ResultT]) -> ResultT:
    """Call a function in an event loop."""
    return function()


def _with_absolute_files(settings: ServerSettings) -> ServerSettings:
    """Name the files of journal and tokens by whole paths, since servers run in other folders; else the variables'."""
    journal = settings.get("journal") or os.environ.get(JOURNAL_VARIABLE)
    if journal is not None and "://" not in str(journal):
        settings = {**settings, "journal": Path(journal).absolute()}
    tokens = settings.get("tokens") or os.environ.get(SETTINGS["tokens"].variable)
    return {**settings, "tokens": Path(tokens).absolute()} if tokens else settings


def _not_running() -> ConfigurationError:
    return ConfigurationError("The fleet is not running: start it with start(), or as a context manager.")
