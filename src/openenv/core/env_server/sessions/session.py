"""Session: one environment and the state of its episode. Requests reach the environment one at a time."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import CoroutineType
from typing import Any, Final
from uuid import uuid4

from pydantic import BaseModel
from pydantic_core import from_json

from openenv.core.env_server.execution.executors import Executor
from openenv.core.env_server.execution.runner import Runner, Started, finished
from openenv.core.env_server.execution.task_questions import TaskMethod, TaskQuestion
from openenv.core.env_server.history.entries import Checkpoint, KeptData
from openenv.core.env_server.history.record import Record
from openenv.core.env_server.metrics import INLINE_STEPS_TIMED, Ending, Metrics, Transport
from openenv.core.env_server.sessions.argument_checks import ArgumentChecks
from openenv.core.env_server.sessions.episode import Episode, task_named
from openenv.core.env_server.sessions.following import FollowedTrace, SessionFeed, Trace
from openenv.core.env_server.sessions.observer import Facts, SessionObserver
from openenv.core.env_server.sessions.request_errors import RequestErrors
from openenv.core.env_server.sessions.state import Phase, SessionState
from openenv.core.env_server.settings import ServerConfig
from openenv.core.env_server.toolbox.toolbox import Toolbox
from openenv.core.env_server.traces import SessionTrace
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import (
    EnvironmentFailedError,
    RequestError,
    SessionCreationError,
    SessionNotFoundError,
)
from openenv.core.wire.actions import decode_action, takes_tool_actions
from openenv.core.wire.answers import is_long, state_json, written_outcome, written_picture
from openenv.core.wire.arrays import ArrayWriter, Written
from openenv.core.wire.errors import validated
from openenv.core.wire.mcp_types import LONGEST_TOOL_NAME, ListToolsAction
from openenv.core.wire.messages import MessageType
from openenv.core.wire.names import public_name
from openenv.core.wire.redaction import add_traceback, message_of, origin_of
from openenv.core.wire.results import ImageFile, Outcome, Picture, WebView, WrittenJson, outcome_of
from openenv.core.wire.types import SessionInfo, State

logger = logging.getLogger(__name__)

# Constants of this module for every step: to look up a member of an enumeration takes as long as a short function, and
# to compare a string with such a member twice as long as with a plain string.
_RESET, _STEP, _STATE = MessageType.RESET.value, MessageType.STEP.value, MessageType.STATE.value
_EPISODE = (_STEP, _RESET)
_CLOSED, _PLAYING = SessionState.CLOSED, Phase.PLAYING

ANSWER_TYPES: Final = {
    _RESET: MessageType.OBSERVATION.value,
    _STEP: MessageType.OBSERVATION.value,
    _STATE: MessageType.STATE.value,
    MessageType.RENDER.value: MessageType.PICTURE.value,
    MessageType.MCP.value: MessageType.MCP.value,
    MessageType.CLOSE.value: MessageType.CLOSED.value,
    MessageType.FORK.value: MessageType.FORKED.value,
}
"""The type of the answer to each type of request."""

_ENDED = "This session has ended; it was idle for too long or was closed."
_NONE: Mapping[str, Any] = {}
# Timeout for ``get_metadata`` if the server sets no timeout for a reset.
_METADATA_TIMEOUT_S = 30.0


class Session:
    """Session with one environment and its episode.

    Concurrent requests are carried out one after another, in order of arrival.

    Args:
        runner: Calls the environment.
        types: The environment's action, observation and state classes.
        limits: The server's limits.
        metrics: Metrics to count in.
        session_id: Id of the session; by default a new one.
        transport: The client's transport.
        client: Address of the client, as in ``access.peer.peer_address``; ``None`` for a client without a limit.
        idle_timeout_s: Seconds without a request after which the session is closed; by default the server's.
        episode_id: Id of the episode that a copied environment continues.
        is_temporary: Whether the session serves a single request: a step needs no reset before.
        debug: Whether errors include the traceback of the environment.
        observer: Observes the resets, the steps and the closing of the session.
        trace: Records the session's episodes.

    Attributes:
        id: As above.
        transport: As above.
        client: As above.
        idle_timeout_s: As above; ``None`` for no timeout.
        episode: Current episode.
        checks: Checks of the arguments of resets and steps.
        debug: As above.
        status: State of the session.
        ending: Why the session ended; ``None`` before.
        evictable: Whether the session may be closed when another session needs its slot.
        created_at: Time of opening, in seconds since 1970.
        last_activity: Time of the last use, by ``time.monotonic``.
    """

    def __init__(
        self,
        runner: Runner,
        types: EnvironmentTypes,
        limits: ServerConfig,
        metrics: Metrics,
        *,
        session_id: str | None = None,
        transport: Transport = Transport.V1,
        client: str | None = None,
        idle_timeout_s: float | None = None,
        episode_id: str | None = None,
        is_temporary: bool = False,
        debug: bool = False,
        observer: SessionObserver | None = None,
        trace: SessionTrace | None = None,
    ) -> None:
        self.id = session_id or str(uuid4())
        self.transport = transport
        self.client = client
        self.idle_timeout_s = idle_timeout_s or limits.idle_timeout_s
        self.episode = Episode(episode_id)
        self.debug = debug
        self.status = SessionState.OPEN
        self.ending: Ending | None = None
        self.evictable = False
        self.created_at = time.time()
        self.last_activity = self._opened = time.monotonic()
        self._runner = runner
        self._observer = observer
        self._recorded = trace
        self._trace: Trace | None = trace  # while the session is followed, a FollowedTrace
        self._feed: SessionFeed | None = None
        # An observed request is always a coroutine: to observe costs more than a synchronous step saves.
        self._is_immediate = runner.inline and observer is None
        self._limits = limits
        self._metrics = metrics
        self._action_class = types.action
        self._observation_class = types.observation
        self._takes_tool_actions = runner.offers_tools or takes_tool_actions(types.action)
        # A client of ORS can neither reset nor step after the end of an episode.
        self._enforces_order = (runner.requires_reset or transport is Transport.ORS) and not is_temporary
        # Clients of the public package, on the other transports, rely on unknown parameters being ignored.
        is_lenient = is_temporary or transport not in (Transport.V1, Transport.MCP)
        self.checks = ArgumentChecks(runner, self.name, limits.reset_timeout_s, is_lenient=is_lenient)
        self._timed_steps = INLINE_STEPS_TIMED if runner.inline else 1
        self._arrays = ArrayWriter() if transport is Transport.V1 else None
        self._record: Record | None = None
        self._end_listener: Callable[[Ending], None] | None = None
        self._turn = asyncio.Lock()

    @property
    def name(self) -> str:
        """Public name of the session, for logs and metrics: the part of its id that is no secret."""
        return public_name(self.id)

    @property
    def age_s(self) -> float:
        """Seconds since the session was opened, by the monotonic clock."""
        return time.monotonic() - self._opened

    @property
    def recoverable(self) -> bool | None:
        """Whether the session could be recovered if the server's process ended now; ``None`` without a journal."""
        return None if self._record is None else self._record.recoverable

    @property
    def closed(self) -> bool:
        """Whether the session refuses all requests."""
        return self.status is _CLOSED

    @property
    def away(self) -> bool:
        """Whether the client's socket has closed, and the client may resume the session."""
        return self.status is SessionState.DETACHED

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._turn.locked()

    @property
    def tools(self) -> Toolbox:
        """Tools of the session, for agents."""
        runner = self._runner
        return Toolbox(
            self.step,
            self._action_class,
            self._observation_class,
            offers_tools=runner.offers_tools,
            class_tools=runner.tool_names,
        )

    @property
    def supports_others(self) -> bool:
        """Whether the environment's class supports concurrent sessions."""
        return self._runner.supports_concurrent_sessions

    @property
    def idle_s(self) -> float:
        """Seconds since the last request; 0 while a request is under way or a socket is attached.

        Also 0 in state ``DETACHED``, in which the resume window limits the time.
        """
        if self.status is not SessionState.OPEN or self._turn.locked():
            return 0.0
        return time.monotonic() - self.last_activity

    @property
    def unused_s(self) -> float:
        """Seconds since the session was opened, while there was no request; 0 from the first one on."""
        return self.age_s if self.last_activity == self._opened else 0.0

    def handle(
        self, kind: str, data: dict[str, Any], action: BaseModel | None = None, sent: KeptData = None
    ) -> Started[Written]:
        """Carry out a request of the legacy wire or of v1.

        Args:
            kind: ``reset``, ``step``, ``state`` or ``render``.
            data: The request's ``data``.
            action: The action of a step, if it was validated before.
            sent: The data, copied by the record of the session's history; ``None`` without such a copy.

        Returns:
            The answer's ``data`` as JSON, on v1 with its arrays beside it; or, if the request has to wait for its turn
            or for the environment, a coroutine that returns it.

        Raises:
            RequestError: The request was refused, or the environment failed; also raised by the coroutine.
        """
        # The fields of a tool's action may fit the environment's own class of actions, too.
        fields = data if action is None or self._takes_tool_actions else action
        if sent is None:  # for the trace, which copies what it keeps: a validated action has its defaults, too
            sent = data
        if self._turn.locked() or not self._is_immediate or kind not in _EPISODE:
            is_plain_step = kind == _STEP and self._observer is None
            return self._step_in_turn(fields, sent) if is_plain_step else self._handle_in_turn(kind, fields, sent)
        try:
            outcome = self._start_step(fields, sent=sent) if kind == _STEP else self._start_reset(data, sent)
            if isinstance(outcome, Outcome):
                return self._written(outcome)
        except RequestError as error:
            self._show_origin(error)
            raise
        except Exception as error:
            raise self._unexpected(error, kind) from error
        return self._finish_in_turn(kind, outcome)

    def request_errors(self, operation: str) -> RequestErrors:
        """Convert exceptions of the environment's models, on parsing an action or an outcome, to ``RequestError``.

        Args:
            operation: Name of the operation, for the log.

        Returns:
            A context manager, whose block raises no other ``Exception``.
        """
        return RequestErrors(self._request_error, operation)

    def _request_error(self, error: Exception, operation: str) -> RequestError:
        """Return the ``RequestError`` of an exception; see ``request_errors``."""
        if isinstance(error, RequestError):
            self._show_origin(error)
            return error
        return self._unexpected(error, operation)

    async def reset(self, arguments: Mapping[str, Any], sent: KeptData = None) -> Outcome:
        """Start an episode.

        Args:
            arguments: Keyword arguments for the environment's ``reset``. ``seed`` and ``episode_id`` are always
                allowed, and with the ``split`` and ``index`` of a listed task all its other fields.
            sent: The same as it was sent, perhaps as JSON, for the trace.

        Raises:
            InvalidRequestError: An argument is unknown, its value is invalid, or the split does not exist.
            RequestError: The environment raised, timed out or did not return an observation.
        """
        with self._observe("reset") as facts:
            async with self._turn:
                outcome = await self._traced(self._start_reset, arguments, sent)
            return self._noted(facts, outcome)

    async def begin(self, arguments: Mapping[str, Any]) -> Outcome | None:
        """Start the first episode, for an agent, which can't reset; return ``None`` if an episode was started before.

        Args:
            arguments: As for ``reset``.

        Raises:
            RequestError: As ``reset`` does.
        """
        async with self._turn:
            self._check_open()
            self.touch()
            if self.episode.phase is not Phase.NEW:
                return None
            if self._trace is not None:
                self._trace.request(_RESET, arguments, None)
            return await self._traced(self._begin_episode, arguments)

    async def step(
        self,
        action: dict[str, Any] | BaseModel,
        timeout_s: float | None = None,
        options: Mapping[str, Any] = _NONE,
        sent: KeptData = None,
        tool: str | None = None,
    ) -> Outcome:
        """Perform one action.

        Args:
            action: The action, or its fields, not validated yet.
            timeout_s: The caller's timeout in seconds; the server's limit holds if it is shorter.
            options: Further keyword arguments for the environment's ``step``, if it accepts them.
            sent: The action's fields as they were sent, likewise.
            tool: The tool that an agent calls by this action, if the action does not name it.

        Raises:
            InvalidRequestError: The fields are no valid action, or the action is illegal; the episode is unchanged.
            ResetNeededError: No episode is running.
            RequestError: The environment raised, timed out or did not return an observation.
        """
        if self._observer is None:
            async with self._turn:
                return await self._traced(self._start_step, action, timeout_s, options, sent)
        with self._observe("step") as facts:
            if (called := tool or _tool_of(action)) is not None:
                facts["tool"] = called
            async with self._turn:
                outcome = await self._traced(self._start_step, action, timeout_s, options, sent)
            return self._noted(facts, outcome)

    async def state(self, timeout_s: float | None = None) -> Any:
        """Return the environment's state, within the timeout of a step; this is allowed at any time.

        For an environment without ``state``: the id and the step count of the episode.

        Args:
            timeout_s: Timeout in seconds if the server sets none for a step.

        Raises:
            RequestError: The environment raised or timed out.
        """
        async with self._turn:
            self._check_open()
            self.touch()
            if not self._runner.has_state:
                return State(episode_id=self.episode.id, step_count=self.episode.step_count)
            return await self._runner.state(self._limits.step_timeout_s or timeout_s)

    async def render(self) -> Picture | ImageFile | WrittenJson | None:
        """Render the environment, within the timeout of a step.

        Raises:
            RequestError: The environment raised, timed out or did not return a picture.
        """
        async with self._turn:
            self._check_open()
            self.touch()
            return await self._runner.render(self._limits.step_timeout_s)

    async def render_web(self, observation: Mapping[str, Any]) -> WebView | WrittenJson:
        """Return what the environment shows of an observation in a page, within the timeout of a step.

        Args:
            observation: The observation as JSON, with ``reward`` and ``done``.

        Raises:
            RequestError: The environment raised, timed out or returned something else.
        """
        async with self._turn:
            self._check_open()
            self.touch()
            return await self._runner.render_web(observation, self._limits.step_timeout_s)

    async def metadata(self) -> Any:
        """Return the environment's metadata, within the timeout of a reset.

        Raises:
            RequestError: The environment raised or timed out.
        """
        async with self._turn:
            self._check_open()
            return await self._runner.metadata(self._limits.reset_timeout_s or _METADATA_TIMEOUT_S)

    async def tasks(self, method: TaskMethod, *arguments: Any) -> Any:
        """Call a method of the environment's ``TaskProvider``, within the timeout of a reset.

        Args:
            method: Name of the method.
            *arguments: Arguments of the method.

        Returns:
            The result, as plain JSON types.

        Raises:
            TasksUnsupportedError: The environment does not implement the method.
            TaskNotFoundError: The task does not exist.
            RequestError: The environment raised, timed out or returned a value that is no JSON.
        """
        async with self._turn:
            self._check_open()
            answer = await self._runner.tasks(TaskQuestion(method, arguments), self._limits.reset_timeout_s)
        return from_json(answer.text)

    def count_error(self, code: str) -> None:
        """Count a request that was answered with an error, for a transport that does not count it.

        Args:
            code: The error code.
        """
        self._metrics.errors[code] += 1

    def touch(self) -> None:
        """Record activity of the client without a request."""
        self.last_activity = time.monotonic()

    def resume(self, idle_timeout_s: float | None = None) -> None:
        """Resume the session for its client, so that it is not evicted.

        Args:
            idle_timeout_s: New idle timeout in seconds; by default unchanged.
        """
        if self.status is SessionState.DETACHED:
            self.status = SessionState.OPEN
        self.evictable = False
        self.idle_timeout_s = idle_timeout_s or self.idle_timeout_s
        self.touch()

    def attach(self) -> None:
        """Attach the session to a socket of the legacy wire.

        Raises:
            SessionCreationError: The session is attached to another socket.
        """
        if self.status is not SessionState.OPEN:
            raise SessionCreationError("it is in use", f"Session {self.id} already has an attached WebSocket")
        self.status = SessionState.ATTACHED
        self.evictable = False
        self.checks.relax()

    def release(self) -> None:
        """Detach the session from its legacy socket."""
        if self.status is SessionState.ATTACHED:
            self.status = SessionState.OPEN

    def detach(self) -> None:
        """Keep the session for its client, whose socket has closed."""
        if self.status is SessionState.OPEN:
            self.status = SessionState.DETACHED

    def allow_eviction(self) -> None:
        """Allow the session to be closed when another session needs its slot, unless its client returns before."""
        self.evictable = True

    def close_soon(self) -> None:
        """Enter state ``CLOSING``: the session is closed on detach, or when the request under way has ended."""
        if not self.closed:
            self.status = SessionState.CLOSING

    def end(self, ending: Ending) -> None:
        """Record that the session has released its slot, which happens once, and call the listener."""
        self.ending = ending
        if self._end_listener is not None:
            self._end_listener(ending)

    def on_end(self, listener: Callable[[Ending], None] | None) -> None:
        """Set the function that is called once, when the session releases its slot.

        Args:
            listener: The function; ``None`` removes it.
        """
        self._end_listener = listener

    def record_in(self, record: Record) -> None:
        """Set the record of the session's requests, for a session on v1."""
        self._record = record

    @property
    def can_snapshot(self) -> bool:
        """Whether the environment has ``snapshot`` and ``restore``."""
        return self._runner.can_snapshot

    async def checkpoint(self) -> Checkpoint:
        """Return a checkpoint of the episode, within the timeout of a step; requires ``can_snapshot``.

        Raises:
            EnvironmentProcessEndedError: The environment's process has ended; or ``ResetNeededError``.
            RequestError: The environment raised, timed out or returned a snapshot that can't be stored.
        """
        async with self._turn:
            self._check_open()
            return Checkpoint(await self._runner.snapshot(self._limits.step_timeout_s), self.episode.position)

    async def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint, with a new environment.

        Raises:
            RequestError: The environment raised or timed out.
        """
        async with self._turn:
            self._check_open()
            await self._runner.restore(checkpoint.snapshot, self._limits.reset_timeout_s)
            self.episode.continue_from(checkpoint.position)

    async def copy_environment(self, executor: Executor, session_name: str) -> Runner:
        """Copy the environment into another executor, within the timeout of a reset.

        Args:
            executor: The executor.
            session_name: Public name of the session that gets the copy, for the log.

        Raises:
            RequestError: The environment can't be copied.
        """
        async with self._turn:
            self._check_open()
            return await self._runner.copy(executor, session_name, self._limits.reset_timeout_s)

    def refuse_requests(self) -> None:
        """Refuse all further requests."""
        self.status = SessionState.CLOSED

    async def close(self) -> None:
        """Close the environment when its call under way, if any, has ended: the runner waits for that."""
        with self._observe("close") as facts:
            facts["ending"] = self.ending or Ending.CLOSED
            facts["episodes"] = self.episode.number
            facts["steps"] = self.episode.total_steps
            self.refuse_requests()
            try:
                await self._runner.close()
            finally:
                if self._trace is not None:
                    self._trace.close(str(self.ending or Ending.CLOSED))

    def continue_trace(self, original: "Session") -> None:
        """Record that the session's episode continues that of another session, as a fork of it."""
        self.episode.task = original.episode.task
        if self._recorded is not None and original._recorded is not None:
            self._recorded.continue_from(original._recorded)

    def follow(self) -> SessionFeed:
        """Return the feed of the session's entries from now on, which is the same for all followers."""
        if self._feed is None:
            self._feed = SessionFeed()
            self._trace = FollowedTrace(self.episode, self._feed, self._recorded)
        return self._feed

    def unfollow(self, feed: SessionFeed) -> None:
        """Record for no followers any more, unless the session has another feed by now."""
        if self._feed is feed:
            self._feed = None
            self._trace = self._recorded

    def info(self) -> SessionInfo:
        """Return a description of the session."""
        return SessionInfo(
            session_id=self.id,
            created_at=self.created_at,
            last_activity_at=time.time() - (time.monotonic() - self.last_activity),
            step_count=self.episode.step_count,
            environment_type=self._runner.environment_name,
        )

    def _noted(self, facts: Facts, outcome: Outcome) -> Outcome:
        """Note what an observer is to know of an outcome."""
        facts["done"] = outcome.done
        if outcome.reward is not None:
            facts["reward"] = outcome.reward
        if self.episode.id is not None:
            facts["episode"] = self.episode.id
        return outcome

    def _observe(self, operation: str) -> AbstractContextManager[Facts]:
        """Let the observer observe an operation, if the session has an observer."""
        return nullcontext({}) if self._observer is None else self._observer.observe(operation, self.name)

    def _log_wrong(self, operation: str, error: RequestError) -> None:
        """Log an invalid return value of the environment."""
        name = self._runner.environment_name
        logger.error("%s.%s: %s", name, operation, error.message, extra={"session": self.name})

    def _check_open(self) -> None:
        if self.status is _CLOSED:
            raise SessionNotFoundError(self.id, _ENDED)

    async def _traced(self, start: Callable[..., Started[Outcome]], *arguments: Any) -> Outcome:
        """Carry out a reset or a step, and record its error, if any, in the trace."""
        try:
            return await finished(start(*arguments))
        except RequestError as error:
            if self._trace is not None:
                self._trace.failure(error)
            raise

    def _written(self, outcome: Outcome) -> Written:
        written = outcome.written
        return written_outcome(outcome, self._arrays) if written is None else written

    async def _handle_in_turn(self, kind: str, data: Any, sent: KeptData) -> Written:
        with self.request_errors(kind):
            if kind == _STEP:
                return self._written(await self.step(data, sent=sent))
            if kind == _RESET:
                return self._written(await self.reset(data, sent))
            if kind == _STATE:
                state = await self.state()
                is_model = isinstance(state, BaseModel | Mapping)
                return await asyncio.to_thread(state_json, state) if is_model and is_long(state) else state_json(state)
            observation = data.get("observation")
            shown = await (self.render() if observation is None else self.render_web(observation))
            return written_picture(shown, self._arrays)

    async def _step_in_turn(self, data: dict[str, Any] | BaseModel, sent: KeptData) -> Written:
        """Perform a step that nothing observes: as ``step`` does, with fewer coroutines."""
        try:
            async with self._turn:
                outcome = self._start_step(data, sent=sent)
                return self._written(outcome if isinstance(outcome, Outcome) else await outcome)
        except RequestError as error:
            self._show_origin(error)
            raise
        except Exception as error:
            raise self._unexpected(error, "step") from error

    async def _finish_in_turn(self, kind: str, outcome: Coroutine[Any, Any, Outcome]) -> Written:
        with self.request_errors(kind):
            async with self._turn:
                return self._written(await outcome)

    def _unexpected(self, error: Exception, operation: str) -> EnvironmentFailedError:
        log_fields = {"session": self.name}
        logger.error("the models of an environment raised, in a %s", operation, exc_info=error, extra=log_fields)
        failure = EnvironmentFailedError(message_of(error), origin=origin_of(error))
        self._show_origin(failure, error)
        return failure

    def _show_origin(self, error: RequestError, raised: BaseException | None = None) -> None:
        if self.debug:
            add_traceback(error, raised)
        if self._trace is not None:
            self._trace.failure(error)

    def _start_reset(self, arguments: Mapping[str, Any], sent: KeptData = None) -> Started[Outcome]:
        self._check_open()
        self.touch()
        if self._trace is not None:
            self._trace.request(_RESET, arguments, sent)
        self.checks.check_parameters(arguments)
        if "split" in arguments:
            return self._reset_to_split(arguments)
        return self._begin_episode(arguments)

    async def _reset_to_split(self, arguments: Mapping[str, Any]) -> Outcome:
        await self.checks.check_split(arguments["split"])
        self._check_open()  # the environment may have been closed after it listed its splits
        return await finished(self._begin_episode(arguments))

    def _begin_episode(self, arguments: Mapping[str, Any]) -> Started[Outcome]:
        result = self._runner.reset(arguments, self._limits.reset_timeout_s)
        if isinstance(result, CoroutineType):
            return self._finish_reset(arguments, result)
        return self._began(arguments, result)

    async def _finish_reset(self, arguments: Mapping[str, Any], result: Coroutine[Any, Any, Any]) -> Outcome:
        return self._began(arguments, await self._with_long_json(await result))

    def _start_step(
        self,
        action: dict[str, Any] | BaseModel,
        timeout_s: float | None = None,
        options: Mapping[str, Any] = _NONE,
        sent: KeptData = None,
    ) -> Started[Outcome]:
        if self.status is _CLOSED:
            raise SessionNotFoundError(self.id, _ENDED)
        self.last_activity = time.monotonic()
        if self._trace is not None:
            self._trace.request(_STEP, action, sent)
        if isinstance(action, dict):
            if self._takes_tool_actions:
                action = decode_action(action, self._action_class, offers_tools=True)
            else:
                action = validated(self._action_class, action)
        # Listing tools is allowed at any time, and is not a step.
        is_listing = isinstance(action, ListToolsAction)
        if is_listing and self._trace is not None:
            self._trace.forget_request()
        if self.episode.phase is not _PLAYING and self._enforces_order and not is_listing:
            raise self.episode.reset_needed()
        limit_s = self._limits.step_timeout_s
        if timeout_s is None or (limit_s is not None and limit_s < timeout_s):
            timeout_s = limit_s
        if timeout_s is not None:
            options = {**options, "timeout_s": timeout_s}
        result = self._runner.step(action, options, timeout_s)
        complete = outcome_of if is_listing else self._stepped
        return self._finish_step(result, complete) if isinstance(result, CoroutineType) else complete(result)

    async def _finish_step(self, result: Coroutine[Any, Any, Any], complete: Callable[[Any], Outcome]) -> Outcome:
        return complete(await self._with_long_json(await result))

    async def _with_long_json(self, result: Any) -> Any:
        """Return what the environment returned; where its JSON is long, with that, which a thread has written.

        The event loop goes on between the operations of the thread.
        """
        observation = result[0] if isinstance(result, tuple) and result else result
        if not isinstance(observation, BaseModel) or not is_long(observation):
            return result
        try:
            return await asyncio.to_thread(self._with_json, result)
        except RequestError:  # it is raised again where the JSON is needed, after the step has been counted
            return result

    def _with_json(self, result: Any) -> Outcome:
        outcome = outcome_of(result)
        outcome.written = written_outcome(outcome, self._arrays)
        return outcome

    def _began(self, arguments: Mapping[str, Any], result: Any) -> Outcome:
        try:
            outcome = outcome_of(result)
        except RequestError as error:
            self._log_wrong("reset", error)
            raise
        self._metrics.reset_times.observe(time.monotonic() - self.last_activity)
        episode_id = arguments.get("episode_id")
        self.episode.begin(outcome, episode_id if isinstance(episode_id, str) else None, task_named(arguments))
        if self._trace is not None:
            self._trace.answer(outcome, self.last_activity, self._arrays)
        return outcome

    def _stepped(self, result: Any) -> Outcome:
        try:
            outcome = outcome_of(result)
        except RequestError as error:
            self._log_wrong("step", error)
            raise
        metrics = self._metrics
        metrics.steps = steps = metrics.steps + 1
        if not steps % self._timed_steps:
            metrics.step_times.observe(time.monotonic() - self.last_activity)  # since the step's turn
        self.episode.advance(outcome)
        if self._trace is not None:
            self._trace.answer(outcome, self.last_activity, self._arrays)
        return outcome


def _tool_of(action: Mapping[str, Any] | BaseModel) -> str | None:
    """Return the tool that an action names; ``None`` if it calls none."""
    name = action.get("tool_name") if isinstance(action, Mapping) else getattr(action, "tool_name", None)
    return name[:LONGEST_TOOL_NAME] if isinstance(name, str) else None
