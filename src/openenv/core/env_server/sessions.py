"""The live sessions of one server: opened, found, closed, and kept to the server's limits.

Transports call these and their sessions, and know nothing of environments.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from math import ceil
from operator import attrgetter
from typing import Any
from uuid import uuid4

from openenv.core.env_server.disclosure import add_traceback
from openenv.core.env_server.environment_types import EnvironmentFactory, EnvironmentTypes
from openenv.core.env_server.execution import Runner, place_for, shared_place_for
from openenv.core.env_server.isolation.plan import plan_for
from openenv.core.env_server.isolation.processes import Processes
from openenv.core.env_server.isolation.runner import ProcessRunner
from openenv.core.env_server.limits import Limits
from openenv.core.env_server.line import Line
from openenv.core.env_server.metrics import Ending, Metrics, Transport
from openenv.core.env_server.places import Places, SharedCounts, WorkerPlaces
from openenv.core.env_server.reset_parameters import reset_parameters
from openenv.core.env_server.session import Session
from openenv.core.env_server.session_ids import AFTER_WORKER
from openenv.core.env_server.single_requests import SingleRequestSlots
from openenv.core.env_server.toolbox import toolbox_of
from openenv.core.env_server.types import ServerCapacityStatus
from openenv.core.exceptions import (
    ConcurrencyConfigurationError,
    ConfigurationError,
    EnvironmentTimeoutError,
    RequestError,
    SessionCreationError,
    SessionNotFoundError,
)

logger = logging.getLogger(__name__)

# Seconds that environments get to close when the server ends.
_CLOSE_TIMEOUT_S = 5.0
# Seconds that the answer to a single request waits for its environment to close, so that a client which asks one after
# another meets one environment at a time.
_CLOSE_PATIENCE_S = 1.0


class Sessions:
    """The live sessions of one server.

    Args:
        factory: Makes the environments.
        types: The classes that they speak in.
        limits: What the server grants.
        sessions_per_process: How many sessions share a process that is not this one; ``None`` runs all in this one.
        metrics: Where to count; by default figures of its own.

    Attributes:
        metrics: The figures of this process.
        line: Gives out the places.
        toolbox: The tools that agents are offered.
        worker_count: Of how many processes like this one the server is.
        debug: Whether clients are told where an environment raised.

    Raises:
        ConcurrencyConfigurationError: More than one session is granted to a class that supports one.
        ConfigurationError: The environments are to run in other processes, which can't import them.
    """

    session_class: type[Session] = Session

    def __init__(
        self,
        factory: EnvironmentFactory,
        types: EnvironmentTypes,
        limits: Limits,
        sessions_per_process: int | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self.metrics = Metrics() if metrics is None else metrics
        self.factory = factory
        self.types = types
        self.limits = limits
        self.worker_count = 1
        self.debug = False
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._may_yield: set[Session] = set()
        self.line = Line(
            Places(limits.max_sessions), limits.max_sessions_per_client, self._close_a_yielding_session, self.metrics
        )
        self._id_prefix = ""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._processes: Processes | None = None
        if sessions_per_process is not None:
            self._processes = Processes(plan_for(factory, types.action), factory.name, sessions_per_process)
        self._single_requests = SingleRequestSlots(limits.max_sessions, limits.max_wait_s)
        self._metadata: asyncio.Task[Any] | None = None
        self._check_concurrency()
        self.toolbox = toolbox_of(factory.environment_class, types)
        self._shared_place = shared_place_for(factory)

    def __len__(self) -> int:
        """Sessions that hold a place, those being opened included."""
        return len(self._sessions) + self._opening

    def __iter__(self) -> Iterator[Session]:
        """Iterate over the open sessions."""
        return iter(list(self._sessions.values()))

    async def start(self) -> None:
        """Get ready for the first session, where that takes long.

        Raises:
            ConcurrencyConfigurationError: More than one session is granted to a class that supports one, which only an
                environment in a process of its own could tell.
            ConfigurationError: That process can't import the environment.
        """
        if self._processes is None:
            return
        await self._processes.start()
        if self.limits.max_sessions > 1 and self.factory.environment_class is None:
            async with self.apart() as session:
                if not session.supports_others:
                    raise ConcurrencyConfigurationError(self.factory.name, self.limits.max_sessions)

    def reset_schema(self) -> dict[str, Any] | None:
        """Describe the parameters of a reset as JSON Schema; ``None`` where the environment's class is not known."""
        environment = self.factory.environment_class
        return None if environment is None else reset_parameters(environment).schema

    def new_id(self) -> str:
        """Make an id that nobody can guess, and from which every worker can tell that this one made it."""
        return self._id_prefix + str(uuid4())

    async def open(
        self,
        *,
        client: str | None = None,
        wait_s: float = 0.0,
        connection: object = None,
        idle_timeout_s: float | None = None,
        transport: Transport = Transport.V1,
        yielding: bool = False,
        session_id: str | None = None,
        original: Session | None = None,
    ) -> Session:
        """Open a session. Its place is taken before the environment is made.

        Args:
            client: Who is to hold it, as in ``clients.client_of``; ``None`` for nobody.
            wait_s: How long to wait in line for a place, as far as the server allows it.
            connection: The client's connection, which takes turns with the client's others in the line.
            idle_timeout_s: Time without a request after which it is closed; by default the server's.
            transport: How its client speaks to it.
            yielding: Whether it may be closed as soon as another session needs its place.
            session_id: The id that it had before the server's process ended; by default it gets a new one.
            original: The session whose environment it gets a copy of; by default it gets a new one.

        Raises:
            SessionCapacityError: Every place is taken, or every one that this client may have; or the server ends.
            EnvironmentFactoryError: The environment could not be made.
        """
        await self.line.wait(client, min(wait_s, self.limits.max_wait_s), connection)
        self._opening += 1
        try:
            session = await self._make_session(original)
        except BaseException:
            self.line.give_back(client)
            raise
        finally:
            self._opening -= 1
        session.take_id(session_id or self._id_prefix + session.id)
        session.transport = transport
        session.ignores_unknown = transport not in (Transport.V1, Transport.MCP)
        session.client = client
        session.yielding = yielding
        if yielding:
            self._may_yield.add(session)
        self._sessions[session.id] = session
        self.metrics.opened[transport] += 1
        session.idle_timeout_s = idle_timeout_s or self.limits.idle_timeout_s
        self._watch_idle(session)
        return session

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Session]:
        """Open a session for a single request in whatever order, which takes no place; there are few of them at a time.

        Raises:
            SessionCapacityError: None of them could be had in time.
            EnvironmentFactoryError: The environment could not be made.
        """
        await self._single_requests.take()
        try:
            session = await self._make_session()
        except BaseException:
            self._single_requests.give_back()
            raise
        session.enforces_order = False
        patience_s = _CLOSE_PATIENCE_S
        session.ignores_unknown = True
        try:
            yield session
        except EnvironmentTimeoutError:  # closing waits for the call that took too long
            patience_s = 0.0
            raise
        finally:
            session.closed = True
            closing = self._close_later(session)
            closing.add_done_callback(self._closed_apart)
            await asyncio.wait((closing,), timeout=patience_s)

    async def metadata(self) -> Any:
        """Say what the environment is; unless all sessions share one, an environment is made for this once.

        Raises:
            RequestError: The environment failed to say it, or could not be made.
        """
        asked = self._metadata
        failed = asked is not None and asked.done() and (asked.cancelled() or asked.exception() is not None)
        if asked is None or failed or (asked.done() and self.factory.shared is not None):
            self._metadata = asked = asyncio.get_running_loop().create_task(self._ask_metadata())
        return await asyncio.shield(asked)

    def attach(self, session_id: str) -> Session:
        """Give a session to a socket, for as long as the socket holds it.

        Raises:
            SessionNotFoundError: There is none of this id (any more).
            SessionCreationError: Another socket holds it.
        """
        session = self.get(session_id)
        if session.attached:
            raise SessionCreationError("it is taken", f"Session {session_id} already has an attached WebSocket")
        session.attached = True
        session.ignores_unknown = True  # the socket speaks the legacy wire
        session.yielding = False
        return session

    def get(self, session_id: str) -> Session:
        """Find a session by its id alone, which is how clients over HTTP and MCP name theirs.

        Raises:
            SessionNotFoundError: There is none of this id (any more), or it takes more than its id to use it.
        """
        session = self._sessions.get(session_id)
        if session is None or session.transport not in (Transport.HTTP, Transport.MCP):
            raise SessionNotFoundError(session_id)
        return session

    def new_connection_id(self) -> str:
        """Make an id for what is to be reached in this process, as its sessions are."""
        return self._id_prefix + uuid4().hex

    def let_yield(self, session: Session) -> None:
        """Have the session end as soon as another one needs its place, unless its client comes back before."""
        if session.id in self._sessions:
            session.yielding = True
            self._may_yield.add(session)

    def release(self, session: Session) -> None:
        """Give the session's place back now, although it still works; it is to be closed when it has done so."""
        self._forget(session)

    def close(self, session: Session) -> None:
        """Give the session's place back now, and have its environment closed as soon as its last call has ended."""
        self._forget(session)
        if session.closed:
            return
        session.closed = True
        self._close_later(session)

    async def close_all(self) -> None:
        """Close every session; for the end of the server. An environment that hangs is not waited for."""
        for session in self:
            session.ending = Ending.SHUTDOWN
            self.close(session)
        if self._closing:
            _, hanging = await asyncio.wait(self._closing, timeout=_CLOSE_TIMEOUT_S)
            for task in hanging:
                logger.warning("an environment did not close within %g s", _CLOSE_TIMEOUT_S)
                task.cancel()
        if self._shared_place is not None:
            self._shared_place.end()
        if self._processes is not None:
            await self._processes.close()

    def capacity(self) -> ServerCapacityStatus:
        """Count the places, of all workers."""
        return ServerCapacityStatus.from_counts(self.line.places.taken, self.limits.max_sessions)

    def join_workers(self, worker: int, count: int, counts: SharedCounts) -> None:
        """Become the sessions of one worker out of several, before any was opened.

        Args:
            worker: Number of this worker, from 0; the names of its sessions carry it, for ``worker_of``.
            count: How many workers there are.
            counts: The places that all of them have taken.

        Raises:
            ConfigurationError: All sessions are to share one environment, which can't live in several processes.
        """
        if self.factory.shared is not None:
            raise ConfigurationError(
                f"{self.factory.name} was given as one instance for all sessions, which {count} workers can't share; "
                "give its class, or serve it with workers=1."
            )
        self.worker_count = count
        self._single_requests = SingleRequestSlots(ceil(self.limits.max_sessions / count), self.limits.max_wait_s)
        self.line.places = WorkerPlaces(self.limits.max_sessions, counts, worker)
        self.number_ids(worker)

    def number_ids(self, number: int) -> None:
        """Have the ids of its sessions begin with a number, for ``worker_of``, before any was opened.

        Args:
            number: That of this worker; or of this server, in a fleet.
        """
        self._id_prefix = f"{number}{AFTER_WORKER}"

    def _close_later(self, session: Session) -> "asyncio.Task[None]":
        """Have a session's environment closed as soon as its last call has ended."""
        task = asyncio.get_running_loop().create_task(session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def _closed_apart(self, _task: "asyncio.Task[None]") -> None:
        self._single_requests.give_back()

    async def _ask_metadata(self) -> Any:
        async with self.apart() as session:
            return await session.metadata()

    def _check_concurrency(self) -> None:
        if self.limits.max_sessions == 1:
            return
        if self._processes is not None and self.factory.environment_class is None:
            return  # start() finds out, in another process
        supported = getattr(self.factory.learn_class(), "SUPPORTS_CONCURRENT_SESSIONS", False)
        if not supported or self.factory.shared is not None:
            raise ConcurrencyConfigurationError(self.factory.name, self.limits.max_sessions)

    async def _make_session(self, original: Session | None = None) -> Session:
        try:
            runner = await self._make_runner(original)
        except RequestError as error:
            if self.debug:
                add_traceback(error)
            raise
        session = self.session_class(runner, self.types, self.limits, self.metrics)
        session.debug = self.debug
        session.toolbox = self.toolbox
        return session

    async def _make_runner(self, original: Session | None) -> Runner | ProcessRunner:
        if self._processes is not None and original is None:
            return await ProcessRunner.make(self._processes)
        place = self._shared_place or place_for(self.factory.environment_class, self.factory.name)
        if original is not None:
            return await original.copy_environment(place)
        return await Runner.make(self.factory, place)

    def _close_a_yielding_session(self, client: str | None) -> bool:
        """Make room by closing the session, of a client or of any, that has yielded its place and was idle longest."""
        self._may_yield = {session for session in self._may_yield if session.yielding}
        yielding = [session for session in self._may_yield if client in (None, session.client)]
        if not yielding:
            return False
        replaced = max(yielding, key=attrgetter("idle_s"))
        replaced.ending = Ending.REPLACED
        self.close(replaced)
        return True

    def _forget(self, session: Session) -> None:
        if self._sessions.get(session.id) is not session:  # it gave its place back before, and may have been rebuilt
            return
        del self._sessions[session.id]
        self._may_yield.discard(session)
        self.line.give_back(session.client)
        self.metrics.closed[session.ending] += 1
        if session.on_end is not None:
            session.on_end()
        timer = self._timers.pop(session.id, None)
        if timer is not None:
            timer.cancel()

    def _watch_idle(self, session: Session) -> None:
        if session.idle_timeout_s is None:
            return
        remaining = session.idle_timeout_s - session.idle_s
        if remaining <= 0:
            told = {"session": session.name}
            logger.info("session %s closed after %.0f s without a request", session.name, session.idle_s, extra=told)
            session.ending = Ending.IDLE
            self.close(session)
            return
        self._timers[session.id] = asyncio.get_running_loop().call_later(remaining, self._watch_idle, session)
