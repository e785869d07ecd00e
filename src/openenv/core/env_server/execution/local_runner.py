"""Runner of an environment in this process.

Plain methods run in the environment's executor; ``async`` methods are awaited on the event loop.
"""

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any

from pydantic import BaseModel

from openenv.core.env_server.execution.executors import Executor, InlineExecutor, Raised, discard
from openenv.core.env_server.execution.failures import failure_details
from openenv.core.env_server.execution.introspection import (
    EnvironmentFactory,
    EnvironmentMethod,
    environment_method,
    has_snapshots,
    looks_like_environment,
)
from openenv.core.env_server.execution.progress import ProgressListener, current_progress_listener
from openenv.core.env_server.execution.reset_parameters import reset_parameters
from openenv.core.env_server.execution.rewards import ScoredStep, restore_rubric, rubric_states
from openenv.core.env_server.execution.runner import Started, within
from openenv.core.env_server.execution.snapshots import Snapshot
from openenv.core.env_server.execution.task_questions import TaskQuestion, ask
from openenv.core.env_server.tools import class_tools, has_own_state
from openenv.core.exceptions import (
    EnvironmentFactoryError,
    EnvironmentFailedError,
    EnvironmentTimeoutError,
    RequestError,
)
from openenv.core.rubrics.base import Rubric
from openenv.core.rubrics.judge import forget_usage
from openenv.core.wire.redaction import message_of, origin_of
from openenv.core.wire.results import (
    ImageFile,
    Picture,
    WebView,
    WrittenJson,
    picture_of,
    rendered_picture,
    web_view_of,
)

logger = logging.getLogger(__name__)

# Types that most methods return, which are never awaitable.
_FINAL = (BaseModel, tuple)


