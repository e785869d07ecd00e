"""Sessions of one server: opened, found and closed, within the server's limits.

Transports use the manager and its sessions, never an environment itself.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial
from math import ceil
from operator import attrgetter
from typing import Any
from uuid import uuid4

from openenv.core.addresses import token_name
from openenv.core.env_server.capacity.capacity import Capacity
from openenv.core.env_server.capacity.slots import SharedCounts, Slots, WorkerSlots
from openenv.core.env_server.execution.executors import executor_for, shared_executor_for
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.measured_runner import make_runner
from openenv.core.env_server.execution.reset_parameters import reset_parameters
from openenv.core.env_server.execution.runner import Runner
from openenv.core.env_server.isolation.agent_code import confines_code
from openenv.core.env_server.isolation.forkserver_config import ForkServerConfig
from openenv.core.env_server.isolation.pool import ProcessPool
from openenv.core.env_server.isolation.runner import ProcessRunner
from openenv.core.env_server.metrics import Ending, Metrics, Transport
from openenv.core.env_server.sessions.observer import Facts, SessionObserver
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.single_requests import SingleRequestSlots
from openenv.core.env_server.sessions.state import SessionState
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.toolbox.toolbox import common_tools, may_have_tools
from openenv.core.env_server.traces import TraceRecorder
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import (
    ConcurrencyConfigurationError,
    ConfigurationError,
    EnvironmentTimeoutError,
    RequestError,
    SessionNotFoundError,
)
from openenv.core.tasks.task_set import task_set_of
from openenv.core.wire.names import AFTER_WORKER, public_name
from openenv.core.wire.redaction import add_traceback
from openenv.core.wire.types import ServerCapacityStatus

logger = logging.getLogger(__name__)

# Timeout for closing all environments at shutdown.
_CLOSE_TIMEOUT_S = 5.0
# Maximum wait of a single request for its environment to close before the response, so that a client which sends such
# requests one by one has one environment at a time.
_CLOSE_PATIENCE_S = 1.0
# Seconds after which a session that was never used may be closed when another one needs its slot.
_UNUSED_S = 900.0


class SessionManager:
    """Manager of the open sessions of one server.

    Args:
        factory: Creates the environments.
        types: The environment's action, observation and state classes.
        limits: The server's limits.
        sessions_per_process: Number of sessions that share an environment process; ``None`` runs all environments in
            this process.
        metrics: Metrics to count in; by default new ones.
        observer: Observes the operations of the sessions.
        recorder: Records the sessions' episodes.
        client_limit: Returns how many sessions a client may have at once; by default as many as the limits say.
        watch_player: Called with the name of the token of a session's client, and with what closes the session for a
            reason, once the client may not play any more; returns what to call when the session has ended before.

    Attributes:
        metrics: Metrics of this process.
        capacity: Slots of the server, and the queue for them.
        common_tools: Tools that all sessions have at any time; ``None`` if they depend on the session.
        may_have_tools: Whether sessions may answer ``ListToolsAction``.
        worker_count: Number of worker processes of the server.
        debug: Whether errors sent to clients include the traceback of the environment.

    Raises:
        ConcurrencyConfigurationError: More than one session is configured for a class that supports only one.
        ConfigurationError: The environments run in other processes, which can't import them.
    """

    def __init__(
        self,
        factory: EnvironmentFactory,
        types: EnvironmentTypes,
        limits: ServerConfig,
        sessions_per_process: int | None = None,
        metrics: Metrics | None = None,
        observer: SessionObserver | None = None,
        recorder: TraceRecorder | None = None,
        client_limit: Callable[[str], int | None] | None = None,
        watch_player: Callable[[str, Callable[[str], None]], Callable[[], None]] | None = None,
    ) -> None:
        self.metrics = Metrics() if metrics is None else metrics
        self.factory = factory
        self.types = types
        self.limits = limits
        self.worker_count = 1
        self.debug = limits.debug
        self._observer = observer
        self._recorder = recorder
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._evictable: set[Session] = set()
        self._watch_player = watch_player
        self._unwatch: dict[str, Callable[[], None]] = {}  # for sessions whose client has a named token, by their ids
        self.capacity = Capacity(
            Slots(limits.max_sessions), client_limit or limits.max_sessions_per_client, self._evict, self.metrics
        )
        self._id_prefix = ""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._processes: ProcessPool | None = None
        factory.measures_cpu = limits.measure_cpu
        if sessions_per_process is not None:
            forks = ForkServerConfig.of(factory, types.action, confined=confines_code(factory, limits))
            self._processes = ProcessPool(forks, factory.name, sessions_per_process)
        self._single_requests = SingleRequestSlots(limits.max_sessions, limits.max_wait_s)
        self._metadata: asyncio.Task[Any] | None = None
        self._check_concurrency()
        self.common_tools = common_tools(factory.environment_class, types.action)
        self.may_have_tools = may_have_tools(factory.environment_class, types.action)
        self._shared_executor = shared_executor_for(factory)

    def __len__(self) -> int:
        """Return the number of sessions that hold a slot, including those being opened."""
        return len(self._sessions) + self._opening

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the open sessions."""
        return iter(list(self._sessions.values()))

    async def start(self) -> None:
        """Read the environment's task set, if it has one, and start the environment processes, if any.

        Raises:
            ConcurrencyConfigurationError: More than one session is configured for a class that supports only one, which
                only an instance in an environment process shows.
            ConfigurationError: The process can't import the environment, or the tasks can't be read.
        """
        if (tasks := task_set_of(self.factory.environment_class)) is not None:
            await asyncio.to_thread(tasks.read)
        if self._processes is None:
            return
        await self._processes.start()
        if self.limits.max_sessions > 1 and self.factory.environment_class is None:
            async with self.temporary_session() as session:
                if not session.supports_others:
                    raise ConcurrencyConfigurationError(self.factory.name, self.limits.max_sessions)

    def reset_schema(self) -> dict[str, Any] | None:
        """Return the JSON Schema of the parameters of a reset; ``None`` if the environment's class is not known."""
        environment = self.factory.environment_class
        return None if environment is None else reset_parameters(environment).schema

    def new_id(self) -> str:
        """Return a new session id, which can't be guessed and from which ``worker_of`` reads this worker's number."""
        return self._id_prefix + str(uuid4())

    async def open(
        self,
        *,
        client: str | None = None,
        wait_s: float = 0.0,
        connection: object = None,
        idle_timeout_s: float | None = None,
        transport: Transport = Transport.V1,
        evictable: bool = False,
        session_id: str | None = None,
        original: Session | None = None,
    ) -> Session:
        """Open a session. The slot is acquired before the environment is created.

        Args:
            client: Address of the client, as in ``access.peer.peer_address``; ``None`` for a client without a limit.
            wait_s: Maximum wait in the queue in seconds; capped at the server's ``max_wait_s``.
            connection: The client's connection; connections of one client take turns in the queue.
            idle_timeout_s: Seconds without a request after which the session is closed; by default the server's.
            transport: The client's transport.
            evictable: Whether the session may be closed when another session needs its slot.
            session_id: Id of the recovered session; by default a new one.
            original: The session whose environment is copied; by default a new environment is created.

        Raises:
            SessionCapacityError: No slot is free, the client's limit is reached, or the server is shutting down.
            EnvironmentFactoryError: The environment could not be created.
        """
        with self._observe("open") as facts:
            await self.capacity.wait(client, min(wait_s, self.limits.max_wait_s), connection)
            session_id = session_id or self.new_id()
            self._opening += 1
            try:
                runner = await self._make_runner(session_id, original)
            except BaseException:
                self.capacity.release(client)
                raise
            finally:
                self._opening -= 1
            session = self._new_session(
                runner,
                transport,
                session_id,
                client=client,
                idle_timeout_s=idle_timeout_s,
                episode_id=None if original is None else original.episode.id,
            )
            self._sessions[session.id] = session
            self.metrics.opened[transport] += 1
            name = token_name(client)
            if name is not None:
                self._opened_by_token(session, name)
            if evictable:
                self.allow_eviction(session)
            self._watch_idle(session)
            facts["session"] = session.name
            facts["transport"] = transport
            if name is not None:
                facts["token"] = name
            return session

    @asynccontextmanager
    async def temporary_session(self, client: str | None = None) -> AsyncIterator[Session]:
        """Open a temporary session for a single request, outside the capacity for sessions; few exist at a time.

        Args:
            client: Address of the client, as in ``access.peer.peer_address``.

        Raises:
            SessionCapacityError: No slot for single requests was free in time.
            EnvironmentFactoryError: The environment could not be created.
        """
        await self._single_requests.acquire()
        session_id = str(uuid4())
        try:
            runner = await self._make_runner(session_id)
        except BaseException:
            self._single_requests.release()
            raise
        session = self._new_session(runner, Transport.HTTP, session_id, client=client, is_temporary=True)
        patience_s = _CLOSE_PATIENCE_S
        try:
            yield session
        except EnvironmentTimeoutError:  # closing waits for the call that timed out
            patience_s = 0.0
            raise
        finally:
            session.refuse_requests()
            closing = self._close_later(session)
            closing.add_done_callback(self._release_single_request)
            await asyncio.wait((closing,), timeout=patience_s)

    async def metadata(self) -> Any:
        """Return the environment's metadata, cached unless all sessions share one environment.

        Raises:
            RequestError: The environment's ``get_metadata`` failed, or the environment could not be created.
        """
        reading = self._metadata
        failed = reading is not None and reading.done() and (reading.cancelled() or reading.exception() is not None)
        if reading is None or failed or (reading.done() and self.factory.shared is not None):
            self._metadata = reading = asyncio.get_running_loop().create_task(self._read_metadata())
        return await asyncio.shield(reading)

    def attach(self, session_id: str) -> Session:
        """Attach a session to a socket.

        Raises:
            SessionNotFoundError: No session has this id (any more).
            SessionCreationError: The session is attached to another socket.
        """
        session = self.get(session_id)
        session.attach()
        return session

    def detach(self, session: Session, *, clean: bool) -> None:
        """Detach a session from its closed socket.

        Args:
            session: The session.
            clean: Whether the client closed the socket on purpose; otherwise the client may never return, and the
                session becomes evictable.
        """
        if session.status is SessionState.CLOSING:
            self.close(session)
            return
        session.release()
        if not clean:
            self.allow_eviction(session)

    def get(self, session_id: str) -> Session:
        """Return a session by its id alone, as clients over HTTP and MCP use it.

        Raises:
            SessionNotFoundError: No session has this id (any more), or its transport requires more than the id.
        """
        session = self._sessions.get(session_id)
        if session is None or session.transport not in (Transport.HTTP, Transport.MCP):
            raise SessionNotFoundError(session_id)
        return session

    def named(self, name: str) -> Session | None:
        """Return the session of a public name; ``None`` where there is none."""
        return next((session for session in self if session.name == name), None)

    def new_connection_id(self) -> str:
        """Return a new connection id, which names this worker as session ids do."""
        return self._id_prefix + uuid4().hex

    def allow_eviction(self, session: Session) -> None:
        """Allow the session to be closed when another session needs its slot, unless its client returns before."""
        if session.id in self._sessions:
            session.allow_eviction()
            self._evictable.add(session)

    def free_slot(self, session: Session, ending: Ending) -> None:
        """Release the session's slot although a request is under way; the caller closes the session afterwards."""
        session.close_soon()
        self._forget(session, ending)

    def close(self, session: Session, ending: Ending = Ending.CLOSED) -> None:
        """Close a session: release its slot now, and close its environment when the call under way has ended.

        Args:
            session: The session; no effect if it is closed already.
            ending: The reason, unless the slot was released before.
        """
        self._forget(session, ending)
        if session.closed:
            return
        session.refuse_requests()
        self._close_later(session)

    async def close_all(self) -> None:
        """Close every session, at shutdown. Environments get ``_CLOSE_TIMEOUT_S`` to close."""
        for session in self:
            self.close(session, Ending.SHUTDOWN)
        if self._closing:
            _, hanging = await asyncio.wait(self._closing, timeout=_CLOSE_TIMEOUT_S)
            for task in hanging:
                logger.warning("an environment did not close within %g s", _CLOSE_TIMEOUT_S)
                task.cancel()
        if self._shared_executor is not None:
            self._shared_executor.shut_down()
        if self._processes is not None:
            await self._processes.close()
        if self._observer is not None:
            await asyncio.to_thread(self._observer.close)

    def show_errors(self) -> None:
        """Include the traceback of the environment in errors of sessions that are opened from now on."""
        self.debug = True

    def capacity_status(self) -> ServerCapacityStatus:
        """Return the slots of all workers."""
        return ServerCapacityStatus.from_counts(self.capacity.slots.in_use, self.limits.max_sessions)

    def join_workers(self, worker: int, count: int, counts: SharedCounts) -> None:
        """Make this process one of several workers, before it opens a session.

        Args:
            worker: Number of this worker, from 0; its session ids carry this number, for ``worker_of``.
            count: Number of workers.
            counts: Slots in use by each worker.

        Raises:
            ConfigurationError: All sessions share one environment instance, which can't live in several processes.
        """
        if self.factory.shared is not None:
            raise ConfigurationError(
                f"{self.factory.name} was given as one instance for all sessions, which {count} workers can't share; "
                "give its class, or serve it with workers=1."
            )
        self.worker_count = count
        self._single_requests = SingleRequestSlots(ceil(self.limits.max_sessions / count), self.limits.max_wait_s)
        self.capacity.share(WorkerSlots(self.limits.max_sessions, counts, worker))
        self.number_ids(worker)

    def number_ids(self, number: int) -> None:
        """Set the number that session ids begin with, for ``worker_of``, before a session is opened.

        Args:
            number: Number of this worker, or of this server in a fleet.
        """
        self._id_prefix = f"{number}{AFTER_WORKER}"

    def _observe(self, operation: str) -> AbstractContextManager[Facts]:
        """Let the observer observe an operation, if the server has an observer."""
        return nullcontext({}) if self._observer is None else self._observer.observe(operation)

    def _close_later(self, session: Session) -> "asyncio.Task[None]":
        """Start a task that closes a session's environment when the call under way has ended."""
        task = asyncio.get_running_loop().create_task(session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def _release_single_request(self, _task: "asyncio.Task[None]") -> None:
        self._single_requests.release()

    async def _read_metadata(self) -> Any:
        async with self.temporary_session() as session:
            return await session.metadata()

    def _check_concurrency(self) -> None:
        if self.limits.max_sessions == 1:
            return
        if self._processes is not None and self.factory.environment_class is None:
            return  # start() checks this, in another process
        supported = getattr(self.factory.learn_class(), "SUPPORTS_CONCURRENT_SESSIONS", False)
        if not supported or self.factory.shared is not None:
            raise ConcurrencyConfigurationError(self.factory.name, self.limits.max_sessions)

    def _new_session(self, runner: Runner, transport: Transport, session_id: str, **settings: Any) -> Session:
        trace = None
        if self._recorder is not None:
            name = token_name(settings.get("client"))
            trace = self._recorder.session(public_name(session_id), str(transport), name)
        return Session(
            runner,
            self.types,
            self.limits,
            self.metrics,
            session_id=session_id,
            transport=transport,
            debug=self.debug,
            observer=self._observer,
            trace=trace,
            **settings,
        )

    async def _make_runner(self, session_id: str, original: Session | None = None) -> Runner:
        try:
            return await self._made_runner(public_name(session_id), original)
        except RequestError as error:
            if self.debug:
                add_traceback(error)
            raise

    async def _made_runner(self, session_name: str, original: Session | None) -> Runner:
        if self._processes is not None and original is None:
            return await ProcessRunner.make(self._processes)
        executor = self._shared_executor or executor_for(self.factory.environment_class, self.factory.name)
        if original is not None:
            return await original.copy_environment(executor, session_name)
        return await make_runner(self.factory, executor, session_name)

    def _evict(self, client: str | None) -> bool:
        """Close the evictable session, of a client or of any, that was idle longest; return whether there was one."""
        self._evictable = {session for session in self._evictable if session.evictable}
        unused = (session for session in self if session.unused_s >= _UNUSED_S)
        evictable = [session for session in (*self._evictable, *unused) if client in (None, session.client)]
        if not evictable:
            return False
        self.close(max(evictable, key=attrgetter("idle_s")), Ending.REPLACED)
        return True

    def _forget(self, session: Session, ending: Ending) -> None:
        if self._sessions.get(session.id) is not session:  # slot released before; the id may be a recovered session's
            return
        del self._sessions[session.id]
        self._evictable.discard(session)
        self.capacity.release(session.client)
        self.metrics.closed[ending] += 1
        session.end(ending)
        unwatch = self._unwatch.pop(session.id, None)
        if unwatch is not None:
            unwatch()
        timer = self._timers.pop(session.id, None)
        if timer is not None:
            timer.cancel()

    def _opened_by_token(self, session: Session, name: str) -> None:
        """Count a session of a named token, and have it closed once that may not play."""
        self.metrics.opened_by_token[name] += 1
        if self._watch_player is not None:
            self._unwatch[session.id] = self._watch_player(name, partial(self._revoke, session))

    def _revoke(self, session: Session, reason: str) -> None:
        logger.info("session %s closed: %s", session.name, reason, extra={"session": session.name})
        self.close(session, Ending.REVOKED)

    def _watch_idle(self, session: Session) -> None:
        if session.idle_timeout_s is None:
            return
        remaining = session.idle_timeout_s - session.idle_s
        if remaining <= 0:
            log_fields = {"session": session.name}
            text = "session %s closed after %.0f s without a request"
            logger.info(text, session.name, session.idle_s, extra=log_fields)
            self.close(session, Ending.IDLE)
            return
        self._timers[session.id] = asyncio.get_running_loop().call_later(remaining, self._watch_idle, session)
