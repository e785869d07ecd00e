"""Rollouts by a harness as TRL takes them."""

from typing import Any

import pytest
from tests.core.harness.conftest import CountedClient, OpenSession
from tests.core.harness.test_adapters import ScriptedModel

from openenv.core.harness import (
    HarnessRunLimits,
    MCPHarnessAdapter,
    ResourceSession,
    ResourceSessionFactory,
    ToolResult,
    VerifyResult,
)
from openenv.core.harness.rollout import build_harness_rollout_func


class Counters(ResourceSessionFactory[ResourceSession]):
    """Opens sessions of counters, with arguments of the adapter."""

    def __init__(self, open_session: OpenSession, **arguments: Any) -> None:
        self._open = open_session
        self._arguments = arguments

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> ResourceSession:
        return self._open(task=task, seed=seed, episode_id=episode_id, **self._arguments)


def rollouts(sessions: Counters, *turns: list[int | str], **limits: Any) -> dict[str, list[Any]]:
    function = build_harness_rollout_func(
        session_factory=sessions,
        harness_adapter=MCPHarnessAdapter(),
        model_step_builder=lambda trainer, session: trainer(*turns),
        limits=HarnessRunLimits(**limits),
        reward_key="count_reward",
    )
    return function(["Count"], ScriptedModel)


def test_what_the_trainer_gets(open_session: OpenSession, client: CountedClient) -> None:
    assert rollouts(Counters(open_session), [3], [7]) == {
        "prompt_ids": [[0, 1]],
        "completion_ids": [[10, 11]],
        "logprobs": [[-0.5, -0.5]],
        "count_reward": [7.0],
        "verify_metrics": [{"step_count": 2}],
    }
    assert client.closed == 1


def test_what_an_outcome_is_made_from(open_session: OpenSession) -> None:
    seen: list[Any] = []

    def outcome(transcript: Any, final_state: Any, last: Any, state: Any) -> VerifyResult:
        seen.append(final_state)
        return VerifyResult(last.reward)

    rollouts(Counters(open_session, verify_builder=outcome), [3], [7])
    [final_state] = seen
    assert (final_state["done"], final_state["metrics"]) == (True, {"turns": 2, "tool_calls": 2})
    assert [event["type"] for event in final_state["events"]] == ["model_response", "tool_call"] * 2
    assert final_state["tool_trace"][1]["arguments"] == {"amount": 7}
    assert final_state["tool_trace"][1]["result"]["metadata"]["reward"] == 7


@pytest.mark.parametrize("of_outcome", [None, 7.0])
def test_the_reward_is_the_environments(open_session: OpenSession, of_outcome: float | None) -> None:
    sessions = Counters(open_session, verify_builder=lambda *_: VerifyResult(of_outcome))
    assert rollouts(sessions, [3], [7])["count_reward"] == [7.0]


def test_a_reward_of_the_outcome_alone(open_session: OpenSession) -> None:
    sessions = Counters(
        open_session,
        tool_result_builder=lambda *_: ToolResult("added"),
        verify_builder=lambda *_: VerifyResult(0.5),
    )
    assert rollouts(sessions, [3])["count_reward"] == [0.5]


def test_a_reward_that_is_made_up(open_session: OpenSession, client: CountedClient) -> None:
    sessions = Counters(open_session, verify_builder=lambda *_: VerifyResult(1.0))
    with pytest.raises(ValueError, match=r"names the reward 1.0, and the environment gave 7.0"):
        rollouts(sessions, [3], [7])
    assert client.closed == 1


def test_no_reward_at_all(open_session: OpenSession) -> None:
    with pytest.raises(ValueError, match="The environment gave no reward"):
        rollouts(Counters(open_session))