class LocalRunner:
    """``Runner`` of an environment in this process.

    Args:
        environment: The instance.
        executor: Where the environment's plain methods run.
        session_name: Public name of the session, for the log; ``None`` without a session.
        keep: Whether ``close`` leaves the instance alone, because other sessions use it too.
    """

    def __init__(
        self, environment: Any, executor: Executor, session_name: str | None = None, *, keep: bool = False
    ) -> None:
        self.environment = environment
        self._session_name = session_name
        self._executor = executor
        self._keep = keep
        self._turn = asyncio.Lock()  # held by each call that is awaited, so that ``close`` waits for it
        self._scored_step: ScoredStep | None = None
        environment_class: type = type(environment)
        self._reset = environment_method(environment_class, "reset")
        self._step = environment_method(environment_class, "step")
        self._reset_parameters = reset_parameters(environment_class)
        self.reset_names = self._reset_parameters.names
        self.step_names = None if self._step.arguments is None else tuple(sorted(self._step.arguments))
        self.inline = isinstance(executor, InlineExecutor) and not (self._reset.awaited or self._step.awaited)
        self._plain_reset = getattr(environment, self._reset.name)
        self._plain_step = getattr(environment, self._step.name)
        self.can_snapshot = has_snapshots(environment_class)
        self.has_state = has_own_state(environment_class)
        self.offers_tools = bool(getattr(environment_class, "OFFERS_TOOLS", False))
        self.tool_names = frozenset(class_tools(environment_class))

    @property
    def environment_name(self) -> str:
        """Name of the environment's class."""
        return type(self.environment).__name__

    @property
    def requires_reset(self) -> bool:
        """Whether a step before the first reset, or after the end of an episode, is an error."""
        return bool(getattr(type(self.environment), "REQUIRES_RESET", False))

    @property
    def supports_concurrent_sessions(self) -> bool:
        """Whether the environment shares no state with other instances of its class."""
        return bool(getattr(type(self.environment), "SUPPORTS_CONCURRENT_SESSIONS", False))

    @property
    def running_component(self) -> str | None:
        """Path of the component of the reward that the step under way waits for; ``None`` if there is none."""
        return None if self._scored_step is None else self._scored_step.running()

    @classmethod
    async def make(
        cls, factory: EnvironmentFactory, executor: Executor, session_name: str | None = None
    ) -> "LocalRunner":
        """Create an environment in its executor.

        Args:
            factory: Creates the environment.
            executor: Where the environment's plain methods run.
            session_name: Public name of the session, for the log.

        Raises:
            EnvironmentFactoryError: The factory raised, or returned no environment.
        """
        made: list[Any] = []
        try:
            await _answered(None, "factory", None, executor.run, _make_into, made, factory)
        except RequestError as error:
            executor.close()
            raise EnvironmentFactoryError(factory.name, origin=error.origin or error.message) from error
        except asyncio.CancelledError:  # the thread may still create the environment, which is then to be closed
            executor.run(_close_made, made, factory)
            executor.close()
            raise
        if not looks_like_environment(made[0]):
            executor.close()
            raise EnvironmentFactoryError(
                factory.name,
                f"Environment factory '{factory.name}' failed to create instance: expected an object with reset, step "
                f"and state, got {type(made[0]).__name__}.",
            )
        return cls(made[0], executor, session_name, keep=factory.shared is not None)

    def reset(self, arguments: Mapping[str, Any], timeout_s: float | None = None) -> Started[Any]:
        """See ``Runner``."""
        checked = self._reset_parameters.checked(arguments)
        if isinstance(rubric := getattr(self.environment, "rubric", None), Rubric):
            forget_usage(rubric)
        if not self.inline and self._reset_parameters.tasks is not None:
            return self._answer("reset", timeout_s, self._executor.run, self._reset_with_task, checked)
        if not self.inline:
            return self._answer("reset", timeout_s, self._call, self._reset, (), checked)
        try:
            result = self._reset_with_task(checked)
        except BaseException as error:
            raise _failure(error, "reset", self._session_name) from error
        return self._finished("reset", result, timeout_s)

    def _reset_with_task(self, arguments: Mapping[str, Any]) -> Any:
        """Call ``reset`` with the columns of the chosen task, if the environment has a task set."""
        values = self._reset_parameters.with_task(arguments)
        return self._plain_reset(**_accepted(self._reset, values))

    def step(self, action: Any, options: Mapping[str, Any], timeout_s: float | None = None) -> Started[Any]:
        """See ``Runner``."""
        if getattr(self.environment, "rubric", None) is None:
            return self._start_step(action, options, timeout_s)
        return self._step_and_score(action, options, timeout_s)

    def _step_and_score(self, action: Any, options: Mapping[str, Any], timeout_s: float | None) -> Started[Any]:
        """Call ``step`` of an environment with a rubric, and add the components of the reward to the outcome."""
        rubric = self.environment.rubric
        if not isinstance(rubric, Rubric):  # a function: it has no components
            return self._start_step(action, options, timeout_s)
        scored = self._scored_step = ScoredStep(rubric)
        try:
            result = self._start_step(action, options, timeout_s)
        except RequestError as error:
            raise scored.failure(error) from error.__cause__
        return _scored(scored, result) if isinstance(result, CoroutineType) else scored.outcome(result)

    def _start_step(self, action: Any, options: Mapping[str, Any], timeout_s: float | None) -> Started[Any]:
        listener = current_progress_listener()
        if listener is not None:
            return self._step_and_report(action, options, timeout_s, listener)
        if not self.inline:
            return self._answer("step", timeout_s, self._call, self._step, (action,), options)
        try:
            result = self._plain_step(action, **_accepted(self._step, options)) if options else self._plain_step(action)
        except BaseException as error:
            raise _failure(error, "step", self._session_name) from error
        return result if isinstance(result, _FINAL) else self._finished("step", result, timeout_s)

    async def state(self, timeout_s: float | None = None) -> Any:
        """Return the state, which may be a property or a method."""
        return await self._answer("state", timeout_s, self._executor.run, _read_state, self.environment)

    async def render(self, timeout_s: float | None = None) -> Picture | ImageFile | None:
        """Return a picture of the episode's current state; ``None`` where the environment has none."""
        run = self._executor.run
        picture: Picture | ImageFile | None = await self._answer("render", timeout_s, run, _draw, self.environment)
        return picture

    async def render_web(self, observation: Mapping[str, Any], timeout_s: float | None = None) -> WebView:
        """Return what the environment shows of an observation in a page."""
        run = self._executor.run
        web = dict(observation)
        view: WebView = await self._answer("render_web", timeout_s, run, _draw_web, self.environment, web)
        return view

    async def metadata(self, timeout_s: float | None = None) -> Any:
        """Return the environment's description of itself."""
        return await self._answer("get_metadata", timeout_s, self._executor.run, _read_metadata, self.environment)

    async def tasks(self, question: TaskQuestion, timeout_s: float | None = None) -> WrittenJson:
        """Answer a question about the environment's tasks.

        Raises:
            TasksUnsupportedError: The environment does not answer such questions.
            TaskNotFoundError: There is no such task.
        """
        run = self._executor.run
        return WrittenJson(await self._answer(question.method, timeout_s, run, ask, self.environment, question))

    async def snapshot(self, timeout_s: float | None = None) -> Snapshot:
        """Return a snapshot; only where ``can_snapshot`` holds."""
        take = _read_snapshot if isinstance(self._executor, InlineExecutor) else _take_snapshot
        name, run = self._session_name, self._executor.run
        async with self._turn:
            copied = await _answered(name, "snapshot", timeout_s, run, take, self.environment)
            snapshot = copied if isinstance(copied, Snapshot) else await Snapshot.of_in_turns(copied)
        kept = rubric_states(self.environment)
        return snapshot.with_rubric(kept) if kept else snapshot

    async def restore(self, snapshot: Snapshot, timeout_s: float | None = None) -> None:
        """Restore a snapshot; only where ``can_snapshot`` holds."""
        run = self._executor.run
        await self._answer("restore", timeout_s, run, _restore_snapshot, self.environment, snapshot)

    async def copy(self, executor: Executor, session_name: str | None, timeout_s: float | None = None) -> "LocalRunner":
        """Copy the environment with ``copy.deepcopy``, into another executor.

        The copy is made in the environment's executor or, if that is the event loop, in a thread: copying a large state
        is slow even where calls are fast. No other call of the environment runs meanwhile.

        Raises:
            EnvironmentFailedError: The environment can't be copied.
        """
        run = _in_thread if isinstance(self._executor, InlineExecutor) else self._executor.run
        copies: list[Any] = []
        try:
            await self._answer("deepcopy", timeout_s, run, _copy_into, copies, self.environment)
            if isinstance(copies[0], Exception):
                raise EnvironmentFailedError(f"copy.deepcopy raised {_described(copies[0])}") from copies[0]
        except BaseException:
            executor.close()
            raise
        return type(self)(copies[0], executor, session_name)

    async def close(self) -> None:
        """Close the environment and its executor when the call under way, if any, has ended.

        An exception of the environment's ``close`` is only logged.
        """
        if self._keep:
            return
        try:
            await self._answer("close", None, self._executor.run, self.environment.close)
        except RequestError:
            logger.debug("the environment did not close cleanly")  # _failure has logged the cause
        finally:
            self._executor.close()

    def _finished(self, operation: str, result: Any, timeout_s: float | None) -> Started[Any]:
        """Return a plain method's result, or a coroutine where the result is awaitable."""
        if isinstance(result, _FINAL) or not isawaitable(result):
            return result
        return self._answer(operation, timeout_s, _resolved, result)

    async def _answer(
        self, operation: str, timeout_s: float | None, start: Callable[..., Awaitable[Any]], /, *args: Any
    ) -> Any:
        """Call the environment's code, and await its answer, when the call before has ended."""
        async with self._turn:
            return await _answered(self._session_name, operation, timeout_s, start, *args)

    async def _step_and_report(
        self, action: Any, options: Mapping[str, Any], timeout_s: float | None, listener: ProgressListener
    ) -> Any:
        """Call ``step`` of an environment that reports its progress to a listener."""
        try:
            return await self._answer("step", timeout_s, self._call, self._step, (action,), options, listener)
        finally:
            if getattr(self.environment, "_progress_listener", None) is listener:
                self.environment._progress_listener = None

    def _call(
        self,
        method: EnvironmentMethod,
        args: tuple[Any, ...],
        values: Mapping[str, Any],
        listener: ProgressListener | None = None,
    ) -> Awaitable[Any]:
        values = _accepted(method, values)
        function = getattr(self.environment, method.name)
        if listener is not None:
            function = partial(_listened_to, self.environment, listener, function)
        if method.awaited:
            awaited: Awaitable[Any] = function(*args, **values)
            return awaited
        return self._executor.run(function, *args, **values)


