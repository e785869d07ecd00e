"""Rollouts: a model's tool calls until the end, and harnesses that have their own loop."""

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.core.harness.conftest import CountedClient, OpenSession
from tests.support.environments.common import Add

from openenv.core.exceptions import ServerError
from openenv.core.harness import (
    CLIHarnessAdapter,
    HarnessRolloutResult,
    HarnessRunLimits,
    MCPHarnessAdapter,
    Message,
    ModelStepResult,
    ResourceSession,
    SessionMCPBridge,
    ToolResult,
)
from openenv.core.harness.session import ActionBuilder
from openenv.core.llm_client import LLMResponse, ToolCall
from openenv.core.wire.mcp_types import Tool


class ScriptedModel:
    """Answers with tool calls by a script, then with text; keeps what it was shown."""

    def __init__(self, *turns: Sequence[int | str]) -> None:
        self._turns = turns
        self.seen: list[list[Message]] = []
        self.sampling: dict[str, Any] = {}

    def __call__(self, messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult:
        turn = len(self.seen)
        self.seen.append(list(messages))
        self.sampling = sampling
        calls = [self._call(turn, move) for move in self._turns[turn]] if turn < len(self._turns) else []
        response = LLMResponse("" if calls else "That is all.", calls)
        return ModelStepResult(response, [turn], [10 + turn], [-0.5])

    def _call(self, turn: int, move: int | str) -> ToolCall:
        tool, amount = ("add", move) if isinstance(move, int) else (move, 0)
        return ToolCall(f"{turn}-{move}", tool, {"amount": amount})


def play(session: ResourceSession, model: ScriptedModel, **limits: Any) -> HarnessRolloutResult:
    rollout = MCPHarnessAdapter().run_white_box(model, session, HarnessRunLimits(**limits))
    session.close()
    return rollout


def tool_messages(rollout: HarnessRolloutResult) -> list[str]:
    return [message["content"] for message in rollout.messages if message["role"] == "tool"]


def test_a_rollout_ends_with_the_episode(open_session: OpenSession) -> None:
    model = ScriptedModel([3], [7], [1])
    rollout = play(open_session(task="Count"), model, sampling={"temperature": 0.5})
    assert rollout.done
    assert rollout.metrics == {"turns": 2, "tool_calls": 2}
    assert [entry.result.reward for entry in rollout.tool_trace] == [3.0, 7.0]
    assert [event.type for event in rollout.events] == ["model_response", "tool_call"] * 2
    assert [message["role"] for message in rollout.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert (rollout.prompt_ids, rollout.completion_ids, rollout.logprobs) == ([0, 1], [10, 11], [-0.5, -0.5])
    assert model.sampling == {"temperature": 0.5}
    assert '"total":3' in model.seen[1][-1]["content"]


def test_a_rollout_ends_where_the_model_calls_no_tool(open_session: OpenSession) -> None:
    rollout = play(open_session(), ScriptedModel([3]))
    assert rollout.done
    assert rollout.metrics == {"turns": 2, "tool_calls": 1}
    assert rollout.messages[-1] == {"role": "assistant", "content": "That is all."}


@pytest.mark.parametrize("limits", [{"max_turns": 2}, {"max_total_tool_calls": 2}])
def test_a_limit_ends_a_rollout(open_session: OpenSession, limits: dict[str, int]) -> None:
    rollout = play(open_session(), ScriptedModel([1], [1], [1]), **limits)
    assert not rollout.done
    assert rollout.metrics == {"turns": 2, "tool_calls": 2, "truncated": True}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_tool_calls_per_turn": 1}, "Not carried out: at most 1 tool calls in a turn."),
        ({"max_total_tool_calls": 1}, "Not carried out: at most 1 tool calls in all."),
    ],
)
def test_each_call_beyond_a_limit_has_an_answer(open_session: OpenSession, limits: dict[str, int], said: str) -> None:
    rollout = play(open_session(), ScriptedModel([1, 2, 3]), **limits)
    assert len(rollout.tool_trace) == 1
    assert tool_messages(rollout)[1:] == [said, said]


def test_calls_after_the_end_are_not_carried_out(open_session: OpenSession) -> None:
    rollout = play(open_session(), ScriptedModel([10, 1]))
    assert rollout.done
    assert len(rollout.tool_trace) == 1
    assert tool_messages(rollout)[1] == "Not carried out: the episode is done."


def test_a_model_that_calls_what_is_not_there_reads_so_and_goes_on(open_session: OpenSession) -> None:
    rollout = play(open_session(), ScriptedModel(["sub"], [10]))
    assert tool_messages(rollout)[0] == "There is no tool 'sub'. Tools: add"
    assert [entry.result.reward for entry in rollout.tool_trace] == [None, 10.0]
    assert rollout.done


def test_a_model_whose_arguments_are_no_object_reads_so_and_goes_on(open_session: OpenSession) -> None:
    class Careless(ScriptedModel):
        def _call(self, turn: int, move: int | str) -> ToolCall:
            return ToolCall.read(f"{turn}", "add", move) if isinstance(move, str) else super()._call(turn, move)

    rollout = play(open_session(), Careless(['{"amount": '], ["[1]"], [10]))
    assert rollout.done
    assert tool_messages(rollout)[:2] == [
        "Expected the arguments as a JSON object, got '{\"amount\": '",
        "Expected the arguments as a JSON object, got '[1]'",
    ]


