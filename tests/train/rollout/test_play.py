"""The rules of an episode, whatever steps its environment."""

import math
from typing import Any

import pytest

from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    InvalidRequestError,
    OpenEnvError,
    RequestRejectedError,
    ServerExecutionError,
    ServerParticipantError,
)
from openenv.core.wire.results import ParticipantUsage
from openenv.records.answers import AnswerRule
from openenv.train.forms.moves import Move
from openenv.train.rollout.play import Play

STEP = Move("left", {"move": "left"})


def begun(**settings: Any) -> Play:
    play = Play({"seed": 3, "level": 2}, shown=lambda result: str(result.observation), **settings)
    play.begin(StepResult("start"))
    return play


def to_do(play: Play) -> list[Move]:
    return [] if play.next_move is None else [play.next_move]


def done(play: Play, *results: StepResult[Any] | OpenEnvError | None) -> Play:
    for result in results:
        play.act([STEP])
        play.note(result)
    return play


def test_an_episode_is_played_until_the_environment_ends_it() -> None:
    play = begun()
    assert (play.parameters, play.episode.seed, play.episode.task) == ({"seed": 3, "level": 2}, 3, {"level": 2})
    assert (play.is_over, play.observation, to_do(play)) == (False, "start", [])
    play.act([STEP])
    assert to_do(play) == [STEP]
    play.note(StepResult("middle", reward=0.5))
    assert (play.is_over, to_do(play), play.observation) == (False, [], "middle")
    done(play, StepResult("end", reward=1.0, done=True))
    assert (play.is_over, play.episode.done, play.episode.reward, play.episode.cut_by) == (True, True, 1.5, None)
    assert [turn.observation for turn in play.episode.turns] == ["start", "middle"]
    assert [result.observation for result in play.results] == ["middle", "end"]
    assert play.answered == play.results[1:]
    assert (play.first, play.last) == (StepResult("start"), play.results[1].result)


def test_an_episode_that_is_done_at_its_reset_takes_no_moves() -> None:
    play = Play({})
    play.begin(StepResult("over", 0.0, done=True))
    assert (play.is_over, play.episode.done, play.episode.turns) == (True, True, [])


def test_a_reset_that_failed_is_the_episode_s_error() -> None:
    play, error = Play({}), ServerExecutionError("no board", code="EXECUTION_ERROR")
    play.begin(error)
    assert (play.is_over, play.episode.error, play.first) == (True, error, None)


@pytest.mark.parametrize(
    "refusal", [RequestRejectedError("the wall", code="VALIDATION_ERROR"), InvalidRequestError("the wall")]
)
def test_a_refused_action_is_a_turn_and_the_episode_goes_on(refusal: OpenEnvError) -> None:
    play = done(begun(), refusal)
    assert (play.is_over, play.episode.error, play.episode.illegal_actions) == (False, None, 1)
    assert [(result.problem, result.content, result.observation) for result in play.results] == [
        ("the wall", "the wall", "start")
    ]


def test_a_tool_s_error_is_a_problem_too() -> None:
    failed = {"tool_name": "guess", "result": None, "error": {"message": "no such word"}}
    play = done(begun(), StepResult(failed))
    assert play.episode.turns[0].problem == play.results[0].problem == "no such word"


@pytest.mark.parametrize(
    "failure", [ServerExecutionError("it broke", code="EXECUTION_ERROR"), StepResult("x", reward=math.inf)]
)
def test_a_failure_ends_the_episode_and_is_no_turn(failure: StepResult[Any] | OpenEnvError) -> None:
    play = done(begun(), StepResult("middle", reward=0.5))
    play.act([STEP, STEP])
    play.note(failure)
    assert (play.is_over, to_do(play), len(play.results), len(play.episode.turns)) == (True, [], 1, 1)
    assert (play.answered, play.episode.reward) == ([], 0.5)
    assert play.episode.error is not None


def test_moves_behind_the_end_of_the_episode_are_not_done() -> None:
    play = begun()
    play.act([STEP, STEP, STEP])
    play.note(StepResult("middle"))
    assert to_do(play) == [STEP]
    play.note(StepResult("end", 0.0, done=True))
    assert to_do(play) == []
    assert len(play.answered) == 2


def test_an_episode_is_cut_off_after_its_last_turn() -> None:
    play = done(begun(max_turns=2), StepResult("a"), None)
    assert (play.is_over, play.episode.done, play.episode.cut_by) == (True, False, "max_turns")
    ended = done(begun(max_turns=2), StepResult("a"), StepResult("b", 0.0, done=True))
    assert (ended.is_over, ended.episode.cut_by) == (True, None)


def test_an_agent_that_makes_no_move_ends_the_episode() -> None:
    play = begun()
    play.act([])
    assert (play.is_over, play.episode.done, play.episode.cut_by, play.episode.error) == (True, False, None, None)


