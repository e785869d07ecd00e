"""Sessions with tools over a client."""

from typing import Any

import pytest
from tests.core.harness.conftest import ADD, CountedClient, OpenSession

from openenv.core.exceptions import OpenEnvError, ToolArgumentsError
from openenv.core.harness import Message, ToolResult, VerifyResult


def test_a_session_resets_when_it_is_made(open_session: OpenSession) -> None:
    session = open_session(task="Count", seed=3, episode_id="seven")
    assert session.initial_messages() == [{"role": "user", "content": "Count: the total is 0."}]
    assert session.list_tools() == [ADD]
    assert session.verify([]).artifacts["final_state"]["episode_id"] == "seven"
    session.close()


def test_arguments_of_the_reset_win(open_session: OpenSession) -> None:
    session = open_session(episode_id="seven", reset_kwargs={"episode_id": "eight"})
    assert session.verify([]).artifacts["final_state"]["episode_id"] == "eight"
    session.close()


def test_a_call_is_a_step(open_session: OpenSession) -> None:
    session = open_session()
    result = session.call_tool("add", {"amount": 4})
    assert (result.reward, result.done, result.error) == (4.0, False, None)
    assert result.data["observation"]["total"] == 4
    assert result.metadata["state"]["step_count"] == 1
    assert session.call_tool("add", {"amount": 6}).done
    session.close()


def test_the_outcome_is_that_of_the_last_step(open_session: OpenSession) -> None:
    session = open_session()
    assert (session.verify([]).env_reward, session.verify([]).done) == (None, False)
    session.call_tool("add", {"amount": 3})
    session.call_tool("add", {"amount": 7})
    outcome = session.verify([{"role": "user", "content": "Count."}])
    assert (outcome.env_reward, outcome.done, outcome.metrics) == (7.0, True, {"step_count": 2})
    assert outcome.artifacts["transcript_length"] == 1
    session.close()


def test_an_author_says_what_a_model_sees_and_what_the_outcome_is(open_session: OpenSession) -> None:
    def shown(name: str, arguments: dict[str, Any], result: Any, state: Any) -> ToolResult:
        return ToolResult(f"{name} {arguments['amount']}: {result.observation['total']} after {state['step_count']}")

    def outcome(transcript: list[Message], final_state: Any, last: Any, state: Any) -> VerifyResult:
        return VerifyResult(last.reward, last.done, {"rollout": final_state, "messages": len(transcript)})

    session = open_session(tool_result_builder=shown, verify_builder=outcome)
    assert session.call_tool("add", {"amount": 2}) == ToolResult("add 2: 2 after 1")
    assert session.verify([], "over") == VerifyResult(2.0, False, {"rollout": "over", "messages": 0})
    session.close()


def test_a_tool_that_is_not_there(open_session: OpenSession) -> None:
    session = open_session()
    with pytest.raises(KeyError, match=r"There is no tool 'sub'\. Tools: add"):
        session.call_tool("sub", {})
    session.close()


def test_arguments_that_make_no_action_take_no_step(open_session: OpenSession) -> None:
    session = open_session()
    with pytest.raises(ToolArgumentsError, match="The arguments of 'add' make no action: KeyError: 'amount'") as caught:
        session.call_tool("add", {})
    assert (caught.value.tool_name, caught.value.message) == ("add", "KeyError: 'amount'")
    assert session.verify([]).artifacts["final_state"]["step_count"] == 0
    session.close()


def test_a_reserved_name(open_session: OpenSession) -> None:
    with pytest.raises(ValueError, match="reserved for the trainer's operations: reset, step"):
        open_session(tool_specs=[ADD.model_copy(update={"name": name}) for name in ("step", "add", "reset")])


def test_it_is_closed_once(open_session: OpenSession, client: CountedClient) -> None:
    session = open_session()
    session.close()
    session.close()
    assert client.closed == 1


def test_a_reset_that_fails_closes_the_client(open_session: OpenSession, client: CountedClient) -> None:
    with pytest.raises(OpenEnvError):
        open_session(seed="no number")
    assert client.closed == 1
