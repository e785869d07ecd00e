"""Messages as OpenAI's API has them, both ways."""

from typing import Any

import pytest
from PIL import Image

from openenv.core.llm_answers import ModelAnswer, WrittenCall
from openenv.train.forms.openai_messages import to_openai

PICTURE = {"type": "image", "image": Image.new("RGB", (2, 2), "red")}
TEXT = {"type": "text", "text": "look"}


def test_pictures_become_addresses() -> None:
    (message,) = to_openai([{"role": "user", "content": [PICTURE, TEXT]}])
    picture, text = message["content"]
    assert picture["type"] == "image_url"
    assert picture["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert text == TEXT


def test_pictures_of_tools_follow_all_their_answers() -> None:
    answers = [{"role": "tool", "tool_call_id": str(number), "content": [TEXT, PICTURE]} for number in range(2)]
    written = to_openai([*answers, {"role": "assistant", "content": "I see"}])
    assert [message["role"] for message in written] == ["tool", "tool", "user", "assistant"]
    assert [message["content"] for message in written[:2]] == ["look", "look"]
    assert [block["type"] for block in written[2]["content"]] == ["image_url", "image_url"]
    assert to_openai(answers)[-1]["role"] == "user"


@pytest.mark.parametrize(
    ("written", "read", "sent"),
    [
        ('{"to": 1}', {"to": 1}, '{"to": 1}'),
        ({"to": 1}, {"to": 1}, '{"to": 1}'),
        ("", {}, "{}"),
        ('{"to": ', '{"to": ', "{}"),
        ("[1]", [1], "{}"),
    ],
)
def test_arguments_are_read_as_they_came_and_sent_as_an_object(written: Any, read: Any, sent: str) -> None:
    message = ModelAnswer("", [WrittenCall("a1", "go", written)]).message()
    assert message["content"] == ""
    assert message["tool_calls"][0]["id"] == "a1"
    assert message["tool_calls"][0]["function"] == {"name": "go", "arguments": read}
    (back,) = to_openai([message])
    assert back["tool_calls"][0]["function"] == {"name": "go", "arguments": sent}


def test_reasoning_is_recorded_beside_the_content_and_sent_to_no_server() -> None:
    message = ModelAnswer("left", reasoning="The ball is left.").message(with_calls=False)
    assert message == {"role": "assistant", "content": "left", "reasoning_content": "The ball is left."}
    assert to_openai([message]) == [{"role": "assistant", "content": "left"}]
    assert "reasoning_content" not in ModelAnswer("left").message(with_calls=False)
