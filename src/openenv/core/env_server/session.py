"""A session: one live environment and where its episode stands. One request at a time reaches the environment."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from pydantic import BaseModel
from pydantic_core import from_json

from openenv.core.env_server.environment_types import EnvironmentTypes
from openenv.core.env_server.execution import FINAL, Place, ProgressListener, Runner
from openenv.core.env_server.isolation.runner import ProcessRunner
from openenv.core.env_server.limits import Limits
from openenv.core.env_server.mcp_types import ListToolsAction, takes_tool_actions
from openenv.core.env_server.metrics import INLINE_STEPS_TIMED, Ending, Metrics, Transport
from openenv.core.env_server.outcomes import Outcome, WrittenJson, outcome_of
from openenv.core.env_server.pictures import Picture
from openenv.core.env_server.protocol import decode_action
from openenv.core.env_server.records import Position, Record
from openenv.core.env_server.reset_parameters import unknown_names, unknown_names_error
from openenv.core.env_server.session_ids import public_name
from openenv.core.env_server.snapshots import Snapshot
from openenv.core.env_server.tasks import TaskMethod, TaskQuestion
from openenv.core.env_server.types import SessionInfo
from openenv.core.exceptions import (
    RequestError,
    ResetNeededError,
    SessionNotFoundError,
    TaskNotFoundError,
)
from openenv.core.reset_check import listed_task, unknown_names_text, unknown_split_text

if TYPE_CHECKING:
    from openenv.core.env_server.toolbox import Toolbox

logger = logging.getLogger(__name__)

_NONE: Mapping[str, Any] = {}
# How long an environment may take to say what it is, where the server sets no limit to a reset.
_METADATA_TIMEOUT_S = 30.0


class Phase(Enum):
    """Where a session's episode stands."""

    NEW = "new"
    PLAYING = "playing"
    DONE = "done"


_NEEDED_RESETS = {
    Phase.NEW: "Expected a reset first: no episode has been started in this session.",
    Phase.DONE: "Expected a reset: the episode has ended, so there is nothing to step.",
}