def test_what_the_reset_is_sent_may_be_less_than_the_task() -> None:
    play = Play({"seed": 1, "note": "x"}, parameters={"seed": 1})
    assert (play.parameters, play.episode.parameters) == ({"seed": 1}, {"seed": 1, "note": "x"})


NONSENSE = Move("bananas", {"move": "stay"}, "expected one of left, stay; got 'bananas'")


def test_an_illegal_answer_is_played_as_the_fallback_unless_another_rule_is_set() -> None:
    play = begun()
    play.act([NONSENSE])
    assert to_do(play) == [NONSENSE]
    play.note(StepResult("middle", reward=1.0))
    assert (play.is_over, play.episode.reward, play.episode.illegal_actions) == (False, 1.0, 1)


@pytest.mark.parametrize("penalty", [0.0, 0.25])
def test_an_illegal_answer_may_cost_reward_and_is_not_played_then(penalty: float) -> None:
    play = begun(rule=AnswerRule("penalty", penalty))
    play.act([NONSENSE])
    assert [move.action for move in to_do(play)] == [None]
    play.note(None)
    assert (play.is_over, play.observation, play.episode.turns[0].action) == (False, "start", "bananas")
    done(play, StepResult("end", reward=1.0, done=True))
    assert [turn.reward for turn in play.episode.turns] == [-penalty, 1.0]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        InvalidRequestError("the wall"),
        StepResult({"tool_name": "look", "result": None, "error": {"message": "no such room"}}, reward=0.0),
    ],
)
def test_an_illegal_answer_may_end_the_episode(answer: Any) -> None:
    play = begun(rule=AnswerRule("end"))
    play.act([NONSENSE if answer is None else STEP, STEP])
    play.note(answer)
    assert (play.is_over, play.episode.cut_by, play.next_move) == (True, "illegal_answers", None)
    assert (play.episode.illegal_actions, len(play.episode.turns), play.episode.error) == (1, 1, None)


def test_the_environment_s_own_end_is_no_rule_s() -> None:
    play = begun(rule=AnswerRule("end"))
    play.act([STEP])
    play.note(StepResult({"tool_name": "look", "result": None, "error": "lost"}, reward=-1.0, done=True))
    assert (play.episode.done, play.episode.cut_by) == (True, None)


def test_answers_without_a_call_are_counted_and_those_that_are_missing_are_not() -> None:
    silent = begun()
    silent.act([])
    assert (silent.is_over, silent.episode.answers_without_call) == (True, 1)
    too_long = begun()
    too_long.cut("max_context")
    too_long.act([])
    assert (too_long.episode.answers_without_call, too_long.episode.cut_by) == (0, "max_context")


def test_an_end_without_a_reward_is_a_failure_and_no_reward_of_0() -> None:
    play = begun()
    play.act([STEP, STEP])
    play.note(StepResult("middle"))
    assert play.episode.error is None, "a step before the end needs none"
    play.note(StepResult("end", done=True))
    assert (play.is_over, play.episode.failure) == (True, "no_reward")


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "high"])
def test_a_reward_that_is_no_finite_number_is_a_failure(reward: Any) -> None:
    play = begun()
    play.act([STEP])
    play.note(StepResult("end", reward, done=True))
    assert (play.episode.failure, play.episode.turns) == ("invalid_reward", [])
    assert "expected a finite number" in str(play.episode.error)


def test_a_task_that_is_refused_and_a_reset_that_fails_are_kinds_of_their_own() -> None:
    refused, failed = Play({}), Play({})
    refused.begin(RequestRejectedError("no such task", "VALIDATION_ERROR"))
    failed.begin(ServerExecutionError("KeyError: 7", "EXECUTION_ERROR"))
    assert (refused.episode.failure, failed.episode.failure) == ("task_refused", "reset")
    assert refused.is_over
    assert failed.is_over


def test_what_participants_used_is_on_record_and_of_one_that_fails_too() -> None:
    usage = {"replies": 1, "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25, "model": "m"}
    play = Play({})
    play.begin(StepResult("start", metadata={"participants": {"user": usage}}))
    assert play.episode.participants == {"user": ParticipantUsage(1, 10, 5, 0.25, "m")}
    done(play, StepResult("middle", reward=0.0, metadata={"participants": {"user": {**usage, "replies": 2}}}))
    assert play.episode.participants["user"].replies == 2
    done(play, StepResult("middle", reward=0.0))
    assert play.episode.participants["user"].replies == 2
    failed = {"participant": "user", "participants": {"user": {**usage, "replies": 3}}}
    done(play, ServerParticipantError("why", "EXECUTION_ERROR", failed))
    assert play.is_over
    assert play.episode.participants["user"].replies == 3
