"""Kinds of failures, and their counts."""

from pathlib import Path
from typing import Any

import pytest

from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    FailureKind,
    InvalidAnswerError,
    InvalidRewardError,
    MissingRewardError,
    ModelAnswerError,
    ModelUnavailableError,
    OpenEnvError,
    ParticipantFailedError,
    RequestGivenUpError,
    ResponseTimeoutError,
    ServerEndedError,
    ServerError,
)
from openenv.records.failures import FailureCounter, failure_counts, failure_kind, failures_in, failures_text


def frame(code: str, **details: Any) -> ServerError:
    return ServerError.from_frame({"message": "why", "code": code, **details})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (frame("EXECUTION_ERROR"), "environment"),
        (frame("EXECUTION_ERROR", component="format"), "rubric"),
        (frame("EXECUTION_ERROR", component="grade", failure="judge"), "judge"),
        (frame("EXECUTION_ERROR", failure="disk_full"), "disk_full"),
        (frame("EXECUTION_ERROR", failure="of a later version"), "environment"),
        (frame("EXECUTION_ERROR", **ParticipantFailedError("user", "why").details), "participant"),
        (frame("TIMEOUT", component="format"), "timeout"),
        (frame("FACTORY_ERROR"), "not_made"),
        (frame("SESSION_LOST"), "session"),
        (frame("SESSION_ERROR"), "session"),
        (frame("CAPACITY_REACHED"), "server_full"),
        (frame("RATE_LIMITED"), "rate_limited"),
        (frame("NEW"), "server"),
        (MissingRewardError(), "no_reward"),
        (InvalidRewardError(float("nan")), "invalid_reward"),
        (InvalidAnswerError("why"), "invalid_answer"),
        (ResponseTimeoutError("why"), "timeout"),
        (ConnectionLostError("why"), "connection"),
        (RequestGivenUpError(6, "why"), "connection"),
        (ConnectionFailedError("why"), "connection"),
        (ServerEndedError("why"), "connection"),
        (ModelAnswerError("why"), "model_answer"),
        (ModelUnavailableError("why", FailureKind.MODEL_FULL), "model_full"),
        (ConfigurationError("why"), "other"),
    ],
)
def test_each_error_has_a_kind(error: OpenEnvError, kind: str) -> None:
    assert failure_kind(error) == kind


def test_failures_of_a_reset_are_kinds_of_their_own() -> None:
    assert failure_kind(frame("EXECUTION_ERROR"), in_reset=True) == "reset"
    assert failure_kind(frame("VALIDATION_ERROR"), in_reset=True) == "task_refused"
    assert failure_kind(frame("EXECUTION_ERROR", failure="disk_full"), in_reset=True) == "disk_full"
    assert failure_kind(frame("TIMEOUT"), in_reset=True) == "timeout"


def test_every_kind_has_words() -> None:
    assert len({kind.text for kind in FailureKind}) == len(FailureKind)
    assert failures_text({"timeout": 1, "of a later version": 2}) == (
        "once no answer came in time, 2 times of a later version"
    )


def test_the_page_of_failures_has_every_kind() -> None:
    page = Path(__file__).parents[2].joinpath("docs/failures.md").read_text(encoding="utf-8")
    assert "".join(f"{kind.value:<15} {kind.text}\n" for kind in FailureKind) in page


def test_a_step_s_failures_are_metrics_of_each_environment_and_of_all() -> None:
    counter = FailureCounter()
    for environment, kind in (("catch", "timeout"), ("catch", "timeout"), ("wordle", "timeout"), ("", "judge")):
        counter.add(environment, kind)
    metrics = counter.drain()
    assert metrics["episode/failures/timeout"] == 3
    assert counter.drain() == {}
    assert failures_in([metrics, {"episode/failures/judge": 2.0}]) == {"timeout": 3, "judge": 3}
    assert failures_in([metrics], "catch") == {"timeout": 2}


def test_the_commonest_kind_comes_first() -> None:
    assert list(failure_counts(["judge", "timeout", "timeout"])) == ["timeout", "judge"]