class Session:
    """One environment and the episode that it plays.

    Requests that come at the same time wait for each other, in the order in which they came.

    Attributes:
        transport: How its client speaks to it.
        client: Who holds it, as in ``clients.client_of``; ``None`` for nobody.
        episodes: Resets.
        step_count: Steps since the last reset.
        reward: Rewards since the last reset, added up.
        phase: Where its episode stands.
        closed: Whether the session has ended.
        ending: Why it ends, as it is counted when it does.
        on_end: Called once, when it gives its place back.
        away: Whether it waits for its client, whose socket has gone.
        toolbox: What lists and calls its tools.
        attached: Whether a socket holds the session, which was opened elsewhere.
        ends_detached: Whether it ends as soon as that socket goes.
        enforces_order: Whether a step before the first reset, or after the end of an episode, is refused.
        yielding: Whether it may be closed as soon as another session needs its place.
        ignores_unknown: Whether a reset leaves out parameters that the environment does not take, instead of refusing
            them: clients of the public package count on it.
        idle_timeout_s: Time without a request after which it is closed; ``None`` for never.
        debug: Whether its client is told where the environment raised.
        record: Where what it is asked is taken down; ``None`` on a wire that can't take it up again.
    """

    def __init__(
        self, runner: Runner | ProcessRunner, types: EnvironmentTypes, limits: Limits, metrics: Metrics
    ) -> None:
        self._runner = runner
        self.id = str(uuid4())
        self.transport = Transport.V1
        self.client: str | None = None
        self.episodes = 0
        self.step_count = 0
        self.reward = 0.0
        self.phase = Phase.NEW
        self.closed = False
        self.ending = Ending.CLOSED
        self.on_end: Callable[[], None] | None = None
        self.away = False
        self.toolbox: Toolbox
        self.attached = False
        self.ends_detached = False
        self.enforces_order = runner.requires_reset
        self.yielding = False
        self.ignores_unknown = False
        self.debug = False
        self.record: Record | None = None
        self.idle_timeout_s = limits.idle_timeout_s
        self.created_at = time.time()
        self.last_activity = self._opened = time.monotonic()
        self._is_inline = runner.inline
        self._inline_runner = cast("Runner", runner)  # called only where ``at_once`` holds
        self._action_class = types.action
        self._takes_tool_actions = runner.offers_tools or takes_tool_actions(types.action)
        self._limits = limits
        self._step_options = _NONE if limits.step_timeout_s is None else {"timeout_s": limits.step_timeout_s}
        self._metrics = metrics
        self._timed_steps = INLINE_STEPS_TIMED if runner.inline else 1
        self._earlier_steps = 0
        self._splits: list[str] | None = None  # until they are asked for
        self._said_unknown = False
        self._turn = asyncio.Lock()

    @property
    def name(self) -> str:
        """What the session is called where others than its client read it: as much of its id as gives nothing away."""
        return public_name(self.id)

    def take_id(self, session_id: str) -> None:
        """Go by another id, in the log too."""
        self.id = session_id
        self._runner.session_name = self.name

    @property
    def total_steps(self) -> int:
        """Steps of all its episodes."""
        return self._earlier_steps + self.step_count

    @property
    def age_s(self) -> float:
        """Seconds since it was opened, whatever the machine's clock was set to meanwhile."""
        return time.monotonic() - self._opened

    @property
    def recoverable(self) -> bool | None:
        """Whether it could be rebuilt if the server's process ended now; ``None`` where none of its kind can."""
        return None if self.record is None else self.record.recoverable

    @property
    def busy(self) -> bool:
        """Whether a request is being answered that takes a while."""
        return self._turn.locked()

    @property
    def offers_tools(self) -> bool:
        """Whether a step takes the actions that list and call tools."""
        return self._takes_tool_actions

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of the tools of the environment's class; it may have others for a task."""
        return self._runner.tool_names

    @property
    def supports_others(self) -> bool:
        """Whether the environment shares nothing with those of other sessions."""
        return self._runner.supports_concurrent_sessions

    @property
    def idle_s(self) -> float:
        """Seconds since the last request; 0 while one is being answered or a socket holds the session.

        Also 0 while it waits for its client, for which there is the resume window.
        """
        return 0.0 if self.attached or self.away or self._turn.locked() else time.monotonic() - self.last_activity

    async def reset(self, arguments: Mapping[str, Any]) -> Outcome:
        """Start an episode.

        Args:
            arguments: Keyword arguments for the environment's ``reset``. ``seed`` and ``episode_id`` may always be
                there, and with the ``split`` and ``index`` of a listed task all its other fields.

        Raises:
            InvalidRequestError: It does not take one of them, not with this value, or there is no such split.
            RequestError: The environment raised, took too long or returned something else than an observation.
        """
        async with self._turn:
            self._touch()
            self._check_names(arguments)
            if "split" in arguments:
                await self._check_split(arguments["split"])
            return self._began(await self._runner.reset(arguments, self._limits.reset_timeout_s))

    async def begin(self, arguments: Mapping[str, Any]) -> Outcome | None:
        """Start the first episode, for an agent, which can't reset; ``None`` where one has been started already.

        Args:
            arguments: As for ``reset``.

        Raises:
            RequestError: As ``reset`` does.
        """
        async with self._turn:
            self._touch()
            if self.phase is not Phase.NEW:
                return None
            return self._began(await self._runner.reset(arguments, self._limits.reset_timeout_s))

    def unknown_parameters(self, arguments: Mapping[str, Any]) -> str | None:
        """Say which of the arguments of a reset the environment does not take; ``None`` where it takes all.

        Args:
            arguments: As for ``reset``.
        """
        names = self._runner.reset_names
        unknown = unknown_names(names, arguments)
        return unknown_names_text(unknown, names or ()) if unknown and not listed_task(arguments) else None

    def unknown_options(self, options: Mapping[str, Any]) -> str | None:
        """Say which of the options of a step the environment does not take; ``None`` where it takes all.

        Args:
            options: As for ``step``.
        """
        names = self._runner.step_names
        unknown = [] if names is None else [name for name in options if name not in names]
        return unknown_names_text(unknown, names or (), "step") if unknown else None

    def reset_now(self, arguments: Mapping[str, Any]) -> Outcome | Awaitable[Outcome]:
        """Start an episode at once; only where ``at_once`` holds. See ``step_now``."""
        if "split" in arguments:  # whose check may have to wait for the environment
            return self.reset(arguments)
        self._touch()
        self._check_names(arguments)
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
            return await self._perform(self._checked_action(fields), options, timeout_s)

    async def perform(
        self, action: BaseModel, timeout_s: float | None = None, on_progress: ProgressListener | None = None
    ) -> Outcome:
        """Do one action that has been validated already; otherwise as ``step``.

        Args:
            action: The action.
            timeout_s: Seconds that the caller grants, if less than the server does.
            on_progress: Told how far it is, where the environment says so.
        """
        async with self._turn:
            self._touch()
            self._check_order(action)
            return await self._perform(action, None, timeout_s, on_progress)

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
        action = self._checked_action(fields)
        if self._takes_tool_actions and isinstance(action, ListToolsAction):
            return self._listed_later(action)
        result = self._inline_runner.step_now(action, self._step_options)
        return self._stepped(result) if isinstance(result, FINAL) else self._finished_step(result)

    @property
    def at_once(self) -> bool:
        """Whether ``reset_now`` and ``step_now`` may be called now: the environment never blocks, and nobody waits."""
        return self._is_inline and not self._turn.locked()

    async def state(self, timeout_s: float | None = None) -> Any:
        """Read the environment's state, within the time that a step may take; this is allowed at any time.

        Args:
            timeout_s: Seconds that it may take where the server sets no limit to a step.

        Raises:
            RequestError: The environment raised or took too long.
        """
        async with self._turn:
            self._touch()
            return await self._runner.state(self._limits.step_timeout_s or timeout_s)

    async def render(self) -> Picture | WrittenJson | None:
        """Have the environment show where it stands, within the time that a step may take.

        Raises:
            RequestError: It raised, took too long or returned what is no picture.
        """
        async with self._turn:
            self._touch()
            return await self._runner.render(self._limits.step_timeout_s)

    async def metadata(self) -> Any:
        """Ask the environment what it is, within the time that a reset may take.

        Raises:
            RequestError: It raised or took too long.
        """
        async with self._turn:
            return await self._runner.metadata(self._limits.reset_timeout_s or _METADATA_TIMEOUT_S)

    async def tasks(self, method: TaskMethod, *arguments: Any) -> Any:
        """Ask the environment about its tasks, within the time that a reset may take.

        Args:
            method: The method of ``TaskProvider`` that answers.
            *arguments: What it is called with.

        Returns:
            The answer, as JSON has it.

        Raises:
            TasksUnsupportedError: The environment does not answer such questions.
            TaskNotFoundError: It has no such task.
            RequestError: It raised, took too long or returned what can't be sent.
        """
        async with self._turn:
            answer = await self._runner.tasks(TaskQuestion(method, arguments), self._limits.reset_timeout_s)
        return from_json(answer.text)

    def keep(self) -> None:
        """Learn that its client is there, although it asks for nothing."""
        self.last_activity = time.monotonic()

    def take_up(self) -> None:
        """Learn that its client is back."""
        self.away = self.yielding = False
        self.last_activity = time.monotonic()

    @property
    def can_snapshot(self) -> bool:
        """Whether the environment has ``snapshot`` and ``restore``."""
        return self._runner.can_snapshot

    @property
    def position(self) -> Position:
        """Where the episode stands; may be set to that of the session that this one continues."""
        return Position(self.phase.value, self.episodes, self.step_count, self._earlier_steps, self.reward)

    @position.setter
    def position(self, position: Position) -> None:
        self.phase = Phase(position.phase)
        self.episodes, self.step_count, self._earlier_steps = position[1:4]
        self.reward = position.reward

    async def snapshot(self) -> tuple[Snapshot, Position]:
        """Take a snapshot of the environment, within the time that a step may take; only with ``can_snapshot``.

        Raises:
            EnvironmentProcessEndedError: The process that it ran in has ended; or ``ResetNeededError``.
            RequestError: The environment raised, took too long or returned what can't be kept.
        """
        async with self._turn:
            return await self._runner.snapshot(self._limits.step_timeout_s), self.position

    async def restore(self, snapshot: Snapshot, position: Position) -> None:
        """Have a new environment take up a snapshot, as ``snapshot`` takes it.

        Raises:
            RequestError: The environment raised or took too long.
        """
        async with self._turn:
            await self._runner.restore(snapshot, self._limits.reset_timeout_s)
            self.position = position

    async def copy_environment(self, place: Place) -> Runner:
        """Copy the environment, within the time that a reset may take, to live in another place.

        Raises:
            RequestError: It can't be copied.
        """
        async with self._turn:
            return await self._runner.copy(place, self._limits.reset_timeout_s)

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

    def _log_wrong(self, operation: str, error: RequestError) -> None:
        """Have the log say what is wrong with what the environment returned."""
        name = self._runner.environment_name
        logger.error("%s.%s: %s", name, operation, error.message, extra={"session": self.name})

    def _check_names(self, arguments: Mapping[str, Any]) -> None:
        """Refuse parameters that ``reset`` does not take, or have the log say once that they are left out.

        Raises:
            InvalidRequestError: There is one.
        """
        names = self._runner.reset_names
        unknown = unknown_names(names, arguments)
        if not unknown or listed_task(arguments):
            return
        error = unknown_names_error(unknown, names or ())
        if not self.ignores_unknown:
            raise error
        if not self._said_unknown:
            self._said_unknown = True
            logger.warning(
                "%s: %s It was left out.", self._runner.environment_name, error.message, extra={"session": self.name}
            )

    async def _check_split(self, split: Any) -> None:
        """Refuse a split that the environment does not list, where it lists any.

        Raises:
            TaskNotFoundError: It is none.
        """
        if self._splits is None:
            self._splits = await self._listed_splits()
        if self._splits and isinstance(split, str) and split not in self._splits:
            raise TaskNotFoundError(unknown_split_text(split, self._splits))

    async def _listed_splits(self) -> list[str]:
        """Ask the environment for its splits; those that can't be read are nobody's."""
        try:
            question = TaskQuestion("list_splits")
            listed = from_json((await self._runner.tasks(question, self._limits.reset_timeout_s)).text)
        except RequestError:  # it lists none, or the log has why not
            return []
        splits = listed if isinstance(listed, list) else []
        named = [split.get("name") if isinstance(split, dict) else split for split in splits]
        return [name for name in named if isinstance(name, str)]

    def _touch(self) -> None:
        if self.closed:
            raise SessionNotFoundError(self.id, "This session has ended; it was idle for too long or was closed.")
        self.last_activity = time.monotonic()

    def _began(self, result: Any) -> Outcome:
        try:
            outcome = outcome_of(result)
        except RequestError as error:
            self._log_wrong("reset", error)
            raise
        self._metrics.reset_times.observe(time.monotonic() - self.last_activity)
        self.episodes += 1
        self._earlier_steps += self.step_count
        self.step_count = 0
        self.reward = outcome.reward or 0.0
        self.phase = Phase.DONE if outcome.done else Phase.PLAYING
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
            metrics.step_times.observe(time.monotonic() - self.last_activity)  # since it was the step's turn
        self.step_count += 1
        if outcome.reward:
            self.reward += outcome.reward
        if outcome.done:
            self.phase = Phase.DONE
        return outcome

    async def _finished_reset(self, result: Any) -> Outcome:
        async with self._turn:
            return self._began(await self._inline_runner.finish("reset", result, self._limits.reset_timeout_s))

    async def _finished_step(self, result: Any) -> Outcome:
        async with self._turn:
            return self._stepped(await self._inline_runner.finish("step", result, self._limits.step_timeout_s))

    def _checked_action(self, fields: Mapping[str, Any]) -> BaseModel:
        action = decode_action(fields, self._action_class, self._takes_tool_actions)
        if self.phase is not Phase.PLAYING:
            self._check_order(action)
        return action

    def _check_order(self, action: BaseModel) -> None:
        """Refuse a step that is not its turn; tools may be listed at any time."""
        if self.phase is not Phase.PLAYING and self.enforces_order and not isinstance(action, ListToolsAction):
            raise ResetNeededError(_NEEDED_RESETS[self.phase])

    async def _perform(
        self,
        action: BaseModel,
        options: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        on_progress: ProgressListener | None = None,
    ) -> Outcome:
        limit_s = self._limits.step_timeout_s
        if timeout_s is not None or limit_s is not None:
            timeout_s = min(time_s for time_s in (timeout_s, limit_s) if time_s is not None)
            options = {**(options or {}), "timeout_s": timeout_s}
        if isinstance(action, ListToolsAction):  # which is no step
            return outcome_of(await self._runner.step(action, options or _NONE, timeout_s))
        return self._stepped(await self._runner.step(action, options or _NONE, timeout_s, on_progress))

    async def _listed_later(self, action: ListToolsAction) -> Outcome:
        async with self._turn:
            return await self._perform(action)
