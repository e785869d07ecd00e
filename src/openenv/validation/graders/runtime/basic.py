"""Graders of the planned episode: its rewards, its observations and its state."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

from openenv.core.exceptions import RequestError
from openenv.core.wire.bounded_json import read_json
from openenv.core.wire.messages import MessageType
from openenv.validation.graders import Subject
from openenv.validation.manifest import NormalizedManifest
from openenv.validation.report import CheckResult
from openenv.validation.runtime.contracts import RuntimeEvidence, WireExchange
from openenv.validation.runtime.schema_worker import UNAVAILABLE, MeasuredObservation, schema_problems
from openenv.validation.types import CheckStatus, Level, ProviderCapability

STARTUP = "runtime.startup"
_MAX_EVIDENCE = 20
_BESIDE = ("reward", "done")
_REMEDY = "Correct the reported faults of the episode; the bundle beside the report has its requests and answers."


class _Envelope(NamedTuple):
    """Answer to a reset or a step.

    Attributes:
        exchange: Number of the exchange.
        is_reset: Whether it answers a reset.
        data: Its content; ``None`` where it is no observation.
    """

    exchange: int
    is_reset: bool
    data: dict[str, Any] | None


class UncheckedError(Exception):
    """A subject can't be checked; the message has the reason, with which the check is skipped."""


class EvidenceGrader(ABC):
    """Grader of the evidence of the planned episode.

    Attributes:
        check_id: Name of the check.
        level: Level of the check.
        requires_capabilities: Capabilities that the package has to declare.
        requires_provider: Capabilities that the provider has to have.
        depends_on: Checks that have to pass before.
    """

    check_id: str
    level = Level.RUNTIME
    requires_capabilities: frozenset[str] = frozenset()
    requires_provider: frozenset[ProviderCapability] = frozenset()
    depends_on: tuple[str, ...] = (STARTUP,)

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        """Return whether the check is for a package, which it is for all."""
        return True

    @abstractmethod
    def check(self, subject: Subject, evidence: RuntimeEvidence) -> list[str]:
        """Return a line for each problem."""

    def run(self, subject: Subject) -> CheckResult:
        """Check the evidence of a subject.

        Args:
            subject: The subject, with its evidence.

        Returns:
            The result: skipped without a whole episode.
        """
        start = time.perf_counter()
        evidence = subject.runtime_evidence
        missing = _missing(evidence)
        if missing is not None or evidence is None:
            return self._result(CheckStatus.SKIP, [missing or ""], 0, start)
        try:
            problems = self.check(subject, evidence)
        except UncheckedError as error:
            return self._result(CheckStatus.SKIP, [str(error)], 0, start)
        if problems:
            return self._result(CheckStatus.FAIL, problems[:_MAX_EVIDENCE], len(evidence.exchanges), start)
        return self._result(CheckStatus.PASS, ["observed runtime contract holds"], len(evidence.exchanges), start)

    def _result(self, status: CheckStatus, lines: list[str], exchanges: int, start: float) -> CheckResult:
        return CheckResult(
            check_id=self.check_id,
            status=status,
            measured={} if status is CheckStatus.SKIP else {"exchanges": exchanges},
            evidence=lines,
            remediation=_REMEDY if status is CheckStatus.FAIL else None,
            duration_s=time.perf_counter() - start,
        )


class RewardWellFormedGrader(EvidenceGrader):
    """Check that each step has a reward: a finite number within the declared range.

    Example:
        >>> RewardWellFormedGrader().check_id
        'runtime.reward_well_formed'
    """

    check_id = "runtime.reward_well_formed"

    def check(self, subject: Subject, evidence: RuntimeEvidence) -> list[str]:
        """Return a line for each answer whose reward is missing, no number, not finite, or out of range."""
        lowest, highest = subject.manifest.reward.range
        return [
            f"exchange {envelope.exchange}: {problem}"
            for envelope in _envelopes(evidence)
            if (problem := _reward_problem(envelope, lowest, highest))
        ]


