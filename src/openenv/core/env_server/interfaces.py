"""What an environment's author writes against."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any, ClassVar, Generic, Protocol, TypedDict, cast

from pydantic import BaseModel
from typing_extensions import TypeVar

from openenv.core.env_server.tools import equip, required_without_tools
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

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

# The defaults are for a class with tools alone, which names no types.
ActT = TypeVar("ActT", bound=BaseModel, default=Action)
ObsT = TypeVar("ObsT", bound=BaseModel, default=Observation)
StateT = TypeVar("StateT", bound=BaseModel, default=State)


class Transform(ABC, Generic[ObsT]):
    """A change applied to every observation before it leaves the environment."""

    @abstractmethod
    def __call__(self, observation: ObsT) -> ObsT:
        """Return the observation to send in place of ``observation``."""


class Environment(ABC, Generic[ActT, ObsT, StateT]):
    """A world with episodes: ``reset`` starts one, ``step`` plays it, ``state`` says where it stands.

    Subclass it with the types of the action, the observation and the state; nothing else declares them::

        class CounterEnvironment(Environment[Add, Total, State]):
            def reset(self, seed: int | None = None) -> Total: ...
            def step(self, action: Add) -> Total: ...

            @property
            def state(self) -> State: ...

    ``reset`` may take any subset of ``seed``, ``episode_id`` and further task parameters; it is passed only what its
    signature accepts. ``step`` takes the action and, if it likes, ``timeout_s``. Both return one of

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
    """Whether instances share nothing, so that a server may hold many of them at once."""

    REQUIRES_SINGLE_THREAD_EXECUTOR: ClassVar[bool] = False
    """Whether every instance in a server must run in one and the same thread."""

    BLOCKING: ClassVar[bool] = True
    """Whether calls may take longer than some microseconds. ``False`` runs them on the event loop, which is fastest."""

    REQUIRES_RESET: ClassVar[bool] = True
    """Whether a session answers a step before the first reset, or after ``done``, with an error."""

    OFFERS_TOOLS: ClassVar[bool] = False
    """Whether ``step`` takes ``ListToolsAction`` and ``CallToolAction``; a class with tools has it set."""

    SHOWS_STATE: ClassVar[bool] = False
    """Whether agents may read ``state`` over MCP: only where it tells no more than the observations do."""

    # Authors often leave out super().__init__(), so both have a value on the class.
    transform: Transform[Any] | None = None
    rubric: Callable[..., Any] | None = None
    # Whom report_progress tells: set from outside, for the time of a call.
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
        """Do one action.

        Args:
            action: The action, already validated against its type.
            *args: ``timeout_s: float | None``, the seconds that the caller grants.
            **kwargs: Further values that the caller sends over HTTP.

        Returns:
            One of the forms that the class lists.

        Raises:
            IllegalActionError: The rules refuse the action. The episode goes on as if it had not been sent.
        """

    @property
    @required_without_tools
    def state(self) -> StateT:
        """Where the episode stands."""
        raise NotImplementedError

    async def reset_async(self, *args: Any, **kwargs: Any) -> Any:
        """Start a new episode from async code; override it where a reset awaits something."""
        result = self.reset(*args, **kwargs)
        return await result if isawaitable(result) else result

    async def step_async(self, action: ActT, *args: Any, **kwargs: Any) -> Any:
        """Do one action from async code; override it where a step awaits something."""
        result = self.step(action, *args, **kwargs)
        return await result if isawaitable(result) else result

    def task_tools(self) -> Iterable[Callable[..., Any]]:
        """Return further tools, for the present task alone: functions, described by their signatures and docstrings.

        Also called before the first reset, when there is no task and so nothing to return.
        """
        return ()

    def report_progress(self, fraction: float, message: str = "") -> None:
        """Tell whoever called a tool how far it is; nothing happens where nobody listens.

        Args:
            fraction: How much is done, from 0 to 1; less or more counts as these.
            message: What is being done.
        """
        listener = self._progress_listener  # which may be taken away meanwhile, where this runs in a thread
        if listener is not None:
            listener(min(max(0.0, float(fraction)), 1.0), str(message))

    def close(self) -> None:  # most environments hold nothing
        """Release what the instance holds. Called once, when its session ends."""

    def snapshot(self) -> Any:
        """Return all that the instance's future depends on, for ``restore``; optional, and may be ``async``.

        With both, a session can be forked and survives the server's process, whether or not the environment does the
        same again from the same seed; without them, it is copied or replayed::

            def snapshot(self) -> Any:
                return {"board": self._board, "random": self._random.getstate()}

            def restore(self, snapshot: Any) -> None:
                self._board = snapshot["board"]
                version, numbers, gauss = snapshot["random"]
                self._random.setstate((version, tuple(numbers), gauss))

        Returns:
            Bytes, or whatever JSON can hold: ``None``, booleans, numbers, strings, lists, and dicts with strings for
            keys. What comes to ``restore`` is what JSON makes of it, as in the example: tuples come as lists, and the
            keys of dicts as strings.
        """
        raise NotImplementedError(f"{type(self).__name__} has no snapshot()")

    def restore(self, snapshot: Any) -> None:
        """Take up what ``snapshot`` returned, in an instance that was just made and never reset; may be ``async``."""
        raise NotImplementedError(f"{type(self).__name__} has no restore()")

    def render(self) -> Any:
        """Show the current position to a person; ``None`` for nothing.

        Returns:
            Text, where colours are those of a terminal; HTML; SVG; the bytes of a PNG, JPEG, GIF or WebP image; or an
            array of bytes with the shape ``(height, width)``, ``(height, width, 3)`` or ``(height, width, 4)``.
        """
        return None

    def get_metadata(self) -> EnvironmentMetadata:
        """Say what the environment is. The default knows no more than the class's name."""
        name = type(self).__name__
        return EnvironmentMetadata(name=name, description=f"{name} environment", version="1.0.0")

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """Return HTML that shows a serialized observation; for a web page to play on, which no server has yet."""
        return None

    def web_actions(self, observation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """Return ``(label, action fields)`` for each button of that page."""
        return []

    def _apply_transform(self, observation: ObsT) -> ObsT:
        return observation if self.transform is None else cast("ObsT", self.transform(observation))

    def _apply_rubric(self, action: ActT, observation: ObsT) -> float:
        return 0.0 if self.rubric is None else float(self.rubric(action, observation))

    async def _apply_rubric_async(self, action: ActT, observation: ObsT) -> float:
        if self.rubric is None:
            return 0.0
        score = self.rubric(action, observation)
        return float(await score if isawaitable(score) else score)

    def _reset_rubric(self) -> None:
        reset = getattr(self.rubric, "reset", None)
        if reset is not None:
            reset()

    async def _reset_rubric_async(self) -> None:
        reset: Callable[[], Awaitable[None]] | None = getattr(self.rubric, "reset_async", None)
        if reset is None:
            self._reset_rubric()
        else:
            await reset()


class TaskProvider(Protocol):
    """The optional methods by which an environment lists its tasks. Each may also be ``async``."""

    def list_splits(self) -> list[Any]:
        """Return the names of the splits, or a dict or model with ``name`` and ``type`` for each."""
        ...

    def list_tasks(self, split: str) -> list[Any]:
        """Return every task of a split."""
        ...

    def num_tasks(self, split: str) -> int:
        """Return how many tasks a split has."""
        ...

    def get_task(self, split: str, index: int) -> Any:
        """Return one task. Raises ``IndexError`` where there is none."""
        ...

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[Any]:
        """Return the tasks from ``start`` up to ``stop``."""
        ...


class Message(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


class ModelTokenizer(Protocol):
    """What OpenEnv needs of a language model's tokenizer."""

    def apply_chat_template(
        self, conversation: list[Message], tokenize: bool = True, return_tensors: str | None = None, **kwargs: Any
    ) -> Any:
        """Turn a conversation into text or token ids."""
        ...

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> str:
        """Turn token ids into text."""
        ...
