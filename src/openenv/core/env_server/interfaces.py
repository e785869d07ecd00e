"""Interfaces for authors of environments: ``Environment``, ``Transform``, ``TaskProvider`` and others."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable, iscoroutine
from typing import Any, ClassVar, Generic, Protocol, cast

from typing_extensions import TypedDict  # typing's own can't be a pydantic field before Python 3.12

from openenv.core.background_loop import background_loop, in_event_loop
from openenv.core.env_server.tools import equip, required_without_tools
from openenv.core.environment_types import ActT, ObsT, StateT, TypedEnvironment
from openenv.core.wire.types import Action, EnvironmentMetadata, Observation, State

__all__ = [
    "Action",
    "Environment",
    "EnvironmentMetadata",
    "Message",
    "ModelTokenizer",
    "Observation",
    "State",
    "TaskProvider",
    "Transform",
]


class Transform(ABC, Generic[ObsT]):
    """Change that is applied to every observation before it leaves the environment."""

    @abstractmethod
    def __call__(self, observation: ObsT) -> ObsT:
        """Return the observation to send in place of ``observation``."""


class Environment(ABC, TypedEnvironment[ActT, ObsT, StateT]):
    """Environment with episodes: ``reset`` starts one, ``step`` executes an action, ``state`` describes it.

    Subclass it with the types of the action, the observation and the state, which declare them::

        class CounterEnvironment(Environment[Add, Total, State]):
            def reset(self, seed: int | None = None) -> Total: ...
            def step(self, action: Add) -> Total: ...

            @property
            def state(self) -> State: ...

    ``reset`` may take any subset of ``seed``, ``episode_id`` and further task parameters; it is passed only what its
    signature accepts. ``step`` takes the action and, optionally, ``timeout_s``. Both return one of

    - an observation, which carries its own ``reward`` and ``done`` if it has such fields;
    - ``(observation, info)`` from ``reset``;
    - ``(observation, reward, done)`` from ``step``, or with ``info`` as a fourth value;
    - ``(observation, reward, terminated, truncated, info)`` from ``step``, as Gymnasium has it. ``done`` is then either
      of the two flags, and ``info`` with the two flags travels as ``metadata``.

    An environment whose calls await something declares ``reset`` and ``step`` as ``async``, or overrides
    ``reset_async`` and ``step_async`` beside the plain methods; the server then awaits these on its event loop.

    Args:
        transform: Applied by ``_apply_transform``, for the author to call.
        rubric: Scores an action and its observation; applied by ``_apply_rubric``, for the author to call.
    """

    SUPPORTS_CONCURRENT_SESSIONS: ClassVar[bool] = False
    """Whether instances are independent, so that a server may hold many at once."""

    DEFAULT_MAX_SESSIONS: ClassVar[int | None] = None
    """Sessions at once of a server for which neither its program nor ``MAX_CONCURRENT_ENVS`` sets another number."""

    REQUIRES_SINGLE_THREAD_EXECUTOR: ClassVar[bool] = False
    """Whether all instances in a server must run in the same thread."""

    BLOCKING: ClassVar[bool] = True
    """Whether calls may take longer than some microseconds. ``False`` runs them on the event loop, which is fastest."""

    REQUIRES_RESET: ClassVar[bool] = False
    """Whether a session answers a step before the first reset, or after ``done``, with an error. By default the step
    reaches the environment, as environments written for the public package expect; a new environment sets ``True``."""

    OFFERS_TOOLS: ClassVar[bool] = False
    """Whether ``step`` takes ``ListToolsAction`` and ``CallToolAction``; a class with tools has it set."""

    SHOWS_STATE: ClassVar[bool] = False
    """Whether agents may read ``state`` over MCP: only for a state that reveals no more than the observations."""

    GRADED_FROM: ClassVar[tuple[str, ...]] = ()
    """Artifacts from which alone an episode is graded, by a process that has run nothing of the agent: fields of
    actions, such as ``code``, and patterns of files of the work folder, such as ``*.csv``. Empty where nothing is
    promised; ``openenv validate`` verifies the promise."""

    # Authors often omit super().__init__(), so both have a default on the class.
    transform: Transform[Any] | None = None
    rubric: Callable[..., Any] | None = None
    # Receiver of report_progress, set from outside for the time of a call.
    _progress_listener: Callable[[float, str], object] | None = None

    def __init__(self, transform: Transform[ObsT] | None = None, rubric: Callable[..., Any] | None = None) -> None:
        self.transform = transform
        self.rubric = rubric

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Prepare a class with tools.

        Raises:
            ConfigurationError: A tool has a name that it can't have, or parameters that can't be passed by name.
        """
        super().__init_subclass__(**kwargs)
        equip(cls, Environment)

    @abstractmethod
    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start a new episode.

        Args:
            *args: ``seed: int | None`` makes the episode repeatable; ``episode_id: str | None`` names it.
            **kwargs: The task's parameters.

        Returns:
            The first observation, or ``(observation, info)``.
        """

    @required_without_tools
    def step(self, action: ActT, *args: Any, **kwargs: Any) -> Any:
        """Execute an action.

        Args:
            action: The action, already validated against its type.
            *args: ``timeout_s: float | None``, the caller's time limit in seconds.
            **kwargs: Further values that the caller sends over HTTP.

        Returns:
            One of the forms that the class documents.

        Raises:
            IllegalActionError: The rules refuse the action. The episode continues as if the action had not been sent.
        """

    @property
    @required_without_tools
    def state(self) -> StateT:
        """State of the episode."""
        raise NotImplementedError

    async def reset_async(self, *args: Any, **kwargs: Any) -> Any:
        """Start a new episode from async code; override it if a reset awaits something."""
        result = self.reset(*args, **kwargs)
        return await result if isawaitable(result) else result

    async def step_async(self, action: ActT, *args: Any, **kwargs: Any) -> Any:
        """Execute an action from async code; override it if a step awaits something."""
        result = self.step(action, *args, **kwargs)
        return await result if isawaitable(result) else result

    def task_tools(self) -> Iterable[Callable[..., Any]]:
        """Return further tools, for the present task alone: functions, described by their signatures and docstrings.

        Also called before the first reset, when there is no task; return nothing then.
        """
        return ()

    def report_progress(self, fraction: float, message: str = "") -> None:
        """Report the progress of a tool to its caller; does nothing for a caller that did not request reports.

        Args:
            fraction: Part of the work that is done, clipped to 0 to 1.
            message: Description of the current work.
        """
        listener = self._progress_listener  # read once: another thread may remove it meanwhile
        if listener is not None:
            listener(min(max(0.0, float(fraction)), 1.0), str(message))

    def close(self) -> None:  # most environments have nothing to release
        """Release the instance's resources. Called once, when its session ends."""

    def snapshot(self) -> Any:
        """Return the complete state of the instance, for ``restore``; optional, and may be ``async``.

        With both methods, a session can be forked and survives the server's process, even if the environment is not
        deterministic for a seed; without them, it is copied or replayed::

            def snapshot(self) -> Any:
                return {"board": self._board, "random": self._random.getstate()}

            def restore(self, snapshot: Any) -> None:
                self._board = snapshot["board"]
                version, numbers, gauss = snapshot["random"]
                self._random.setstate((version, tuple(numbers), gauss))

        Returns:
            Bytes, or whatever JSON can hold: ``None``, booleans, numbers, strings, lists, and dicts with strings for
            keys. ``restore`` gets the value after a round trip through JSON, as in the example: tuples become lists,
            and keys of dicts become strings.
        """
        raise NotImplementedError(f"{type(self).__name__} has no snapshot()")

    def restore(self, snapshot: Any) -> None:
        """Restore a snapshot in an instance that was just made and never reset; may be ``async``."""
        raise NotImplementedError(f"{type(self).__name__} has no restore()")

    def render(self) -> Any:
        """Return a picture of the current state for people; ``None`` for no picture.

        Returns:
            Text, where colours are those of a terminal; HTML; SVG; the bytes of a PNG, JPEG, GIF or WebP image; or an
            array of bytes with the shape ``(height, width)``, ``(height, width, 3)`` or ``(height, width, 4)``.
        """
        return None

    def get_metadata(self) -> EnvironmentMetadata:
        """Return a description of the environment; by default only the class's name."""
        name = type(self).__name__
        return EnvironmentMetadata(name=name, description=f"{name} environment", version="1.0.0")

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """Return HTML that shows an observation in the page at ``/web``; ``None`` leaves that to the page.

        A ``@staticmethod`` shows observations of sessions that are followed, and of episodes on record, too.

        Args:
            observation: The observation as JSON, with ``reward`` and ``done``.

        Returns:
            HTML with its own styles, for a frame in which no script runs and nothing is loaded; pictures are ``data:``
            URLs.
        """
        return None

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Return ``(label, action fields)`` for each button that the page offers beside its form.

        Args:
            observation: As for ``render_web``.
        """
        return []

    def _apply_transform(self, observation: ObsT) -> ObsT:
        return observation if self.transform is None else cast("ObsT", self.transform(observation))

    def _apply_rubric(self, action: Any, observation: Any) -> float:
        """Return the rubric's score of what it is given, most often an action and its observation; 0 without a rubric.

        The score of an ``async`` rubric is waited for, in a thread.
        """
        if self.rubric is None:
            return 0.0
        score = self.rubric(action, observation)
        return score if type(score) is float else float(_waited_for(score))

    async def _apply_rubric_async(self, action: Any, observation: Any) -> float:
        """Return the rubric's score, from async code."""
        if self.rubric is None:
            return 0.0
        score = self.rubric(action, observation)
        return float(await score if isawaitable(score) else score)

    def _reset_rubric(self) -> None:
        """Begin an episode of the rubric; to be called in ``reset``."""
        reset = getattr(self.rubric, "reset", None)
        if reset is not None:
            _waited_for(reset())

    async def _reset_rubric_async(self) -> None:
        """Begin an episode of the rubric, from async code: with its ``reset_async`` where it has that."""
        reset: Callable[[], Awaitable[None] | None] | None = getattr(self.rubric, "reset_async", None)
        reset = reset or getattr(self.rubric, "reset", None)
        if reset is not None:
            result = reset()
            if isawaitable(result):
                await result


