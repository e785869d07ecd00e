"""Actions as text, in a dialogue that begins with the dataset's prompt."""

from typing import Any

import pytest
from tests.support.models.chat_models import CHATML, chat_model, chat_tokenizer
from tests.train.rollout.test_tool_dialogue import outcome

from openenv.adapters.text import ActionText
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError, RequestRejectedError
from openenv.train.rollout.conversation import ChatTextDialogue, TextDialogue, text_of
from openenv.train.rollout.dialogue import ChatDialogue
from openenv.train.rollout.playing import Move

ACTIONS = ActionText({"properties": {"move": {"enum": ["left", "right"]}}, "required": ["move"]}, "left")
TOKENIZER = chat_tokenizer(CHATML)
CHAT = ChatDialogue(TOKENIZER, chat_model(TOKENIZER), "Answer left or right.", 16)
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def messages_of(prompt: Any, observation: str) -> list[dict[str, Any]]:
    return [*prompt[:-1], {**prompt[-1], "content": prompt[-1]["content"] + observation}]


def decoded(ids: list[int]) -> str:
    return str(TOKENIZER.decode(ids))


def test_an_answer_is_one_action() -> None:
    dialogue = TextDialogue(CHAT, ACTIONS)
    assert dialogue.read(TOKENIZER.encode("right<|im_end|>")) == [Move("right", {"move": "right"})]
    (wrong,) = dialogue.read(TOKENIZER.encode("up<|im_end|>"))
    assert wrong == Move("up", {"move": "left"}, "expected one of left, right; got 'up'")


def test_the_reply_shows_what_is_seen_now_and_what_was_wrong() -> None:
    dialogue = TextDialogue(CHAT, ACTIONS)
    move = Move("right", {"move": "right"})
    written = TOKENIZER.encode("right<|im_end|>")
    assert decoded(dialogue.reply(written, [move], [outcome(move, "ball 3")])) == (
        "\n<|im_start|>user\nball 3<|im_end|>\n<|im_start|>assistant\n"
    )
    assert "That was no legal action: no\n\nball 3" in decoded(
        dialogue.reply(written, [move], [outcome(move, "ball 3", "no")])
    )
    assert dialogue.refusal(RequestRejectedError("the wall", code="VALIDATION_ERROR")) == "the wall"
    assert dialogue.problem(StepResult({"text": "x"})) is None


def test_the_opening_is_the_prompt_the_instructions_and_the_observation() -> None:
    prompt = [{"role": "system", "content": "Catch."}, {"role": "user", "content": "Now: "}]
    opening = ChatTextDialogue(CHAT, ACTIONS, "Say left or right.", messages_of).opening(prompt, "ball 3")
    assert decoded(opening) == (
        "<|im_start|>system\nCatch.<|im_end|>\n<|im_start|>user\nNow: Say left or right.\n\nball 3<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert "Answer left or right.\n\nball 3" in decoded(TextDialogue(CHAT, ACTIONS).opening(prompt, "ball 3"))


def test_pictures_are_refused() -> None:
    result = StepResult({"text": "look", "screenshot": PICTURE})
    with pytest.raises(ConfigurationError, match="Train with environment_factory"):
        text_of(result)
    with pytest.raises(ConfigurationError, match="Train with environment_factory"):
        ChatTextDialogue(CHAT, ACTIONS, "", messages_of).shown(result)
    assert text_of(StepResult({"text": "look"})) == "look"
