"""Sessions as harnesses see them: messages to begin with, tools, and an outcome."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel

from openenv.core.client.results import StepResult
from openenv.core.exceptions import ToolArgumentsError
from openenv.core.harness.records import Message, ToolResult, TraceEntry, VerifyResult
from openenv.core.wire.mcp_types import RESERVED_TOOL_NAMES, Tool

if TYPE_CHECKING:
    from openenv.core.harness.training import TrainingTrace

# What a builder of actions raises for arguments that lack something, have too much, or have values of another kind.
_ARGUMENT_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

ActionBuilder = Callable[[str, dict[str, Any]], Any]
MessagesBuilder = Callable[[StepResult[Any], Any], list[Message]]
ToolResultBuilder = Callable[[str, dict[str, Any], StepResult[Any], Any], ToolResult]
VerifyBuilder = Callable[[list[Message], Any, StepResult[Any] | None, Any], VerifyResult]


class ResourceSession(ABC):
    """One episode, or another task with tools, as a harness sees it."""

    @abstractmethod
    def initial_messages(self) -> list[Message]:
        """Return the messages that the conversation begins with."""

    @abstractmethod
    def list_tools(self) -> list[Tool]:
        """Return the tools that the model may call."""

    @abstractmethod
    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool.

        Args:
            name: Name of the tool.
            arguments: Its arguments.

        Raises:
            KeyError: There is no such tool.
            ToolArgumentsError: The arguments are not the tool's. A harness shows this to the model, which goes on, as
                it shows an action that the environment rejects; all other errors end the rollout.
        """

    @abstractmethod
    def verify(self, transcript: list[Message], final_state: Any = None) -> VerifyResult:
        """Return the outcome, after the harness has ended.

        Args:
            transcript: The conversation.
            final_state: What the harness knows of the rollout.
        """

    @abstractmethod
    def close(self) -> None:
        """End the session."""


@runtime_checkable
class LoopOwningSession(Protocol):
    """Session whose agent has a loop of its own, and calls its model through a proxy that keeps the calls."""

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        """Wait until the agent has ended, and return its exit status.

        Args:
            timeout_s: Seconds to wait; the session's own limit if ``None``.

        Raises:
            TimeoutError: The agent has not ended by then.
        """

    def fetch_proxy_trace(self) -> list[TraceEntry]:
        """Return the calls of the model, in the order of time."""


@runtime_checkable
class TrainableSession(Protocol):
    """Session whose agent has a loop of its own, and whose model's tokens can be trained on."""

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        """Wait until the agent has ended, and return its exit status.

        Args:
            timeout_s: Seconds to wait; the session's own limit if ``None``.

        Raises:
            TimeoutError: The agent has not ended by then. The turns until then can be trained on.
        """

    def fetch_training_trace(self) -> "TrainingTrace":
        """Return the turns with the tokens that the engine read and sampled.

        Raises:
            ValueError: A turn can't be trained on.
        """


SessionT = TypeVar("SessionT", bound=ResourceSession)


class ResourceSessionFactory(ABC, Generic[SessionT]):
    """Opens one session for each rollout."""

    @abstractmethod
    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> SessionT:
        """Open a session.

        Args:
            task: The task, as a row of a dataset or a prompt.
            seed: Seed of the episode.
            episode_id: Id of the episode.
        """