def _waited_for(value: Any) -> Any:
    """Return a value, or the result of an awaitable, which runs on the process's background loop.

    Raises:
        TypeError: The value is an awaitable, and this thread runs an event loop, which must not block.
    """
    if isinstance(value, float) or not isawaitable(value):
        return value
    if not in_event_loop():
        return background_loop().run(_result(value))
    if iscoroutine(value):
        value.close()
    raise TypeError(
        "The rubric is async, and this method runs on the event loop: await _apply_rubric_async and "
        "_reset_rubric_async in an async step and reset, or leave out BLOCKING = False."
    )


async def _result(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


class TaskProvider(Protocol):
    """Optional methods with which an environment lists its tasks. Each may also be ``async``."""

    def list_splits(self) -> list[Any]:
        """Return the names of the splits, or a dict or model with ``name`` and ``type`` for each."""
        ...

    def list_tasks(self, split: str) -> list[Any]:
        """Return every task of a split."""
        ...

    def num_tasks(self, split: str) -> int:
        """Return the number of tasks in a split."""
        ...

    def get_task(self, split: str, index: int) -> Any:
        """Return one task. Raises ``IndexError`` for an unknown index."""
        ...

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        """Return the tasks from ``start`` up to ``stop``."""
        ...


class Message(TypedDict):
    """Message of a conversation."""

    role: str
    content: str


class ModelTokenizer(Protocol):
    """Tokenizer of a language model, with the methods that OpenEnv needs."""

    def apply_chat_template(
        self, conversation: list[Message], tokenize: bool = True, return_tensors: str | None = None, **kwargs: Any
    ) -> Any:
        """Return a conversation as text or token ids."""
        ...

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """Return token ids as text."""
        ...
