"""Graders that play the planned episode again on the running subject, and compare."""

import json
import time
from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from openenv.validation.graders import Subject
from openenv.validation.graders.runtime.basic import STARTUP, EvidenceGrader, UncheckedError
from openenv.validation.manifest import NormalizedManifestV2
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import (
    RuntimeEvidence,
    RuntimePlan,
    RuntimePlanError,
    WireExchange,
    load_runtime_plan,
)
from openenv.validation.trials import first_difference

DETERMINISM = "runtime.episode_determinism"
_OTHER_SEED = 1
_FULL = "CAPACITY_REACHED"
_TRIES, _PAUSE_S = 20, 0.25


class RepeatedGrader(EvidenceGrader):
    """Grader that compares the planned episode with further ones on the same subject.

    What can't be played again, as where the server holds a single session, is skipped.
    """

    def check(self, subject: Subject, evidence: RuntimeEvidence) -> list[str]:
        """Play again, and return a line for each difference."""
        manifest = subject.manifest
        if subject.running is None or not isinstance(manifest, NormalizedManifestV2):
            raise UncheckedError("the subject does not run")
        try:
            plan = load_runtime_plan(subject.root, manifest.execution)
        except RuntimePlanError as error:
            raise UncheckedError(str(error)) from error
        session = _Sessions(subject.running.base_url, plan, manifest.resources.episode_timeout_s)
        return self.compare(session, evidence)

    @abstractmethod
    def compare(self, sessions: "_Sessions", evidence: RuntimeEvidence) -> list[str]:
        """Return a line for each difference from further episodes."""


class SeedControlGrader(RepeatedGrader):
    """Check that the same seed gives the same first observation in a new session.

    Example:
        >>> SeedControlGrader().check_id
        'runtime.seed_control'
    """

    check_id = "runtime.seed_control"

    def compare(self, sessions: "_Sessions", evidence: RuntimeEvidence) -> list[str]:
        """Return the field in which the first observations differ."""
        again = sessions.play(sessions.plan.model_copy(update={"actions": sessions.plan.actions[:1]}))
        found = first_difference(_answers(evidence.exchanges[:1]), _answers(again.exchanges[:1]))
        return [] if found is None else [f"the same seed gave another start: {found}"]


class EpisodeDeterminismGrader(RepeatedGrader):
    """Check that the same episode is the same in a new session, to the last field.

    Example:
        >>> EpisodeDeterminismGrader().check_id
        'runtime.episode_determinism'
    """

    check_id = DETERMINISM

    def compare(self, sessions: "_Sessions", evidence: RuntimeEvidence) -> list[str]:
        """Return the first field that differs."""
        found = first_difference(_answers(evidence.exchanges), _answers(sessions.play(sessions.plan).exchanges))
        return [] if found is None else [f"the same episode differs in a new session: {found}"]


class EpisodeIsolationGrader(RepeatedGrader):
    """Check that an episode is the same while another session is played.

    Example:
        >>> EpisodeIsolationGrader().depends_on
        ('runtime.startup', 'runtime.episode_determinism')
    """

    check_id = "runtime.episode_isolation"
    depends_on = (STARTUP, DETERMINISM)

    def compare(self, sessions: "_Sessions", evidence: RuntimeEvidence) -> list[str]:
        """Return the first field that differs."""
        played = sessions.play_beside_another()
        found = first_difference(_answers(evidence.exchanges), _answers(played.exchanges))
        return [] if found is None else [f"an episode differs while another session is played: {found}"]


class _Sessions:
    """Further sessions on a running subject."""

    def __init__(self, base_url: str, plan: RuntimePlan, episode_timeout_s: float) -> None:
        self.plan = plan
        self._base_url = base_url
        self._episode_timeout_s = episode_timeout_s

    def play(self, plan: RuntimePlan) -> RuntimeEvidence:
        """Play a whole episode, once the server has a free session."""
        for _ in range(_TRIES):
            evidence = self._collect(plan)
            if evidence.failure_reason is None:
                return evidence
            if _FULL not in evidence.failure_reason:
                break
            time.sleep(_PAUSE_S)
        raise UncheckedError(f"the episode could not be played again: {evidence.failure_reason}")

    def play_beside_another(self) -> RuntimeEvidence:
        """Play an episode while another one with another seed is played."""
        seed = self.plan.reset.seed ^ _OTHER_SEED
        other = self.plan.model_copy(update={"reset": self.plan.reset.model_copy(update={"seed": seed})})
        with ThreadPoolExecutor(1) as threads:
            neighbour = threads.submit(self._collect, other)
            evidence = self._collect(self.plan)
            reasons = [each.failure_reason for each in (evidence, neighbour.result())]
        if any(reason and _FULL in reason for reason in reasons):
            raise UncheckedError("the server holds a single session")
        if evidence.failure_reason is not None:
            raise UncheckedError(f"the episode could not be played again: {evidence.failure_reason}")
        return evidence

    def _collect(self, plan: RuntimePlan) -> RuntimeEvidence:
        return collect_runtime_evidence(self._base_url, plan, episode_timeout_s=self._episode_timeout_s)


def _answers(exchanges: Sequence[WireExchange]) -> list[dict[str, Any]]:
    """Return the answer to the reset and to each step, with the state after it."""
    answers: list[dict[str, Any]] = []
    for exchange in exchanges:
        data = json.loads(exchange.response_json).get("data")
        if exchange.operation == "state":
            answers[-1]["state"] = data
        else:
            answers.append(dict(data) if isinstance(data, dict) else {"data": data})
    return answers
