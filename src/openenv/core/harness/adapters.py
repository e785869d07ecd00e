"""What drives a session: a loop over a model's tool calls, or a harness that has its own loop."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from openenv.core.exceptions import RequestRejectedError, ToolArgumentsError
from openenv.core.harness.bridge import SessionMCPBridge
from openenv.core.harness.records import (
    HarnessRolloutResult,
    HarnessRunLimits,
    ModelStep,
    ModelStepResult,
    RolloutEvent,
    ToolResult,
    ToolTraceEntry,
)
from openenv.core.harness.session import ResourceSession
from openenv.core.llm_client import ToolCall
from openenv.core.plain_values import plain_value

# Errors of a call that the model made wrong: nothing happened, and the model can try again.
_MODELS_DOING = (RequestRejectedError, ToolArgumentsError, ValidationError)

Runner = Callable[[SessionMCPBridge, ResourceSession, HarnessRunLimits], HarnessRolloutResult]


class HarnessAdapter(ABC):
    """Drives a session from its first message to its end."""

    @abstractmethod
    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        """Play a rollout in which the caller's function lets the model answer, as training needs.

        Args:
            model_step: Lets the model answer.
            session: The session.
            limits: Where the rollout ends at the latest.
        """

    @abstractmethod
    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        """Play a rollout in which the harness has a model of its own, for evaluation.

        Args:
            session: The session.
            limits: Where the rollout ends at the latest.
        """


class MCPHarnessAdapter(HarnessAdapter):
    """Lets a model call tools until the episode is done, the model calls none, or a limit is reached.

    Calls that a limit leaves out, that name no tool of the session, or that the environment rejects get an error as
    their message: the model goes on, and no call is left without an answer, which servers of models refuse.

    Example:
        >>> from openenv.core.llm_client import LLMResponse
        >>> class Nothing(ResourceSession):
        ...     def initial_messages(self): return [{"role": "user", "content": "Say hello."}]
        ...     def list_tools(self): return []
        ...     def call_tool(self, name, arguments): raise KeyError(name)
        ...     def verify(self, transcript, final_state=None): raise NotImplementedError
        ...     def close(self): pass
        >>> answer = lambda messages, tools, sampling: ModelStepResult(LLMResponse("Hello."))
        >>> rollout = MCPHarnessAdapter().run_white_box(answer, Nothing())
        >>> rollout.done, rollout.messages[-1]["content"], rollout.metrics
        (True, 'Hello.', {'turns': 1, 'tool_calls': 0})
    """

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        """Play a rollout.

        Args:
            model_step: Lets the model answer.
            session: The session.
            limits: Where the rollout ends at the latest.
        """
        return _Rollout(session, limits or HarnessRunLimits()).play(model_step)

    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        """Raise an error.

        Raises:
            NotImplementedError: Always: this harness has no model.
        """
        raise NotImplementedError("MCPHarnessAdapter has no model of its own: use run_white_box")


class CLIHarnessAdapter(HarnessAdapter):
    """Lets a function play the rollout, such as one that starts a command-line agent.

    Args:
        runner: Plays the rollout with a bridge to the session's tools, the session and the limits.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        """Raise an error.

        Raises:
            NotImplementedError: Always: the function's model is not in the caller's hands.
        """
        raise NotImplementedError("CLIHarnessAdapter has a model of its own: use run_black_box")

    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        """Play a rollout.

        Args:
            session: The session.
            limits: Where the rollout ends at the latest.
        """
        return self._runner(SessionMCPBridge(session), session, limits or HarnessRunLimits())


class _Rollout:
    """One rollout under way.

    Args:
        session: The session.
        limits: Where the rollout ends at the latest.
    """

    def __init__(self, session: ResourceSession, limits: HarnessRunLimits) -> None:
        self._session = session
        self._limits = limits
        self._tools = session.list_tools()
        self._names = [tool.name for tool in self._tools]
        self._result = HarnessRolloutResult(messages=list(session.initial_messages()))

    def play(self, model_step: ModelStep) -> HarnessRolloutResult:
        """Let the model take turns until the rollout is over."""
        result = self._result
        turns = 0
        while not result.done and turns < self._limits.max_turns and not self._calls_used_up():
            self._take_turn(turns, model_step(result.messages, self._tools, dict(self._limits.sampling)))
            turns += 1
        result.metrics |= {"turns": turns, "tool_calls": len(result.tool_trace)}
        if not result.done:
            result.metrics["truncated"] = True
        return result

    def _calls_used_up(self) -> bool:
        limit = self._limits.max_total_tool_calls
        return limit is not None and len(self._result.tool_trace) >= limit

    def _take_turn(self, turn: int, step: ModelStepResult) -> None:
        result = self._result
        result.messages.append(step.response.to_message_dict())
        result.prompt_ids += step.prompt_ids
        result.completion_ids += step.completion_ids
        result.logprobs += step.logprobs
        calls = step.response.tool_calls
        made = [{"id": call.id, "name": call.name, "arguments": dict(call.args)} for call in calls]
        payload = {"turn": turn, "content": step.response.content, "tool_calls": made}
        result.events.append(RolloutEvent("model_response", payload))
        result.done = not calls
        for position, call in enumerate(calls):
            self._answer(call, self._carry_out(position, call))

    def _carry_out(self, position: int, call: ToolCall) -> ToolResult:
        of_turn = self._limits.max_tool_calls_per_turn
        if self._result.done:
            return ToolResult(error="Not carried out: the episode is done.")
        if of_turn is not None and position >= of_turn:
            return ToolResult(error=f"Not carried out: at most {of_turn} tool calls in a turn.")
        if self._calls_used_up():
            return ToolResult(error=f"Not carried out: at most {self._limits.max_total_tool_calls} tool calls in all.")
        outcome = self._call(call)
        self._record(call, outcome)
        return outcome

    def _call(self, call: ToolCall) -> ToolResult:
        if call.name not in self._names:
            return ToolResult(error=f"There is no tool {call.name!r}. Tools: {', '.join(self._names)}")
        if call.invalid_args is not None:
            return ToolResult(error=f"Expected the arguments as a JSON object, got {call.invalid_args!r:.200}")
        try:
            return self._session.call_tool(call.name, dict(call.args))
        except _MODELS_DOING as error:
            return ToolResult(error=str(error))

    def _record(self, call: ToolCall, outcome: ToolResult) -> None:
        result = self._result
        result.done = outcome.done
        result.tool_trace.append(ToolTraceEntry(call.name, dict(call.args), outcome))
        payload = {"tool_name": call.name, "arguments": dict(call.args), "done": outcome.done}
        result.events.append(RolloutEvent("tool_call", payload))

    def _answer(self, call: ToolCall, outcome: ToolResult) -> None:
        message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": _text(outcome)}
        self._result.messages.append(message)


def _text(outcome: ToolResult) -> str:
    """Return what a model reads of a tool's result: the error, and what there is beside it."""
    return "\n".join(part for part in (outcome.error, _data_text(outcome.data)) if part)


def _data_text(data: Any) -> str:
    if data is None:
        return ""
    return data if isinstance(data, str) else to_json(data, fallback=_plain_or_text).decode()


def _plain_or_text(value: Any) -> Any:
    try:
        return plain_value(value)
    except PydanticSerializationError:  # an object of a client's own, without a form in JSON
        return str(value)
