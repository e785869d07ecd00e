"""Sessions: one live environment each, opened, driven in turn, and closed.

``Sessions`` holds the sessions of one server and keeps to its limits; a ``Session`` knows where its episode stands and
lets one request at a time reach its environment. Transports call these and know nothing of environments.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, cast
from uuid import uuid4

from pydantic import BaseModel

from openenv.core.env_server.environment_types import EnvironmentFactory, EnvironmentTypes
from openenv.core.env_server.execution import FINAL, Runner, place_for, shared_place_for
from openenv.core.env_server.isolation.plan import plan_for
from openenv.core.env_server.isolation.processes import Processes
from openenv.core.env_server.isolation.runner import ProcessRunner
from openenv.core.env_server.outcomes import Outcome, outcome_of
from openenv.core.env_server.places import Places, SharedCounts, WorkerPlaces
from openenv.core.env_server.protocol import decode_action
from openenv.core.env_server.types import ServerCapacityStatus, SessionInfo
from openenv.core.exceptions import (
    ConcurrencyConfigurationError,
    ConfigurationError,
    EnvironmentTimeoutError,
    ResetNeededError,
    SessionCapacityError,
    SessionCreationError,
    SessionNotFoundError,
)

logger = logging.getLogger(__name__)

# Seconds that environments get to close when the server ends.
_CLOSE_TIMEOUT_S = 5.0

_NONE: Mapping[str, Any] = {}

# Stands between a worker's number and the rest of a session's id.
_AFTER_WORKER = "."


class Phase(Enum):
    """Where a session's episode stands."""

    NEW = "new"
    PLAYING = "playing"
    DONE = "done"


_NEEDED_RESETS = {
    Phase.NEW: "Expected a reset first: no episode has been started in this session.",
    Phase.DONE: "Expected a reset: the episode has ended, so there is nothing to step.",
}