def test_a_model_whose_call_is_rejected_reads_so_and_goes_on(open_session: OpenSession) -> None:
    rollout = play(open_session(), ScriptedModel([-1], [10]))
    assert "Expected a positive amount, got -1." in tool_messages(rollout)[0]
    assert [entry.result.reward for entry in rollout.tool_trace] == [None, 10.0]
    assert rollout.done


def test_a_model_whose_arguments_make_no_action_reads_so(open_session: OpenSession) -> None:
    def action_of(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return Add.model_validate({**arguments, "by": "hand"}).model_dump()

    rollout = play(open_session(action_builder=action_of), ScriptedModel([1]))
    assert "Extra inputs are not permitted" in tool_messages(rollout)[0]


@dataclass
class Move:
    """An action of no model."""

    amount: int
    by: str


BUILDERS: dict[str, tuple[ActionBuilder, str]] = {
    "an argument that is not there": (lambda _, arguments: {"amount": arguments["by"]}, "KeyError: 'by'"),
    "a class that lacks one": (lambda _, arguments: Move(**arguments), "TypeError: .*missing 1 required .* 'by'"),
    "a value of another kind": (lambda _, arguments: arguments["amount"].strip(), "AttributeError: 'int' object"),
    "a value that is none": (lambda _, arguments: int(f"{arguments['amount']} by hand"), "ValueError: invalid literal"),
}


@pytest.mark.parametrize("case", BUILDERS)
def test_a_model_whose_arguments_an_author_s_function_does_not_take_reads_so_and_goes_on(
    open_session: OpenSession, case: str
) -> None:
    first, said = BUILDERS[case]
    builders: list[ActionBuilder] = [first, lambda _, arguments: arguments]

    def action_of(name: str, arguments: dict[str, Any]) -> Any:
        return builders.pop(0)(name, arguments)

    rollout = play(open_session(action_builder=action_of), ScriptedModel([1], [10]))
    assert re.match(f"The arguments of 'add' make no action: {said}", tool_messages(rollout)[0])
    assert [entry.result.reward for entry in rollout.tool_trace] == [None, 10.0]
    assert rollout.done


def test_an_error_of_a_client_ends_the_rollout(open_session: OpenSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def step_payload(self: Any, action: Any) -> Any:
        raise KeyError("a client's own")

    monkeypatch.setattr(CountedClient, "_step_payload", step_payload)
    with closing(open_session()) as session, pytest.raises(KeyError, match="a client's own"):
        MCPHarnessAdapter().run_white_box(ScriptedModel([1]), session)


class Unknown:
    """A value without a form in JSON."""

    def __str__(self) -> str:
        return "something"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (ToolResult(), ""),
        (ToolResult("7"), "7"),
        (ToolResult({"total": 7}), '{"total":7}'),
        (ToolResult(error="too late"), "too late"),
        (ToolResult({"total": 7}, error="too late"), 'too late\n{"total":7}'),
        (ToolResult("7", error="too late"), "too late\n7"),
        (ToolResult({"board": np.arange(4).reshape(2, 2)}), '{"board":[[0,1],[2,3]]}'),
        (ToolResult({"screen": np.zeros(2000, "uint8")}), f'{{"screen":[{",".join("0" * 2000)}]}}'),
        (ToolResult({"score": np.float32(0.5), "other": Unknown()}), '{"score":0.5,"other":"something"}'),
    ],
)
def test_what_a_model_reads_of_a_result(open_session: OpenSession, shown: ToolResult, text: str) -> None:
    rollout = play(open_session(tool_result_builder=lambda *_: shown), ScriptedModel([1]))
    assert tool_messages(rollout) == [text]


def test_an_environment_that_fails_ends_the_rollout(open_session: OpenSession) -> None:
    with closing(open_session()) as session, pytest.raises(ServerError, match="kaboom"):
        MCPHarnessAdapter().run_white_box(ScriptedModel([0]), session)


def test_a_harness_with_its_own_loop_calls_tools_by_the_bridge(open_session: OpenSession) -> None:
    def harness(bridge: SessionMCPBridge, session: ResourceSession, limits: HarnessRunLimits) -> HarnessRolloutResult:
        call = {"name": "add", "arguments": {"amount": limits.max_turns}}
        response = bridge.handle_request({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        return HarnessRolloutResult(session.initial_messages(), done=response["result"]["done"])

    session = open_session()
    assert CLIHarnessAdapter(harness).run_black_box(session).done
    assert session.verify([]).env_reward == 10.0
    session.close()


def test_who_has_the_model(open_session: OpenSession) -> None:
    session = open_session()
    with pytest.raises(NotImplementedError, match="use run_white_box"):
        MCPHarnessAdapter().run_black_box(session)
    with pytest.raises(NotImplementedError, match="use run_black_box"):
        CLIHarnessAdapter(lambda *_: HarnessRolloutResult()).run_white_box(ScriptedModel(), session)
    session.close()