async def render_alone(
    renderer_of: Callable[[], Callable[[dict[str, Any]], Any] | None], observation: dict[str, Any], timeout_s: float
) -> WebView:
    """Call a ``render_web`` that needs no instance, in a thread.

    Args:
        renderer_of: Returns it; ``None`` for none. Called in the thread, too.
        observation: The observation as JSON.
        timeout_s: Time limit in seconds.

    Raises:
        RequestError: It raised, returned something else, or took too long.
    """
    view: WebView = await _answered(
        None, "render_web", timeout_s, asyncio.to_thread, _draw_alone, renderer_of, observation
    )
    return view


def _draw_alone(
    renderer_of: Callable[[], Callable[[dict[str, Any]], Any] | None], observation: dict[str, Any]
) -> WebView:
    renderer = renderer_of()
    return web_view_of(None if renderer is None else renderer(observation), None, None)


async def _scored(scored: ScoredStep, result: Awaitable[Any]) -> Any:
    try:
        return scored.outcome(await result)
    except RequestError as error:
        raise scored.failure(error) from error.__cause__


def _accepted(method: EnvironmentMethod, values: Mapping[str, Any]) -> Mapping[str, Any]:
    if not values or method.arguments is None:
        return values
    return {name: value for name, value in values.items() if name in method.arguments}


