"""Failures of episodes, counted by kind: the same names in metrics, reports and pages, of runs and of evaluations."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    FailureKind,
    InvalidAnswerError,
    InvalidRequestError,
    InvalidRewardError,
    MissingRewardError,
    ModelAnswerError,
    ModelUnavailableError,
    OpenEnvError,
    ProviderError,
    RequestRejectedError,
    ResponseTimeoutError,
    ServerCapacityError,
    ServerError,
    ServerExecutionError,
    ServerFactoryError,
    ServerParticipantError,
    ServerRateLimitedError,
    ServerSessionError,
    ServerSessionLostError,
    ServerTimeoutError,
)

__all__ = ["FailureCounter", "failure_counts", "failure_kind", "failures_in", "failures_text", "kind_text"]

FAILURES = "episode/failures/"
"""Beginning of the metrics with the number of failures of each kind."""

_KINDS = {kind.value: kind for kind in FailureKind}
# A class stands before those that it is a subclass of.
_KINDS_BY_CLASS: Mapping[type[OpenEnvError], FailureKind] = {
    MissingRewardError: FailureKind.NO_REWARD,
    InvalidRewardError: FailureKind.INVALID_REWARD,
    ModelAnswerError: FailureKind.MODEL_ANSWER,
    InvalidAnswerError: FailureKind.INVALID_ANSWER,
    ServerFactoryError: FailureKind.NOT_MADE,
    ServerTimeoutError: FailureKind.TIMEOUT,
    ResponseTimeoutError: FailureKind.TIMEOUT,
    ServerSessionLostError: FailureKind.SESSION,
    ServerSessionError: FailureKind.SESSION,
    ServerCapacityError: FailureKind.SERVER_FULL,
    ServerRateLimitedError: FailureKind.RATE_LIMITED,
    ServerError: FailureKind.SERVER,
    ConnectionLostError: FailureKind.CONNECTION,
    ConnectionFailedError: FailureKind.CONNECTION,
    ProviderError: FailureKind.CONNECTION,
}


def failure_kind(error: OpenEnvError, *, in_reset: bool = False) -> FailureKind:
    """Return the kind of an episode's failure.

    Args:
        error: The error that ended it.
        in_reset: Whether its reset failed.

    Example:
        >>> failure_kind(MissingRewardError()).text
        'the episode ended without a reward'
    """
    if isinstance(error, ModelUnavailableError):
        return error.failure
    if isinstance(error, RequestRejectedError | InvalidRequestError) and in_reset:
        return FailureKind.TASK_REFUSED
    if isinstance(error, ServerParticipantError):
        return FailureKind.PARTICIPANT
    if isinstance(error, ServerExecutionError):
        return _kind_in_environment(error.details, in_reset=in_reset)
    of_class = (kind for error_class, kind in _KINDS_BY_CLASS.items() if isinstance(error, error_class))
    return next(of_class, FailureKind.OTHER)


def failure_counts(kinds: Iterable[str]) -> dict[str, int]:
    """Count failures by kind, the commonest first.

    Example:
        >>> failure_counts(["timeout", "judge", "timeout"])
        {'timeout': 2, 'judge': 1}
    """
    return dict(Counter(map(str, kinds)).most_common())


def failures_text(counts: Mapping[str, int]) -> str:
    """Return counts by kind in words.

    Example:
        >>> failures_text({"timeout": 2, "judge": 1})
        '2 times no answer came in time, once the judge gave no verdict that can be read'
    """
    return ", ".join(f"{_times(count)} {kind_text(kind)}" for kind, count in counts.items())


def kind_text(kind: str) -> str:
    """Return a kind in words; that of another version as it is."""
    return _KINDS[kind].text if kind in _KINDS else kind


class FailureCounter:
    """Failures of the episodes that were played since the last step was logged, by environment."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, environment: str, kind: str) -> None:
        """Count a failure in an environment, whose name is empty where there is one only."""
        self._counts[f"{FAILURES}{kind}"] += 1
        if environment:
            self._counts[f"episode/{environment}/failures/{kind}"] += 1

    def drain(self) -> dict[str, float]:
        """Return the counts since the last call as metrics, as ``episode/failures/timeout``; nothing without any."""
        counts, self._counts = self._counts, Counter()
        return {metric: float(count) for metric, count in counts.items()}


def failures_in(metrics: Iterable[Mapping[str, Any]], environment: str = "") -> dict[str, int]:
    """Return the failures of all steps in lines of ``metrics.jsonl``, by kind, the commonest first."""
    beginning = f"episode/{environment}/failures/" if environment else FAILURES
    counts: Counter[str] = Counter()
    for row in metrics:
        for name, value in row.items():
            if name.startswith(beginning):
                counts[name.removeprefix(beginning)] += round(value)
    return dict(counts.most_common())


def _kind_in_environment(details: Mapping[str, Any], *, in_reset: bool) -> FailureKind:
    """Return the kind of an error that an environment raised, which its server may name."""
    named = _KINDS.get(str(details.get("failure")))
    if named is not None:
        return named
    if "component" in details:
        return FailureKind.RUBRIC
    return FailureKind.RESET if in_reset else FailureKind.ENVIRONMENT


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
