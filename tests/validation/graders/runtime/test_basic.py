"""Rewards, observations and states of the planned episode are checked, and each fault has its line."""

import json
from typing import Any

import pytest
from tests.support.validated import SCHEMA, episode, observed, state, subject, whole_episode

from openenv.validation.graders import Grader
from openenv.validation.graders.runtime import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.runtime.contracts import RuntimeEvidence
from openenv.validation.types import CheckStatus

GRADERS = [ObservationSchemaGrader(), RewardWellFormedGrader(), StateContractGrader()]
_GARBAGE = ["", "null", "[]", "7", '"text"', "{", '{"type": "observation"}', '{"type": "observation", "data": []}']


@pytest.mark.level("process")
@pytest.mark.parametrize("grader", GRADERS, ids=lambda grader: grader.check_id)
def test_episode_without_a_fault_passes(grader: Any) -> None:
    assert isinstance(grader, Grader)
    result = grader.run(subject(whole_episode()))
    assert (result.status, result.measured) == (CheckStatus.PASS, {"exchanges": 6})
    assert result.evidence == ["observed runtime contract holds"]


@pytest.mark.parametrize("grader", GRADERS, ids=lambda grader: grader.check_id)
@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (None, "unavailable"),
        (RuntimeEvidence(), "no step"),
        (episode(observed(0), state(0)), "no step"),
        (whole_episode(failure_phase="step", failure_reason="step failed (TIMEOUT)"), "step failed (TIMEOUT)"),
    ],
)
def test_check_without_a_whole_episode_is_skipped(grader: Any, evidence: RuntimeEvidence | None, reason: str) -> None:
    result = grader.run(subject(evidence))
    assert (result.status, len(result.evidence)) == (CheckStatus.SKIP, 1)
    assert reason in result.evidence[0]


@pytest.mark.parametrize("reward", [True, "1", [], 1.5, -0.1, float("nan"), float("inf"), 10**400])
def test_bad_reward_is_found(reward: Any) -> None:
    evidence = episode(observed(0, reward=None), state(0), observed(1, reward=reward), state(1))
    result = RewardWellFormedGrader().run(subject(evidence))
    assert result.status is CheckStatus.FAIL
    assert result.evidence == ["exchange 2: reward must be finite and in range"]
    assert result.remediation


@pytest.mark.parametrize("reward", [0, 1, 0.25])
def test_integer_and_bounds_are_rewards(reward: float) -> None:
    evidence = episode(observed(0, reward=None), state(0), observed(1, reward=reward), state(1))
    assert RewardWellFormedGrader().check(subject(evidence), evidence) == []


def test_missing_reward_is_found() -> None:
    without = json.dumps({"type": "observation", "data": {"observation": {"total": 0}, "done": False}})
    evidence = episode(without, state(0), observed(1, reward=None), state(1))
    lines = ["exchange 0: missing reward", "exchange 2: missing reward"]
    assert RewardWellFormedGrader().check(subject(evidence), evidence) == lines


@pytest.mark.parametrize("answer", _GARBAGE)
def test_garbage_is_a_malformed_envelope(answer: str) -> None:
    evidence = episode(observed(0), answer, answer, answer)
    line = "exchange 2: malformed observation envelope"
    assert ObservationSchemaGrader().check(subject(evidence), evidence) == [line]
    assert RewardWellFormedGrader().check(subject(evidence), evidence) == [line]
    states = ["exchange 1: malformed state envelope", "exchange 3: malformed state envelope"]
    assert StateContractGrader().check(subject(evidence), evidence) == states


@pytest.mark.parametrize("done", [None, 0, "no"])
def test_done_is_a_boolean(done: Any) -> None:
    evidence = episode(observed(0), state(0), observed(1, done=done), state(1))
    lines = ["exchange 2: malformed observation envelope"]
    assert ObservationSchemaGrader().check(subject(evidence), evidence) == lines


def test_evidence_without_observations_or_schema_is_a_problem() -> None:
    empty = RuntimeEvidence()
    assert ObservationSchemaGrader().check(subject(empty), empty) == ["no observations were measured"]
    assert StateContractGrader().check(subject(empty), empty) == ["no state snapshots were measured"]
    without = whole_episode(observation_schema_json=None)
    assert ObservationSchemaGrader().check(subject(without), without) == ["observation schema unavailable"]


@pytest.mark.parametrize("count", [0, 2, True, 1.0, "1", None])
def test_wrong_count_of_steps_is_found(count: Any) -> None:
    evidence = episode(observed(0), state(0), observed(1), state(count))
    assert StateContractGrader().check(subject(evidence), evidence) == ["exchange 3: incorrect step_count"]


def test_state_of_another_episode_is_found() -> None:
    evidence = episode(observed(0), state(0, "other"), observed(1), state(1, None))
    lines = ["exchange 1: episode_id differs from reset", "exchange 3: episode_id differs from reset"]
    assert StateContractGrader().check(subject(evidence), evidence) == lines


def test_evidence_of_a_result_is_bounded() -> None:
    answers = [observed(0), *[each for _ in range(50) for each in (state(7), observed(1, reward=9))], state(7)]
    result = StateContractGrader().run(subject(episode(*answers)))
    assert len(result.evidence) == 20


@pytest.mark.level("process")
def test_observation_that_does_not_fit_is_named_by_its_field() -> None:
    evidence = episode(observed(0), state(0), observed("one"), state(1))
    (line,) = ObservationSchemaGrader().check(subject(evidence), evidence)
    assert line.startswith("exchange 2: $.total does not fit the observation schema: 'one' is not of type")


@pytest.mark.level("process")
def test_reset_has_a_schema_of_its_own() -> None:
    other = json.dumps({**SCHEMA, "properties": {"total": {"const": 0}}})
    evidence = episode(observed(3), state(0), observed(1), state(1), reset_observation_schema_json=other)
    (line,) = ObservationSchemaGrader().check(subject(evidence), evidence)
    assert line.startswith("exchange 0: $.total")
