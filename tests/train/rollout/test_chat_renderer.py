"""Actions as text, in the chat templates of real models."""

from collections.abc import Collection
from typing import Any

import pytest
from tests.support.models.chat_models import CHATML, DEAF, ENDLESS, TERSE, THINKING, chat_model, chat_tokenizer

from openenv.adapters.text import ActionText
from openenv.core.client_types import StepResult
from openenv.core.exceptions import ConfigurationError
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.text_form import TextForm
from openenv.train.rollout.chat_renderer import ChatRenderer
from openenv.train.rollout.renderer import text_only

ACTIONS = ActionText({"properties": {"move": {"enum": ["left", "right"]}}, "required": ["move"]}, "left")
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def chat(
    template: str | None, *, thinking: bool = False, pixels: Collection[str] = (), **settings: Any
) -> ChatRenderer:
    tokenizer = chat_tokenizer(template)
    model = chat_model(tokenizer)
    form = TextForm(ACTIONS, "Answer left or right.", pixels)
    return ChatRenderer(tokenizer, model, form, 16, thinking=thinking, **settings)


def decoded(ids: list[int]) -> str:
    return str(chat_tokenizer().decode(ids))


def encoded(text: str) -> list[int]:
    return list(chat_tokenizer().encode(text))


def shows(observation: str, problem: str | None = None) -> list[MoveResult]:
    return [MoveResult(Move("left"), observation, problem)]


def opening(renderer: ChatRenderer, observation: str, prompt: list[dict[str, Any]] | None = None) -> str:
    return decoded(renderer.opening(renderer.form.opening_messages(observation, prompt)))


def reply(renderer: ChatRenderer, written: list[int], results: list[MoveResult]) -> list[int]:
    return renderer.reply(written, renderer.form.replies(renderer.read(written).message, results))


def test_an_answer_is_one_action() -> None:
    said = {"role": "assistant", "content": "right"}
    assert chat(CHATML).read(encoded("right<|im_end|>")) == (said, [Move("right", {"move": "right"})])
    (wrong,) = chat(CHATML).read(encoded("up<|im_end|>")).moves
    assert wrong == Move("up", {"move": "left"}, "expected one of left, right; got 'up'")


def test_the_opening_is_the_prompt_the_instructions_and_the_observation() -> None:
    prompt = [{"role": "system", "content": "Catch."}, {"role": "user", "content": "Now: "}]
    assert opening(chat(CHATML), "ball 3", prompt) == (
        "<|im_start|>system\nCatch.<|im_end|>\n<|im_start|>user\nNow: \nAnswer left or right.\n\nball 3<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_pictures_are_refused() -> None:
    result = StepResult({"text": "look", "screenshot": PICTURE})
    with pytest.raises(ConfigurationError, match="Train with environment_factory"):
        text_only([{"type": "text", "text": "look"}])
    with pytest.raises(ConfigurationError, match="Train with environment_factory"):
        chat(CHATML).shown(result)
    rows = StepResult({"text": "look", "screen": [[[1, 2, 3]] * 64] * 64})
    with pytest.raises(ConfigurationError, match="Train with environment_factory"):
        chat(CHATML, pixels={"screen"}).shown(rows)
    assert chat(CHATML).shown(rows) == "look"
    assert text_only("look") == chat(CHATML).shown(StepResult({"text": "look"})) == "look"


def test_an_episode_opens_with_the_instructions_and_the_observation() -> None:
    assert opening(chat(CHATML), "ball 3") == (
        "<|im_start|>user\nAnswer left or right.\n\nball 3<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize(
    ("template", "between"),
    [
        (CHATML, "<|im_end|>\n<|im_start|>user\nball 4<|im_end|>\n<|im_start|>assistant\n"),
        (
            THINKING,
            "<|im_end|>\n<|im_start|>user\nball 4<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
        (TERSE, "<|im_end|>[user] ball 4<|im_end|>"),
    ],
)
def test_between_two_actions_is_what_the_template_puts_there(template: str, between: str) -> None:
    renderer = chat(template)
    cut_off = encoded("left")
    assert decoded(reply(renderer, cut_off, shows("ball 4"))) == between
    ended = encoded("left<|im_end|>")
    assert decoded([*ended, *reply(renderer, ended, shows("ball 4"))]) == f"left{between}"
    # A model may end its turn by another of its end tokens: that one then stands for the template's.
    other_end = encoded("left<|endoftext|>")
    assert reply(renderer, other_end, shows("ball 4")) == reply(renderer, ended, shows("ball 4"))


def test_a_template_without_an_end_token_still_goes_on() -> None:
    renderer = chat(ENDLESS)
    assert decoded(reply(renderer, encoded("left"), shows("ball 4"))) == "\n\nuser: ball 4\n\nassistant:"
    assert decoded(reply(renderer, encoded("left<|im_end|>"), shows("ball 4"))) == "\n\nuser: ball 4\n\nassistant:"


def test_thinking_is_left_to_the_template() -> None:
    assert opening(chat(THINKING, thinking=True), "ball 3").endswith("<|im_start|>assistant\n")
    assert opening(chat(THINKING), "ball 3").endswith("<think>\n\n</think>\n\n")


def test_a_problem_is_shown() -> None:
    between = decoded(reply(chat(CHATML), encoded("up"), shows("ball 4", "expected left or right")))
    assert "user\nThat was no legal action: expected left or right\n\nball 4<|im_end|>" in between


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("left<|im_end|>", "left"),
        (" left \n", "left"),
        ("<think>\nright? no.\n</think>\n\nleft<|im_end|>", "left"),
        ("</think>a</think>left", "left"),
        ("<think>left", "<think>left"),
        ("<|im_end|>", ""),
    ],
)
def test_an_action_is_what_comes_after_the_reasoning(written: str, text: str) -> None:
    message, (move,) = chat(CHATML).read(encoded(written))
    assert move.text == text
    assert message["content"] == written.removesuffix("<|im_end|>"), "the record has all that the model wrote"


def test_every_end_token_of_the_model_stops_an_action() -> None:
    assert chat(CHATML).stop_ids == frozenset(encoded("<|im_end|><|endoftext|>"))


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"has no chat template\. Take a model made for conversation"):
        chat(None)


def test_a_template_that_hides_answers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="does not show the assistant's messages"):
        reply(chat(DEAF), [5], shows("ball 4"))
