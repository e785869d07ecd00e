"""Conversations of texts: what a model is shown, and what its answers mean."""

import pytest
from PIL import Image

from openenv.adapters.text import ActionText
from openenv.core.client_types import StepResult
from openenv.train.episodes.episode import Turn
from openenv.train.episodes.played_episode import text_of
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.forms.text_form import TextForm, turn_messages
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
    assert FORM.opening_messages(observation, "Catch.") == [{"role": "system", "content": "Catch."}, message]
    assert FORM.opening_messages(None, "Catch.") == [{"role": "system", "content": "Catch."}]
    assert TextForm(ACTIONS).opening(observation) == observation


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
    _, said, reply = FORM.conversation("ball 3", [MoveResult(move, observation, None, StepResult({}))])
    assert said == {"role": "assistant", "content": "left"}
    assert reply == {"role": "user", "content": observation}
    (refused,) = FORM.replies(said, [MoveResult(move, observation, "The wall.")])
    assert text_of(refused["content"]) == "That was no legal action: The wall.\n\nball 2"
    assert isinstance(observation, str) or refused["content"][0] is PICTURE
    # The same of an action that was done in place of an illegal one.
    done = MoveResult(move, observation, "The wall.", StepResult({}))
    assert FORM.replies(said, [done]) == [refused]
    assert FORM.replies(said, [], failed=True) == []


def test_turns_are_observations_and_actions() -> None:
    turns = [Turn("ball 3", "left", 0.0), Turn("ball 2", "right", 1.0)]
    assert [(message["role"], message["content"]) for message in turn_messages(turns)] == [
        ("user", "ball 3"),
        ("assistant", "left"),
        ("user", "ball 2"),
        ("assistant", "right"),
    ]
