"""Episodes as tokens: for the tiny policy, and in the chat templates of real models."""

from typing import Literal

import pytest
from tests.support.models.chat_models import CHATML, DEAF, ENDLESS, TERSE, THINKING, chat_model, chat_tokenizer

from openenv.adapters.text import ActionText
from openenv.core.env_server.types import Action
from openenv.core.exceptions import ConfigurationError
from openenv.train.agents.tiny import build_tokenizer
from openenv.train.rollout.dialogue import ChatDialogue, PlainDialogue


class Move(Action):
    direction: Literal["left", "turn right"]


class Say(Action):
    message: str


def plain(action: type[Action], max_action_tokens: int = 4) -> PlainDialogue:
    actions = ActionText(action)
    return PlainDialogue(build_tokenizer(actions.choices, ["ball 3 hello world"]), actions, max_action_tokens)


def chat(template: str | None, *, thinking: bool = False) -> ChatDialogue:
    tokenizer = chat_tokenizer(template)
    return ChatDialogue(tokenizer, chat_model(tokenizer), "Answer left or right.", 16, thinking)


def decoded(ids: list[int]) -> str:
    return str(chat_tokenizer().decode(ids))


def encoded(text: str) -> list[int]:
    return list(chat_tokenizer().encode(text))


class TestPlain:
    def test_a_finite_action_is_one_token_without_an_end(self) -> None:
        dialogue = plain(Move)
        tokenizer = build_tokenizer(ActionText(Move).choices, ["ball 3 hello world"])
        assert (dialogue.max_action_tokens, dialogue.stop_ids) == (1, frozenset())
        assert dialogue.opening("ball 3") == tokenizer.encode("ball 3")
        (turn_right,) = tokenizer.encode("turn right")
        assert dialogue.between([turn_right], "ball 3") == tokenizer.encode("ball 3")
        assert dialogue.action_text([turn_right]) == "turn right"
        assert dialogue.action_text([tokenizer.pad_token_id]) == ""
        assert dialogue.action_text([tokenizer.encode("ball")[0]]) == "ball"

    def test_other_actions_end_with_the_end_token(self) -> None:
        dialogue = plain(Say)
        tokenizer = build_tokenizer([], ["ball 3 hello world"])
        end = tokenizer.eos_token_id
        hello, world = tokenizer.encode("hello world")
        assert (dialogue.max_action_tokens, dialogue.stop_ids) == (4, frozenset({end}))
        assert dialogue.action_text([hello, world, end]) == "hello world"
        assert dialogue.action_text([end]) == ""
        assert dialogue.between([hello, end], "ball 3") == tokenizer.encode("ball 3")
        assert dialogue.between([hello, world], "ball 3") == [end, *tokenizer.encode("ball 3")]

    def test_an_empty_observation_still_begins_an_episode(self) -> None:
        assert len(plain(Move).opening("")) == 1
        assert plain(Move).between([5], "") == []

    def test_a_problem_is_not_shown(self) -> None:
        assert plain(Move).between([5], "ball 3", "no such move") == plain(Move).between([5], "ball 3")


class TestChat:
    def test_an_episode_opens_with_the_instructions_and_the_observation(self) -> None:
        assert decoded(chat(CHATML).opening("ball 3")) == (
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
    def test_between_two_actions_is_what_the_template_puts_there(self, template: str, between: str) -> None:
        dialogue = chat(template)
        cut_off = encoded("left")
        assert decoded(dialogue.between(cut_off, "ball 4")) == between
        ended = encoded("left<|im_end|>")
        assert decoded([*ended, *dialogue.between(ended, "ball 4")]) == f"left{between}"
        # A model may end its turn by another of its end tokens: that one then stands for the template's.
        other_end = encoded("left<|endoftext|>")
        assert dialogue.between(other_end, "ball 4") == dialogue.between(ended, "ball 4")

    def test_a_template_without_an_end_token_still_goes_on(self) -> None:
        dialogue = chat(ENDLESS)
        assert decoded(dialogue.between(encoded("left"), "ball 4")) == "\n\nuser: ball 4\n\nassistant:"
        assert decoded(dialogue.between(encoded("left<|im_end|>"), "ball 4")) == "\n\nuser: ball 4\n\nassistant:"

    def test_thinking_is_left_to_the_template(self) -> None:
        assert decoded(chat(THINKING, thinking=True).opening("ball 3")).endswith("<|im_start|>assistant\n")
        assert decoded(chat(THINKING).opening("ball 3")).endswith("<think>\n\n</think>\n\n")

    def test_a_problem_is_told(self) -> None:
        between = decoded(chat(CHATML).between(encoded("up"), "ball 4", "expected left or right"))
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
    def test_an_action_is_what_comes_after_the_reasoning(self, written: str, text: str) -> None:
        assert chat(CHATML).action_text(encoded(written)) == text

    def test_every_end_token_of_the_model_stops_an_action(self) -> None:
        assert chat(CHATML).stop_ids == frozenset(encoded("<|im_end|><|endoftext|>"))

    def test_a_tokenizer_without_a_template_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"has no chat template\. Take a model made for conversation"):
            chat(None)

    def test_a_template_that_hides_answers_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="does not show the assistant's messages"):
            chat(DEAF).between([5], "ball 4")
