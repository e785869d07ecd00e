"""Rollouts by a harness as TRL takes them. Public import path of all that this package has."""

from collections.abc import Callable
from typing import Any, Protocol

from openenv.core.harness.adapters import CLIHarnessAdapter, HarnessAdapter, MCPHarnessAdapter
from openenv.core.harness.bridge import SessionMCPBridge
from openenv.core.harness.records import (
    HarnessRolloutResult,
    HarnessRunLimits,
    Message,
    ModelStep,
    ModelStepResult,
    RolloutEvent,
    ToolResult,
    ToolTraceEntry,
    TraceEntry,
    VerifyResult,
)
from openenv.core.harness.session import (
    LoopOwningSession,
    ResourceSession,
    ResourceSessionFactory,
    StepEnvSessionAdapter,
    TrainableSession,
)
from openenv.core.harness.training import TrainingTrace, TrainingTurn
from openenv.core.rubrics.bounds import reaches
from openenv.core.wire.mcp_types import RESERVED_TOOL_NAMES

__all__ = [
    "RESERVED_TOOL_NAMES",
    "CLIHarnessAdapter",
    "HarnessAdapter",
    "HarnessRolloutResult",
    "HarnessRunLimits",
    "LoopOwningSession",
    "MCPHarnessAdapter",
    "Message",
    "ModelStep",
    "ModelStepResult",
    "ResourceSession",
    "ResourceSessionFactory",
    "RolloutEvent",
    "SessionMCPBridge",
    "StepEnvSessionAdapter",
    "ToolResult",
    "ToolTraceEntry",
    "TraceEntry",
    "TrainableSession",
    "TrainingTrace",
    "TrainingTurn",
    "VerifyResult",
    "build_harness_rollout_func",
]


class SessionFactory(Protocol):
    """Opens sessions; ``ResourceSessionFactory`` does, and any object with its method."""

    def create(self, *, task: Any) -> ResourceSession:
        """Open the session of a task."""


def build_harness_rollout_func(
    *,
    session_factory: SessionFactory,
    harness_adapter: HarnessAdapter,
    model_step_builder: Callable[[Any, ResourceSession], ModelStep],
    limits: HarnessRunLimits | None = None,
    reward_key: str = "env_reward",
) -> Callable[[list[Any], Any], dict[str, list[Any]]]:
    """Make TRL's ``rollout_func`` of sessions and a harness.

    Args:
        session_factory: Opens a session for each prompt.
        harness_adapter: Plays the session.
        model_step_builder: Makes, of the trainer and the session, the function that lets the model answer.
        limits: Where each rollout ends at the latest.
        reward_key: Name under which reward functions find the environment's reward.

    Returns:
        A function of prompts and trainer that returns ``prompt_ids``, ``completion_ids``, ``logprobs``, the rewards and
        ``verify_metrics``, each with one entry for a prompt. It raises ValueError where an environment gave no reward,
        or where ``verify`` names another one than the last tool call that had a reward.
    """
    return _RolloutFunction(session_factory, harness_adapter, model_step_builder, limits, reward_key)


class _RolloutFunction:
    def __init__(
        self,
        sessions: SessionFactory,
        harness: HarnessAdapter,
        model_step_of: Callable[[Any, ResourceSession], ModelStep],
        limits: HarnessRunLimits | None,
        reward_key: str,
    ) -> None:
        self._sessions = sessions
        self._harness = harness
        self._model_step_of = model_step_of
        self._limits = limits
        self._reward_key = reward_key

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        played = [self._play(prompt, trainer) for prompt in prompts]
        return {
            "prompt_ids": [rollout.prompt_ids for rollout, _ in played],
            "completion_ids": [rollout.completion_ids for rollout, _ in played],
            "logprobs": [rollout.logprobs for rollout, _ in played],
            self._reward_key: [_reward(rollout, outcome) for rollout, outcome in played],
            "verify_metrics": [dict(outcome.metrics) for _, outcome in played],
        }

    def _play(self, prompt: Any, trainer: Any) -> tuple[HarnessRolloutResult, VerifyResult]:
        session = self._sessions.create(task=prompt)
        try:
            model_step = self._model_step_of(trainer, session)
            rollout = self._harness.run_white_box(model_step=model_step, session=session, limits=self._limits)
            return rollout, session.verify(transcript=rollout.messages, final_state=_final_state(rollout))
        finally:
            session.close()


def _final_state(rollout: HarnessRolloutResult) -> dict[str, Any]:
    """Return what ``verify`` learns of a rollout beside its messages."""
    return {
        "done": rollout.done,
        "metrics": dict(rollout.metrics),
        "events": [dict(vars(event)) for event in rollout.events],
        "tool_trace": [{**vars(entry), "result": dict(vars(entry.result))} for entry in rollout.tool_trace],
    }


def _reward(rollout: HarnessRolloutResult, outcome: VerifyResult) -> float:
    """Return the environment's reward: of the last tool call that had one, which the outcome must not contradict."""
    given = [entry.result.reward for entry in rollout.tool_trace if entry.result.reward is not None]
    verified = outcome.env_reward
    if not given and verified is None:
        raise ValueError("The environment gave no reward: neither a tool call nor verify() has one.")
    if not given:
        return float(verified)  # type: ignore[arg-type]
    if verified is not None and not (reaches(verified, given[-1]) and reaches(given[-1], verified)):
        raise ValueError(
            f"verify() names the reward {verified}, and the environment gave {given[-1]} for the last tool call: "
            "verify() must forward the environment's."
        )
    return given[-1]