class ObservationSchemaGrader(EvidenceGrader):
    """Check that each observation is one, and fits the schema that the server publishes.

    Example:
        >>> ObservationSchemaGrader().check_id
        'runtime.observation_schema'
    """

    check_id = "runtime.observation_schema"

    def check(self, subject: Subject, evidence: RuntimeEvidence) -> list[str]:
        """Return a line for each answer that is no observation, and for each observation that does not fit."""
        envelopes = list(_envelopes(evidence))
        if not envelopes:
            return ["no observations were measured"]
        malformed = [each.exchange for each in envelopes if not _is_observation(each.data)]
        if malformed:
            return [f"exchange {exchange}: malformed observation envelope" for exchange in malformed]
        if evidence.observation_schema_json is None:
            return [UNAVAILABLE]
        observed = [
            MeasuredObservation(
                exchange, is_reset, data["observation"], {name: data.get(name) for name in ("reward", "done")}
            )
            for exchange, is_reset, data in envelopes
            if data is not None
        ]
        return schema_problems(evidence.observation_schema_json, evidence.reset_observation_schema_json, observed)


class StateContractGrader(EvidenceGrader):
    """Check that the state has the episode's id and the exact count of its steps after each request.

    Example:
        >>> StateContractGrader().check_id
        'runtime.state_contract'
    """

    check_id = "runtime.state_contract"

    def check(self, subject: Subject, evidence: RuntimeEvidence) -> list[str]:
        """Return a line for each state that is none, or is of another episode or step."""
        problems: list[str] = []
        episode_id: Any = None
        steps, states = 0, 0
        for number, exchange in enumerate(evidence.exchanges):
            if exchange.operation == "reset":
                steps, episode_id = 0, _data(exchange.request_json).get("episode_id")
            elif exchange.operation == "step":
                steps += 1
            else:
                states += 1
                found = _state_problems(exchange, episode_id, steps)
                problems += [f"exchange {number}: {problem}" for problem in found]
        return problems if states else ["no state snapshots were measured"]


def _missing(evidence: RuntimeEvidence | None) -> str | None:
    """Return what is missing for a check of the episode; ``None`` where nothing is."""
    if evidence is None:
        return "runtime evidence is unavailable"
    if evidence.failure_phase is not None:
        return f"runtime evidence is incomplete: {evidence.failure_reason or evidence.failure_phase}"
    if not any(exchange.operation == "step" for exchange in evidence.exchanges):
        return "runtime evidence has no step: the episode ended with its reset"
    return None


def _envelopes(evidence: RuntimeEvidence) -> Iterator[_Envelope]:
    for number, exchange in enumerate(evidence.exchanges):
        if exchange.operation != "state":
            message = _message(exchange.response_json)
            is_observation = message.get("type") == MessageType.OBSERVATION and isinstance(message.get("data"), dict)
            yield _Envelope(number, exchange.operation == "reset", message["data"] if is_observation else None)


def _is_observation(data: dict[str, Any] | None) -> bool:
    return data is not None and isinstance(data.get("observation"), dict) and type(data.get("done")) is bool


def _reward_problem(envelope: _Envelope, lowest: float, highest: float) -> str | None:
    if envelope.data is None:
        return "malformed observation envelope"
    reward = envelope.data.get("reward")
    if reward is None:
        return None if envelope.is_reset and "reward" in envelope.data else "missing reward"
    is_number = type(reward) in (int, float)
    if not is_number or not _is_finite(reward) or not lowest <= reward <= highest:
        return "reward must be finite and in range"
    return None


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer that no float can hold
        return False


def _state_problems(exchange: WireExchange, episode_id: Any, steps: int) -> Iterator[str]:
    message = _message(exchange.response_json)
    data = message.get("data")
    if message.get("type") != MessageType.STATE or not isinstance(data, dict):
        yield "malformed state envelope"
        return
    if data.get("episode_id") != episode_id:
        yield "episode_id differs from reset"
    count = data.get("step_count")
    if type(count) is not int or count != steps:
        yield "incorrect step_count"


def _data(frame: str) -> dict[str, Any]:
    data = _message(frame).get("data")
    return data if isinstance(data, dict) else {}


def _message(frame: str) -> dict[str, Any]:
    """Return the object of a frame; an empty one where it is none."""
    try:
        document = read_json(frame)
    except RequestError:
        return {}
    return document if isinstance(document, dict) else {}