@dataclass(frozen=True)
class Limits:
    """What a server grants. Times are in seconds; ``None`` is no limit.

    Attributes:
        max_sessions: Sessions open at once.
        idle_timeout_s: Time without a request after which a session is closed.
        reset_timeout_s: Time for one ``reset``.
        step_timeout_s: Time for one ``step``.

    Raises:
        ConfigurationError: A time is not above 0.
    """

    max_sessions: int = 1
    idle_timeout_s: float | None = None
    reset_timeout_s: float | None = None
    step_timeout_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("idle_timeout_s", "reset_timeout_s", "step_timeout_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:  # NaN included
                raise ConfigurationError(f"Expected {name} to be above 0, or None for no limit; got {value}.")


class Session:
    """One environment and the episode that it plays.

    Requests that come at the same time wait for each other, in the order in which they came.

    Attributes:
        id: Name of the session, hard to guess.
        step_count: Steps since the last reset.
        closed: Whether the session has ended.
        attached: Whether a socket holds the session, which was opened elsewhere.
        enforces_order: Whether a step before the first reset, or after the end of an episode, is refused.
        yielding: Whether it may be closed as soon as another session needs its place.
        idle_timeout_s: Time without a request after which it is closed; ``None`` for never.
    """

    def __init__(self, runner: Runner | ProcessRunner, types: EnvironmentTypes, limits: Limits) -> None:
        self.id = str(uuid4())
        self.step_count = 0
        self.closed = False
        self.attached = False
        self.enforces_order = runner.requires_reset
        self.yielding = False
        self.idle_timeout_s = limits.idle_timeout_s
        self.created_at = time.time()
        self.last_activity = time.monotonic()
        self._runner = runner
        self._is_inline = runner.inline
        self._inline_runner = cast("Runner", runner)  # called only where ``at_once`` holds
        self._action_class = types.action
        self._limits = limits
        self._step_options = _NONE if limits.step_timeout_s is None else {"timeout_s": limits.step_timeout_s}
        self._phase = Phase.NEW
        self._turn = asyncio.Lock()

    @property
    def supports_others(self) -> bool:
        """Whether the environment shares nothing with those of other sessions."""
        return self._runner.supports_concurrent_sessions

    @property
    def idle_s(self) -> float:
        """Seconds since the last request; 0 while one is being answered or a socket holds the session."""
        return 0.0 if self.attached or self._turn.locked() else time.monotonic() - self.last_activity

    async def reset(self, arguments: Mapping[str, Any]) -> Outcome:
        """Start an episode.

        Args:
            arguments: Keyword arguments for the environment's ``reset``; those that it does not accept are left out.

        Raises:
            RequestError: The environment raised, took too long or returned something else than an observation.
        """
        async with self._turn:
            self._touch()
            return self._began(await self._runner.reset(arguments, self._limits.reset_timeout_s))

    def reset_now(self, arguments: Mapping[str, Any]) -> Outcome | Awaitable[Outcome]:
        """Start an episode at once; only where ``at_once`` holds. See ``step_now``."""
        self._touch()
        result = self._inline_runner.reset_now(arguments)
        return self._began(result) if isinstance(result, FINAL) else self._finished_reset(result)

    async def step(
        self, fields: Mapping[str, Any], options: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> Outcome:
        """Do one action.

        Args:
            fields: The action's fields.
            options: Further keyword arguments for the environment's ``step``, where it accepts them.
            timeout_s: Seconds that the caller grants, if less than the server does.

        Raises:
            InvalidRequestError: The fields do not make an action, or the rules refuse it; nothing happened.
            ResetNeededError: No episode is being played.
            RequestError: The environment raised, took too long or returned something else than an observation.
        """
        async with self._turn:
            self._touch()
            action = self._checked_action(fields)
            limit_s = self._limits.step_timeout_s
            if timeout_s is not None or limit_s is not None:
                timeout_s = min(time_s for time_s in (timeout_s, limit_s) if time_s is not None)
                options = {**(options or {}), "timeout_s": timeout_s}
            return self._stepped(await self._runner.step(action, options or _NONE, timeout_s))

    def step_now(self, fields: Mapping[str, Any]) -> Outcome | Awaitable[Outcome]:
        """Do one action at once, without a coroutine; only where ``at_once`` holds.

        For steps of microseconds: each coroutine between a transport and the environment costs one of them.

        Args:
            fields: The action's fields.

        Returns:
            The outcome, or what to await for it: a plain ``step`` may yet return something to await.

        Raises:
            RequestError: As ``step`` does.
        """
        self._touch()
        result = self._inline_runner.step_now(self._checked_action(fields), self._step_options)
        return self._stepped(result) if isinstance(result, FINAL) else self._finished_step(result)

    @property
    def at_once(self) -> bool:
        """Whether ``reset_now`` and ``step_now`` may be called now: the environment never blocks, and nobody waits."""
        return self._is_inline and not self._turn.locked()

    async def state(self) -> Any:
        """Read the environment's state; this is allowed at any time."""
        async with self._turn:
            self._touch()
            return await self._runner.state()

    async def metadata(self) -> Any:
        """Ask the environment what it is."""
        async with self._turn:
            return await self._runner.metadata()

    async def close(self) -> None:
        """Close the environment, once the call that it may still be running has ended."""
        self.closed = True
        await self._runner.close()

    def info(self) -> SessionInfo:
        """Describe the session."""
        return SessionInfo(
            session_id=self.id,
            created_at=self.created_at,
            last_activity_at=time.time() - (time.monotonic() - self.last_activity),
            step_count=self.step_count,
            environment_type=self._runner.environment_name,
        )

    def _touch(self) -> None:
        if self.closed:
            raise SessionNotFoundError(self.id, "This session has ended; it was idle for too long or was closed.")
        self.last_activity = time.monotonic()

    def _began(self, result: Any) -> Outcome:
        outcome = outcome_of(result)
        self.step_count = 0
        self._phase = Phase.DONE if outcome.done else Phase.PLAYING
        return outcome

    def _stepped(self, result: Any) -> Outcome:
        outcome = outcome_of(result)
        self.step_count += 1
        if outcome.done:
            self._phase = Phase.DONE
        return outcome

    async def _finished_reset(self, result: Any) -> Outcome:
        async with self._turn:
            return self._began(await self._inline_runner.finish("reset", result, self._limits.reset_timeout_s))

    async def _finished_step(self, result: Any) -> Outcome:
        async with self._turn:
            return self._stepped(await self._inline_runner.finish("step", result, self._limits.step_timeout_s))

    def _checked_action(self, fields: Mapping[str, Any]) -> BaseModel:
        action = decode_action(fields, self._action_class)
        if self._phase is not Phase.PLAYING and self.enforces_order:
            raise ResetNeededError(_NEEDED_RESETS[self._phase])
        return action


class Sessions:
    """The live sessions of one server.

    Args:
        factory: Makes the environments.
        types: The classes that they speak in.
        limits: What the server grants.
        sessions_per_process: How many sessions share a process that is not this one; ``None`` runs all in this one.

    Attributes:
        worker_count: Of how many processes like this one the server is.

    Raises:
        ConcurrencyConfigurationError: More than one session is granted to a class that supports one.
        ConfigurationError: The environments are to run in other processes, which can't import them.
    """

    def __init__(
        self,
        factory: EnvironmentFactory,
        types: EnvironmentTypes,
        limits: Limits,
        sessions_per_process: int | None = None,
    ) -> None:
        self.factory = factory
        self.types = types
        self.limits = limits
        self.worker_count = 1
        self._sessions: dict[str, Session] = {}
        self._opening = 0
        self._places = Places(limits.max_sessions)
        self._id_prefix = ""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._processes: Processes | None = None
        if sessions_per_process is not None:
            self._processes = Processes(plan_for(factory, types.action), factory.name, sessions_per_process)
        self._check_concurrency()
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

    async def open(self, *, idle_timeout_s: float | None = None) -> Session:
        """Open a session. Its place is taken before the environment is made.

        Args:
            idle_timeout_s: Time without a request after which it is closed; by default the server's.

        Raises:
            SessionCapacityError: Every place is taken.
            EnvironmentFactoryError: The environment could not be made.
        """
        self._take_place()
        self._opening += 1
        try:
            session = await self._make_session()
        except BaseException:
            self._places.give_back()
            raise
        finally:
            self._opening -= 1
        session.id = self._id_prefix + session.id
        self._sessions[session.id] = session
        session.idle_timeout_s = idle_timeout_s or self.limits.idle_timeout_s
        self._watch_idle(session)
        return session

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Session]:
        """Open a session outside the limits, for a single request in whatever order."""
        session = await self._make_session()
        session.enforces_order = False
        try:
            yield session
        except EnvironmentTimeoutError:  # closing would wait for the call that took too long
            self.close(session)
            raise
        except BaseException:
            await session.close()
            raise
        await session.close()

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
        session.yielding = False
        return session

    def get(self, session_id: str) -> Session:
        """Find a session.

        Raises:
            SessionNotFoundError: There is none of this id (any more).
        """
        try:
            return self._sessions[session_id]
        except KeyError:
            raise SessionNotFoundError(session_id) from None

    def release(self, session: Session) -> None:
        """Give the session's place back now, although it still works; it is to be closed when it has done so."""
        self._forget(session)

    def close(self, session: Session) -> None:
        """Give the session's place back now, and have its environment closed as soon as its last call has ended."""
        self._forget(session)
        if session.closed:
            return
        session.closed = True
        task = asyncio.get_running_loop().create_task(session.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close_all(self) -> None:
        """Close every session; for the end of the server. An environment that hangs is not waited for."""
        for session in self:
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
        return ServerCapacityStatus.from_counts(self._places.taken, self.limits.max_sessions)

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
        self._places = WorkerPlaces(self.limits.max_sessions, counts, worker)
        self._id_prefix = f"{worker}{_AFTER_WORKER}"

    def _check_concurrency(self) -> None:
        if self.limits.max_sessions == 1:
            return
        if self._processes is not None and self.factory.environment_class is None:
            return  # start() finds out, in another process
        supported = getattr(self.factory.learn_class(), "SUPPORTS_CONCURRENT_SESSIONS", False)
        if not supported or self.factory.shared is not None:
            raise ConcurrencyConfigurationError(self.factory.name, self.limits.max_sessions)

    async def _make_session(self) -> Session:
        return Session(await self._make_runner(), self.types, self.limits)

    async def _make_runner(self) -> Runner | ProcessRunner:
        if self._processes is not None:
            return await ProcessRunner.make(self._processes)
        place = self._shared_place or place_for(self.factory.environment_class, self.factory.name)
        return await Runner.make(self.factory, place)

    def _take_place(self) -> None:
        while not self._places.take():
            if not self._close_a_yielding_session():
                # Not the count of now: another worker may have given a place back since.
                raise SessionCapacityError(self.limits.max_sessions, self.limits.max_sessions)

    def _close_a_yielding_session(self) -> bool:
        """Make room by closing the session that has yielded its place and was idle longest."""
        yielding = [session for session in self if session.yielding]
        if not yielding:
            return False
        self.close(max(yielding, key=attrgetter("idle_s")))
        return True

    def _forget(self, session: Session) -> None:
        if self._sessions.pop(session.id, None) is not None:
            self._places.give_back()
        timer = self._timers.pop(session.id, None)
        if timer is not None:
            timer.cancel()

    def _watch_idle(self, session: Session) -> None:
        if session.idle_timeout_s is None:
            return
        remaining = session.idle_timeout_s - session.idle_s
        if remaining <= 0:
            logger.info("session %s closed after %.0f s without a request", session.id, session.idle_s)
            self.close(session)
            return
        self._timers[session.id] = asyncio.get_running_loop().call_later(remaining, self._watch_idle, session)


def worker_of(session_id: str) -> str | None:
    """Return the number of the worker that holds a session; ``None`` where its id names none.

    Example:
        >>> worker_of("1.6f1ed002-ab5d-4c4b-9f0c-3d1c1ac0ab11")
        '1'
    """
    worker, dot, _ = session_id.partition(_AFTER_WORKER)
    return worker if dot else None
