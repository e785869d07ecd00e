"""Conversations of texts: what a model is shown, and what its answers mean."""

import pytest
from PIL import Image

from openenv.adapters.text import ActionText
from openenv.core.client_types import StepResult
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.form import prompt_messages
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.text_form import TextForm
from openenv.train.tools.contents import Content, blocks_of

ACTIONS = ActionText({"properties": {"move": {"enum": ["left", "right"]}}, "required": ["move"]}, "left")
FORM = TextForm(ACTIONS, "Answer left or right.", {"screen"})
ROWS = [[[1, 2, 3]] * 64] * 64
PICTURE = {"type": "image", "image": Image.new("RGB", (2, 2), "red")}


def seen(text: str) -> Content:
    return [PICTURE, {"type": "text", "text": text}]


def test_results_are_shown_as_text_behind_their_pictures() -> None:
    assert FORM.shown(StepResult({"ball": 3, "done": False})) == "ball 3"
    assert FORM.shown(StepResult({"prompt": "Win."})) == "prompt Win."
    picture, text = blocks_of(FORM.shown(StepResult({"text": "look", "screen": ROWS})))
    assert picture["image"].size == (64, 64)
    assert text == {"type": "text", "text": "look"}
    assert TextForm(ACTIONS).shown(StepResult({"text": "look", "screen": ROWS})) == "look"


@pytest.mark.parametrize("observation", ["ball 3", seen("ball 3")])
def test_a_conversation_opens_with_the_instructions(observation: Content) -> None:
    (message,) = FORM.opening_messages(observation)
    assert message["role"] == "user"
    assert text_of(message["content"]) == "Answer left or right.\n\nball 3"
    assert isinstance(observation, str) or message["content"][0] is PICTURE
    system = {"role": "system", "content": "Catch."}
    with_system = TextForm(ACTIONS, "Answer left or right.", prompt=prompt_messages(system_prompt="Catch."))
    assert with_system.opening_messages(observation) == [system, message]
    assert with_system.opening_messages(None) == [system]
    assert TextForm(ACTIONS).opening_messages(observation) == [{"role": "user", "content": observation}]


@pytest.mark.parametrize("observation", ["ball 3", seen("ball 3")])
def test_the_goal_stands_before_the_instructions(observation: Content) -> None:
    question = [{"role": "user", "content": "Which way?\n\n"}]
    form = TextForm(ACTIONS, "Answer left or right.", prompt=prompt_messages("Catch the ball.", question=question))
    (message,) = form.opening_messages(observation)
    assert text_of(message["content"]) == "Catch the ball.\n\nWhich way?\nAnswer left or right.\n\nball 3"
    (without,) = TextForm(ACTIONS, prompt=prompt_messages("Catch the ball.")).opening_messages(observation)
    assert text_of(without["content"]) == "Catch the ball.\n\nball 3"
    assert isinstance(observation, str) or message["content"][0] is without["content"][0] is PICTURE


def test_an_answer_is_one_action() -> None:
    right = Move("right", {"move": "right"})
    assert FORM.tools == []
    assert FORM.read({"role": "assistant", "content": "right"}) == [right] == [FORM.move({"move": "right"})]
    assert FORM.answer(right, 0) == {"role": "assistant", "content": "right"}
    (wrong,) = FORM.read({"role": "assistant", "content": "up"})
    assert wrong == FORM.read_text("up")
    assert (wrong.action, wrong.problem) == ({"move": "left"}, "expected one of left, right; got 'up'")


@pytest.mark.parametrize("observation", ["ball 2", seen("ball 2")])
def test_a_problem_stands_before_what_is_seen_now(observation: Content) -> None:
    move = Move("left", {"move": "left"})
    said = FORM.answer(move, 0)
    assert said == {"role": "assistant", "content": "left"}
    (reply,) = FORM.replies(said, [MoveResult(move, observation, None, StepResult({}))])
    assert reply == {"role": "user", "content": observation}
    (refused,) = FORM.replies(said, [MoveResult(move, observation, "The wall.")])
    assert text_of(refused["content"]) == "That was no legal action: The wall.\n\nball 2"
    assert isinstance(observation, str) or refused["content"][0] is PICTURE
    # The same of an action that was done in place of an illegal one.
    done = MoveResult(move, observation, "The wall.", StepResult({}))
    assert FORM.replies(said, [done]) == [refused]
    assert FORM.replies(said, [], failed=True) == []