class StepEnvSessionAdapter(ResourceSession):
    """Session with tools over a client with ``reset``, ``step``, ``state`` and ``close``. It resets when it is made.

    Args:
        client: The client; of an asynchronous one, its blocking facade is used.
        task: The task, for the first messages.
        seed: Seed for the reset.
        episode_id: Id of the episode, for the reset.
        tool_specs: Tools that the model may call.
        action_builder: Makes an action of a tool's name and arguments. What it raises for arguments that make none,
            such as KeyError, TypeError or ValueError, the model reads.
        initial_messages_builder: Makes the first messages of the result of the reset and the task.
        tool_result_builder: Makes what the model sees of a tool's name, its arguments, the step's result and the state;
            by default, it sees observation, reward and done.
        verify_builder: Makes the outcome of the transcript, the harness's final state, the result of the last step
            (``None`` without a step) and the state; by default, the last step's reward.
        reset_kwargs: Further arguments of the reset.

    Raises:
        ValueError: A tool has a name that is reserved for the trainer's operations.
    """

    def __init__(
        self,
        client: Any,
        *,
        task: Any = None,
        seed: int | None = None,
        episode_id: str | None = None,
        tool_specs: list[Tool],
        action_builder: ActionBuilder,
        initial_messages_builder: MessagesBuilder,
        tool_result_builder: ToolResultBuilder | None = None,
        verify_builder: VerifyBuilder | None = None,
        reset_kwargs: dict[str, Any] | None = None,
    ) -> None:
        blocking = getattr(client, "sync", None)
        self._client = client if blocking is None else blocking()
        self._task = task
        self._tools = {tool.name: tool for tool in tool_specs}
        self._make_action = action_builder
        self._make_messages = initial_messages_builder
        self._make_result = tool_result_builder or _shown
        self._make_outcome = verify_builder or _outcome
        self._last: StepResult[Any] | None = None
        self._closed = False
        if reserved := sorted(self._tools.keys() & RESERVED_TOOL_NAMES):
            raise ValueError(f"Names of tools that are reserved for the trainer's operations: {', '.join(reserved)}")
        self._start({"seed": seed, "episode_id": episode_id}, reset_kwargs or {})

    def _start(self, ids: dict[str, Any], arguments: dict[str, Any]) -> None:
        given = {name: value for name, value in ids.items() if value is not None}
        try:
            self._first: StepResult[Any] = self._client.reset(**{**given, **arguments})
            self._state = self._client.state()
        except BaseException:
            self.close()
            raise

    def initial_messages(self) -> list[Message]:
        """Return the messages that the conversation begins with."""
        return list(self._make_messages(self._first, self._task))

    def list_tools(self) -> list[Tool]:
        """Return the tools that the model may call."""
        return list(self._tools.values())

    def call_tool(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Take the step that a tool call stands for.

        Args:
            name: Name of the tool.
            arguments: Its arguments.

        Raises:
            KeyError: There is no such tool.
            ToolArgumentsError: The arguments make no action.
        """
        if name not in self._tools:
            raise KeyError(f"There is no tool {name!r}. Tools: {', '.join(self._tools)}")
        self._last = self._client.step(self._action(name, arguments))
        self._state = self._client.state()
        return self._make_result(name, dict(arguments), self._last, self._state)

    def _action(self, name: str, arguments: dict[str, Any]) -> Any:
        try:
            return self._make_action(name, dict(arguments))
        except _ARGUMENT_ERRORS as error:
            raise ToolArgumentsError(name, f"{type(error).__name__}: {error}") from error

    def verify(self, transcript: list[Message], final_state: Any = None) -> VerifyResult:
        """Return the outcome.

        Args:
            transcript: The conversation.
            final_state: What the harness knows of the rollout.
        """
        return self._make_outcome(list(transcript), final_state, self._last, self._state)

    def close(self) -> None:
        """Close the client; again, it does nothing."""
        if not self._closed:
            self._closed = True
            self._client.close()


def _plain(state: Any) -> Any:
    return state.model_dump() if isinstance(state, BaseModel) else state


def _shown(name: str, arguments: dict[str, Any], result: StepResult[Any], state: Any) -> ToolResult:
    data = {
        "tool_name": name,
        "arguments": arguments,
        "observation": result.observation,
        "reward": result.reward,
        "done": result.done,
    }
    return ToolResult(data, bool(result.done), {"reward": result.reward, "state": _plain(state)})


def _outcome(transcript: list[Message], final_state: Any, last: StepResult[Any] | None, state: Any) -> VerifyResult:
    plain = _plain(state)
    counted = isinstance(plain, dict) and "step_count" in plain
    return VerifyResult(
        env_reward=None if last is None else last.reward,
        done=last is not None and bool(last.done),
        metrics={"step_count": plain["step_count"]} if counted else {},
        artifacts={"final_state": plain, "transcript_length": len(transcript)},
    )
