"""Conversations of calls: what a model is shown, and what its answers mean."""

from typing import Any

import pytest

from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import Tool
from openenv.train.forms.form import prompt_messages
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.tool_form import (
    EPISODE_FAILED,
    EPISODE_OVER,
    ToolForm,
    call_text,
)
from openenv.train.tools.contents import blocks_of
from openenv.train.tools.environment_tools import EnvironmentTools

TOOLS = EnvironmentTools([Tool(name="guess", description="", input_schema={"type": "object", "properties": {}})], {})
FORM = ToolForm(TOOLS, {"screen"})
CRANE = {"type": "call_tool", "tool_name": "guess", "arguments": {"word": "crane"}}


def call(arguments: Any, number: str = "a1", name: str = "guess") -> dict[str, Any]:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def answer(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **({"tool_calls": list(calls)} if calls else {})}


def test_results_are_shown_as_a_tool_gives_them() -> None:
    assert FORM.shown(StepResult({"tool_name": "guess", "result": {"a": 1}, "error": None})) == '{"a":1}'
    assert FORM.shown(StepResult({"prompt": "Win."})) == "Win."
    text, picture = blocks_of(FORM.shown(StepResult({"text": "look", "screen": [[[1, 2, 3]] * 64] * 64})))
    assert (text, picture["type"]) == ({"type": "text", "text": "look"}, "image")


def test_a_conversation_opens_with_the_observation_behind_instructions() -> None:
    told = ToolForm(TOOLS, prompt=prompt_messages("Play well."))
    picture = {"type": "image", "image": None}
    for form, observation, content in (
        (FORM, "five letters", "five letters"),
        (told, "five letters", "Play well.\n\nfive letters"),
        (told, "", "Play well.\n\n"),
        (FORM, [picture], [picture]),
        (told, [picture], [{"type": "text", "text": "Play well.\n\n"}, picture]),
    ):
        assert form.opening_messages(observation) == [{"role": "user", "content": content}]
    assert FORM.tools == TOOLS.schemas()


def test_calls_become_moves() -> None:
    (move,) = FORM.read(answer(call({"word": "mouse"})))
    assert (move.text, move.tool, move.arguments, move.problem) == (
        'guess {"word": "mouse"}',
        "guess",
        {"word": "mouse"},
        None,
    )
    (unknown,) = FORM.read(answer(call('{"word": ', name="shout")))
    assert (unknown.text, unknown.action, unknown.arguments) == ('shout {"word": ', None, {})
    assert unknown.problem == "There is no tool 'shout'; the tools are guess."
    assert FORM.read(answer()) == []
    assert call_text("guess", {"word": "é"}) == 'guess {"word": "é"}'


def test_an_action_is_the_call_that_is_read_as_it() -> None:
    move = FORM.move(CRANE)
    message = FORM.answer(move, 12)
    assert message == {**answer(call({"word": "crane"}, "call00012"))}
    assert FORM.read(message) == [move]


def test_each_call_is_answered_by_its_number() -> None:
    said = answer(call({}, "a1"), call({}, "a2"), call({}, "a3"))
    done = MoveResult(FORM.move(CRANE), "c--n-", None, StepResult({}))
    refused = MoveResult(FORM.move(CRANE), "c--n-", "No such word.")

    def contents(*results: MoveResult, failed: bool = False) -> list[tuple[str, Any]]:
        replies = FORM.replies(said, results, failed=failed)
        assert {(reply["role"], reply["name"]) for reply in replies} == {("tool", "guess")}
        return [(reply["tool_call_id"], reply["content"]) for reply in replies]

    assert contents(done, refused, done) == [("a1", "c--n-"), ("a2", "No such word."), ("a3", "c--n-")]
    assert contents(done) == [("a1", "c--n-"), ("a2", EPISODE_OVER), ("a3", EPISODE_OVER)]
    assert contents(done, failed=True) == [("a1", "c--n-"), ("a2", EPISODE_FAILED), ("a3", EPISODE_OVER)]
    assert FORM.replies(answer(), []) == []


@pytest.mark.parametrize("said", [{"role": "assistant", "content": "<call"}, answer(call({}, name='"}}'))])
def test_a_call_that_is_none_of_a_tool_is_answered_as_one_that_there_is(said: dict[str, Any]) -> None:
    (reply,) = FORM.replies(said, [MoveResult(Move("<call", problem="?"), "seen", "?")])
    assert (reply["role"], reply["name"], reply["content"]) == ("tool", "guess", "?")
