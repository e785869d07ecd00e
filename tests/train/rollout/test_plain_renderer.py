"""Episodes as plain tokens, for the tiny policy."""

from typing import Literal

from openenv.adapters.text import ActionText
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action
from openenv.train.agents.tiny import build_tokenizer
from openenv.train.forms.moves import Move, MoveResult
from openenv.train.rollout.plain_renderer import PlainRenderer


class Turn(Action):
    direction: Literal["left", "turn right"]


class Say(Action):
    message: str


def plain(action: type[Action], max_action_tokens: int = 4) -> PlainRenderer:
    actions = ActionText(action)
    return PlainRenderer(build_tokenizer(actions.choices, ["ball 3 hello world"]), actions, max_action_tokens)


def shows(observation: str, problem: str | None = None) -> list[MoveResult]:
    return [MoveResult(Move("left"), observation, problem)]


def reply(renderer: PlainRenderer, written: list[int], results: list[MoveResult]) -> list[int]:
    return renderer.reply(written, renderer.form.replies(renderer.read(written).message, results))


def opening(renderer: PlainRenderer, observation: str) -> list[int]:
    return renderer.opening(renderer.form.opening_messages(observation))


def test_a_finite_action_is_one_token_without_an_end() -> None:
    renderer = plain(Turn)
    tokenizer = build_tokenizer(ActionText(Turn).choices, ["ball 3 hello world"])
    assert (renderer.max_action_tokens, renderer.stop_ids) == (1, frozenset())
    assert opening(renderer, "ball 3") == tokenizer.encode("ball 3")
    (turn_right,) = tokenizer.encode("turn right")
    assert reply(renderer, [turn_right], shows("ball 3")) == tokenizer.encode("ball 3")
    assert renderer.read([turn_right]).moves == (Move("turn right", Turn(direction="turn right")),)
    assert renderer.answer("turn right") == [turn_right]
    for token, text in ((tokenizer.pad_token_id, ""), (tokenizer.encode("ball")[0], "ball")):
        (move,) = renderer.read([token]).moves
        assert move.text == text
        assert move.problem is not None


def test_other_actions_end_with_the_end_token() -> None:
    renderer = plain(Say)
    tokenizer = build_tokenizer([], ["ball 3 hello world"])
    end = tokenizer.eos_token_id
    hello, world = tokenizer.encode("hello world")
    assert (renderer.max_action_tokens, renderer.stop_ids) == (4, frozenset({end}))
    assert [move.text for move in renderer.read([hello, world, end]).moves] == ["hello world"]
    assert [move.text for move in renderer.read([end]).moves] == [""]
    assert renderer.answer("hello world") == [hello, world, end]
    assert reply(renderer, [hello, end], shows("ball 3")) == tokenizer.encode("ball 3")
    assert reply(renderer, [hello, world], shows("ball 3")) == [end, *tokenizer.encode("ball 3")]


def test_an_empty_observation_still_begins_an_episode() -> None:
    assert len(opening(plain(Turn), "")) == 1
    assert reply(plain(Turn), [5], shows("")) == []


def test_what_is_shown_is_the_observation_s_text_and_no_problem() -> None:
    assert plain(Turn).shown(StepResult({"text": "ball 3"})) == "ball 3"
    assert reply(plain(Turn), [5], shows("ball 3", "no such move")) == reply(plain(Turn), [5], shows("ball 3"))