def _listened_to(
    environment: Any, listener: ProgressListener, function: Callable[..., Any], *args: Any, **values: Any
) -> Any:
    """Call a method with a progress listener, set only now because a cancelled call may have run until here."""
    environment._progress_listener = listener
    return function(*args, **values)


def _make_into(made: list[Any], factory: EnvironmentFactory) -> None:
    made.append(factory.make())


def _close_made(made: list[Any], factory: EnvironmentFactory) -> None:
    if made and factory.shared is None:
        made[0].close()


def _read_metadata(environment: Any) -> Any:
    return environment.get_metadata()


def _draw(environment: Any) -> Picture | ImageFile | None:
    return rendered_picture(environment.render())


def _draw_web(environment: Any, observation: dict[str, Any]) -> WebView:
    """Return HTML and actions; where there is no HTML, the picture. Environments of other base classes lack some."""
    html = _called(environment, "render_web", observation)
    rendered = None if html is not None else _called(environment, "render")
    return web_view_of(html, _called(environment, "web_actions", observation), picture_of(rendered))


def _called(environment: Any, method: str, *args: Any) -> Any:
    function = getattr(environment, method, None)
    return None if function is None else function(*args)


def _read_snapshot(environment: Any) -> Any:
    return environment.snapshot()


def _take_snapshot(environment: Any) -> Any:
    value = environment.snapshot()
    return value if isawaitable(value) else Snapshot.of(value)


def _restore_snapshot(environment: Any, snapshot: Snapshot) -> Any:
    value, kept = snapshot.parts()
    if not kept:
        return environment.restore(value)
    restoring = environment.restore(value)
    if isawaitable(restoring):
        return _restore_rubric_after(restoring, environment, kept)
    return restore_rubric(environment, kept)


async def _restore_rubric_after(restoring: Awaitable[Any], environment: Any, kept: Mapping[str, Any]) -> None:
    await restoring
    restore_rubric(environment, kept)


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.to_thread(function, *args)


def _copy_into(copies: list[Any], environment: Any) -> None:
    """Copy an environment. Many can't be copied, which is not an error for the log."""
    try:
        copies.append(copy.deepcopy(environment))
    except Exception as error:  # noqa: BLE001  # the caller reports every exception
        copies.append(error)


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {message_of(error)}"


def _read_state(environment: Any) -> Any:
    state = environment.state
    return state() if callable(state) else state


async def _answered(
    session_name: str | None,
    operation: str,
    timeout_s: float | None,
    start: Callable[..., Awaitable[Any]],
    /,
    *args: Any,
) -> Any:
    """Start a call of the environment's code and await its result; every exception becomes a ``RequestError``."""
    try:
        if timeout_s is None:
            return await _completed(start, args)
        return await within(operation, timeout_s, _completed(start, args))
    except Raised as parcel:
        raise _failure(parcel.error, operation, session_name) from parcel.error
    except EnvironmentTimeoutError:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_being_cancelled():
            raise
        raise _failure(error, operation, session_name) from error


async def _completed(start: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
    answer = start(*args)
    try:
        result = await answer
    except asyncio.CancelledError:
        discard(answer)
        raise
    return result if isinstance(result, _FINAL) else await _resolved(result)


async def _resolved(result: Any) -> Any:
    """Await the result of a plain method, if that result is awaitable."""
    return await result if isawaitable(result) else result


def _is_being_cancelled() -> bool:
    """Return whether this task is being cancelled; otherwise a ``CancelledError`` is the environment's own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failure(error: BaseException, operation: str, session_name: str | None) -> RequestError:
    if isinstance(error, RequestError):
        return error
    logger.error("%s of an environment raised", operation, exc_info=error, extra={"session": session_name})
    return EnvironmentFailedError(message_of(error), origin=origin_of(error), **failure_details(error))
