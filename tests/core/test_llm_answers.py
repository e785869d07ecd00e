"""The reader of models' answers: what is unusual is read, what is none is requested again, and then an error."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from tests.support.models.judge_server import JudgeServer, Reply
from tests.support.models.malformed_answers import MALFORMED, completion

from openenv.core.exceptions import ModelAnswerError
from openenv.core.llm_answers import ModelAnswer, WrittenCall, anthropic_answer, openai_answer
from openenv.core.llm_client import LLMResponse, OpenAIClient

TOOLS = [{"name": "climb"}]
VALUES = st.none() | st.booleans() | st.integers() | st.text()
FIELDS = st.sampled_from(
    ("choices", "message", "content", "tool_calls", "function", "name", "arguments", "id", "type", "text", "usage")
)
BODIES = st.recursive(VALUES, lambda parts: st.lists(parts) | st.dictionaries(FIELDS, parts, max_size=4), max_leaves=12)


@pytest.fixture(scope="module")
def running() -> Iterator[JudgeServer]:
    judge = JudgeServer(["up"])
    with judge.server:
        yield judge


@pytest.fixture
def judge(running: JudgeServer) -> JudgeServer:
    running.requests.clear()
    return running


async def respond(client: OpenAIClient, prompt: str) -> LLMResponse:
    try:
        return await client.complete_with_tools([{"role": "user", "content": prompt}], TOOLS)
    finally:
        await client._client.close()


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_the_reasoning_of_an_answer_has_a_field_of_its_own(field: str) -> None:
    for reasoning, read in (("The ball is left.", "The ball is left."), (None, None), ("", None), ([1], None)):
        message = {"role": "assistant", "content": "left", field: reasoning}
        answer = openai_answer(ChatCompletion.construct(choices=[{"message": message}]))
        assert (answer.text, answer.reasoning) == ("left", read)


@pytest.mark.parametrize("named", MALFORMED)
async def test_an_answer_that_is_none_is_requested_again(judge: JudgeServer, named: str) -> None:
    answers: Iterator[Reply] = iter([MALFORMED[named], "up"])
    judge.reply = lambda _: next(answers)
    assert (await respond(judge.client(max_retries=1), "up?")).content == "up"
    assert len(judge.requests) == 2


@pytest.mark.parametrize("named", MALFORMED)
async def test_answers_that_are_none_every_time_are_an_error(judge: JudgeServer, named: str) -> None:
    judge.reply = [MALFORMED[named]]
    with pytest.raises(ModelAnswerError, match=r"^judge at http://.* gave no answer .* at attempt 2: "):
        await respond(judge.client(max_retries=1), "up?")
    assert len(judge.requests) == 2


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("an error in a 200", "expected choices with a message, got an error: 'overloaded'"),
        ("HTML", "expected choices with a message, got '<html><body>Bad gateway"),
        ("nothing of no type", "expected choices with a message, got nothing"),
        ("a call without a name", "expected a tool call with the tool's name, got "),
    ],
)
async def test_an_error_has_what_was_expected_and_what_came(judge: JudgeServer, named: str, reason: str) -> None:
    judge.reply = [MALFORMED[named]]
    with pytest.raises(ModelAnswerError) as raised:
        await respond(judge.client(), "up?")
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": [{"type": "text", "text": "go "}, {"type": "text", "text": "up"}]}, ("go up", [])),
        ({"content": [{"type": "thinking", "thinking": "hm"}, "up"]}, ("up", [])),
        ({"content": None}, ("", [])),
        ({}, ("", [])),
        ({"content": "up \ud83d"}, ("up ?", [])),
        ({"tool_calls": [{"id": "a", "function": {"name": "go", "arguments": {"to": 1}}}]}, ("", [("a", {"to": 1})])),
        ({"tool_calls": [{"id": "a", "function": {"name": "go", "arguments": None}}]}, ("", [("a", {})])),
        ({"tool_calls": [{"function": {"name": "go", "arguments": "{}"}}]}, ("", [("call00000", {})])),
        (
            {"tool_calls": [{"id": "a", "function": {"name": "go", "arguments": '{"to": "\\ud83d"}'}}]},
            ("", [("a", {"to": "?"})]),
        ),
        (
            {"tool_calls": [{"id": "a", "function": {"name": "go", "arguments": {"\ud83d": "\ude00"}}}]},
            ("", [("a", {"?": "?"})]),
        ),
        (
            {"tool_calls": [{"id": "a", "function": {"name": "go", "arguments": '{"to": "\ud83d'}}]},
            ("", [("a", '{"to": "?')]),
        ),
    ],
)
async def test_what_is_unusual_is_read(
    judge: JudgeServer, message: dict[str, Any], expected: tuple[str, list[tuple[str, Any]]]
) -> None:
    judge.reply = [completion({"role": "assistant", **message})]
    response = await respond(judge.client(), "up?")
    text, calls = expected
    assert response.content == text
    arguments = [(identity, value if isinstance(value, dict) else {}) for identity, value in calls]
    assert [(call.id, call.args) for call in response.tool_calls] == arguments
    assert len(judge.requests) == 1
    json.dumps(response.to_message_dict(), ensure_ascii=False).encode()  # it can be sent on


def test_calls_of_tools_that_were_not_offered_are_left_out() -> None:
    answer = ModelAnswer("hm", [WrittenCall("a", "go", "{}")])
    assert answer.message(with_calls=False) == {"role": "assistant", "content": "hm"}


@pytest.mark.parametrize("body", [{}, {"type": "error", "error": {"message": "overloaded"}}, {"content": None}])
async def test_anthropics_answers_that_are_none(body: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected content of blocks, got "):
        anthropic_answer(AnthropicMessage.construct(**body))


@given(BODIES)
@settings(max_examples=60)
def test_whatever_comes_is_an_answer_or_none(body: Any) -> None:
    for response in (body, ChatCompletion.construct(**body) if isinstance(body, dict) else body):
        for read in (openai_answer, anthropic_answer):
            answer = ModelAnswer("")
            with suppress(ValueError):
                answer = read(response)
            json.dumps(answer.message(), ensure_ascii=False).encode()
