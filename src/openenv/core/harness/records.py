"""What a rollout by a harness consists of: messages, calls of tools, the model's turns, limits, the outcome."""

from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

from openenv.core.llm_client import LLMResponse
from openenv.core.wire.mcp_types import Tool

Message = dict[str, Any]
"""Message of a conversation, in OpenAI's form."""


@dataclass
class ToolResult:
    """Result of a tool call in a session.

    Attributes:
        data: What the model is shown.
        done: Whether the call ended the episode.
        metadata: What the harness reads: ``reward`` is the environment's reward of the call, ``None`` without one.
        error: What was wrong, if the call failed.
    """

    data: Any = None
    done: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def reward(self) -> float | None:
        """Reward that the environment gave for the call: of the metadata, else of the data."""
        reward = self.metadata.get("reward")
        if reward is None and isinstance(self.data, dict):
            reward = self.data.get("reward")
        return None if reward is None else float(reward)


@dataclass
class VerifyResult:
    """Outcome of a rollout.

    Attributes:
        env_reward: The reward that the environment gave; ``None`` if it gave none. It is never made up here.
        done: Whether the episode ended.
        metrics: Numbers to log.
        artifacts: Further data to keep.
    """

    env_reward: float | None = None
    done: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, Any] = field(default_factory=dict)


@dataclass
class RolloutEvent:
    """Something that happened in a rollout, in the order of time.

    Attributes:
        type: ``model_response`` or ``tool_call``; harnesses may add others.
        payload: What is known of it.
    """

    type: str
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass
class ToolTraceEntry:
    """One tool call of a rollout.

    Attributes:
        tool_name: Name of the tool.
        arguments: Its arguments.
        result: What it returned.
    """

    tool_name: str
    arguments: dict[str, Any]
    result: ToolResult


@dataclass
class ModelStepResult:
    """One turn of a model, with the tokens that a trainer needs.

    Attributes:
        response: The answer: text and tool calls.
        prompt_ids: Tokens of the prompt.
        completion_ids: Tokens of the answer.
        logprobs: Log-probability of each token of the answer.
    """

    response: LLMResponse
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass
class HarnessRolloutResult:
    """One rollout by a harness.

    Attributes:
        messages: The conversation.
        tool_trace: Tool calls that were carried out.
        events: What happened, in the order of time.
        done: Whether the rollout came to its end: the episode ended, or the model called no tool. ``False`` if a limit
            ended it.
        metrics: Numbers to log: ``turns``, ``tool_calls``, and ``truncated`` if a limit ended the rollout.
        prompt_ids: Tokens of the prompts of all turns.
        completion_ids: Tokens of the answers of all turns.
        logprobs: Log-probabilities of ``completion_ids``.
    """

    messages: list[Message] = field(default_factory=list)
    tool_trace: list[ToolTraceEntry] = field(default_factory=list)
    events: list[RolloutEvent] = field(default_factory=list)
    done: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass
class HarnessRunLimits:
    """Where a rollout ends at the latest.

    Attributes:
        max_turns: Turns of the model.
        max_tool_calls_per_turn: Tool calls of a turn that are carried out; ``None`` for all.
        max_total_tool_calls: Tool calls of the rollout; ``None`` for no limit.
        sampling: What the model step is passed as sampling parameters.
    """

    max_turns: int = 10
    max_tool_calls_per_turn: int | None = None
    max_total_tool_calls: int | None = None
    sampling: dict[str, Any] = field(default_factory=dict)


class ModelStep(Protocol):
    """Function that lets a model answer a conversation."""

    def __call__(self, messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult:
        """Return the model's next turn.

        Args:
            messages: The conversation so far.
            tools: Tools that the model may call.
            sampling: Sampling parameters, from the limits of the run.
        """


class TraceEntry(TypedDict, total=False):
    """One call of a model by an agent that has a loop of its own, as far as it was captured.

    Attributes:
        request: The request, in OpenAI's form.
        response: The answer, in OpenAI's form.
        prompt_token_ids: Tokens that the engine read.
        completion_token_ids: Tokens that it sampled.
        completion_tokens: Their texts.
        per_token_logps: Log-probability of each sampled token.
        loss_mask: 1 for each token to be trained on, else 0, over prompt and completion.
        reward: Reward of the turn; ``None`` if it has none.
        metadata: Anything else, such as ``node_id`` and ``sampling_params``.
    """

    request: dict[str, Any]
    response: dict[str, Any]
    prompt_token_ids: list[int]
    completion_token_ids: list[int]
    completion_tokens: list[str]
    per_token_logps: list[float]
    loss_mask: list[int]
    reward: float | None
    metadata: dict[str, Any]
