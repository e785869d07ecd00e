"""Outcomes of mutants: whether validation finds them, and how much it is therefore worth that an environment passes."""

import os
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.validation.mutants.environment_operators import OPERATORS
from openenv.validation.mutants.mutating import Mutant, choose, copied, mutants_of
from openenv.validation.mutants.transcripts import Transcript, paths_of_differences, record, replay
from openenv.validation.own_policy import NEEDED_TO_RUN, each_folder_results, policy_with
from openenv.validation.policy import failing
from openenv.validation.report import CheckResult
from openenv.validation.run_process import ProcessOptions
from openenv.validation.source import Source, read_source
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus, Level

DEFAULT_COUNT = 40
MAX_JOBS = 8
_MIN_LIMIT_S, _TIMES = 120.0, 6.0
# Without these there are no episodes to compare.
_NEEDED = (*NEEDED_TO_RUN, "runtime.startup", "runtime.reset", "runtime.play")


class MutantOutcome(StrEnum):
    """Outcome of a mutant.

    Attributes:
        FOUND: A check that passes the environment fails or warns.
        NO_EFFECT: No check does, and the mutant answers all recorded episodes as the environment does.
        SURVIVED: No check does, and the mutant answers otherwise.
        UNDECIDED: Its validation did not end in time.
    """

    FOUND = "found"
    NO_EFFECT = "without effect"
    SURVIVED = "survived"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class MutantResult:
    """Result of a mutant.

    Attributes:
        mutant: The mutant.
        outcome: Its outcome.
        check: Id of the check that found it; empty where none did.
        evidence: What that check found, or the first answer that differs.
        is_failure: Whether the check fails the verdict, rather than warns.
        seconds: Duration of its validation.
    """

    mutant: Mutant
    outcome: MutantOutcome
    check: str = ""
    evidence: str = ""
    is_failure: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class MutantsReport:
    """Results of an environment's mutants.

    Attributes:
        target: The environment's folder.
        level: The highest level of checks.
        seed: Seed of the choice of mutants.
        possible: Number of mutants that there are.
        known: Checks that find something in the environment itself, and so find no mutant.
        results: The results, in the order of the choice.
        seconds: Duration of the whole.
    """

    target: str
    level: Level
    seed: int
    possible: int
    known: tuple[str, ...]
    results: tuple[MutantResult, ...]
    seconds: float

    def count(self, outcome: MutantOutcome, operator: str | None = None) -> int:
        """Count the mutants with an outcome, of one operator or of all."""
        return sum(
            each.outcome is outcome and (operator is None or each.mutant.operator == operator) for each in self.results
        )

    @property
    def worth(self) -> str:
        """Sentence about what it is worth that the environment passes."""
        found, effective = self.count(MutantOutcome.FOUND), len(self.results) - self.count(MutantOutcome.NO_EFFECT)
        if not effective:
            return "No mutant has an effect, so nothing is known of what a pass is worth."
        return (
            f"Of {effective} planted faults with an effect, {found} ({100 * found / effective:.0f}%) are found: "
            f"a fault of these kinds in this code would pass unseen in {effective - found} of {effective} cases."
        )

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "target": self.target,
            "level": self.level.name.lower(),
            "seed": self.seed,
            "possible": self.possible,
            "known": list(self.known),
            "seconds": round(self.seconds, 1),
            "totals": {outcome.value: self.count(outcome) for outcome in MutantOutcome},
            "operators": [
                {
                    "operator": each.name,
                    "fault": each.fault,
                    **{outcome.value: self.count(outcome, each.name) for outcome in MutantOutcome},
                }
                for each in OPERATORS
            ],
            "mutants": [
                {
                    "operator": each.mutant.operator,
                    "file": each.mutant.file,
                    "line": each.mutant.line,
                    "change": each.mutant.change,
                    "outcome": each.outcome.value,
                    "check": each.check or None,
                    "severity": None if not each.check else "fail" if each.is_failure else "warn",
                    "evidence": each.evidence,
                    "seconds": round(each.seconds, 1),
                }
                for each in self.results
            ],
            "worth": self.worth,
        }


@dataclass(frozen=True)
class _Original:
    """The environment itself, as mutants are compared with it.

    Attributes:
        source: Its files.
        known: Checks that find something in it.
        transcript: Its answers to recorded episodes.
        unsteady: Fields of these that differ from one process to another.
        limit_s: Seconds that the validation of a mutant may take.
    """

    source: Source
    known: frozenset[str]
    transcript: Transcript
    unsteady: frozenset[str]
    limit_s: float


def default_jobs() -> int:
    """Return the number of mutants that are validated at once: one for each processor, to a bound."""
    return min(len(os.sched_getaffinity(0)), MAX_JOBS)


def try_mutants(
    folder: Path,
    *,
    level: Level = Level.SEMANTIC,
    limits: RunLimits | None = None,
    count: int | None = DEFAULT_COUNT,
    seed: int = 0,
    operators: Collection[str] | None = None,
    jobs: int | None = None,
    show: Callable[[MutantResult], None] | None = None,
) -> MutantsReport:
    """Plant faults in copies of an environment, and validate each by this package's policy.

    Args:
        folder: The environment's folder, which stays as it is.
        level: The highest level of checks; mutants are run, so at least ``runtime``.
        limits: Limits of each run.
        count: Number of the mutants; all if ``None``.
        seed: Determines which mutants are chosen.
        operators: Names of the operators; all if ``None``.
        jobs: Mutants that are validated at once; see ``default_jobs`` if ``None``.
        show: Called with each result as soon as it is known.

    Returns:
        The report.

    Raises:
        EnvironmentNotFoundError: There is no such folder, or it holds no ``openenv.yaml``.
        ConfigurationError: The environment itself can't be played, or the level runs nothing.

    Example:
        >>> try_mutants(Path("envs/catch_env"), count=10).worth  # doctest: +SKIP
        'Of 9 planted faults with an effect, 9 (100%) are found: ...'
    """
    if level < Level.RUNTIME:
        raise ConfigurationError("Mutants are run: expected the level runtime or a higher one, got static.")
    begun, limits = time.monotonic(), limits or RunLimits()
    stop = Event()
    original = _examine(read_source(folder), level, limits, stop)
    possible = mutants_of(original.source, original.transcript.lines, operators)
    chosen = choose(possible, count, seed)
    validate = partial(_try, original, level=level, limits=limits, stop=stop)
    results = _each_tried(validate, chosen, jobs or default_jobs(), stop, show)
    return MutantsReport(
        target=str(original.source.folder),
        level=level,
        seed=seed,
        possible=sum(map(len, possible.values())),
        known=tuple(sorted(original.known)),
        results=tuple(results),
        seconds=time.monotonic() - begun,
    )


def _each_tried(
    validate: Callable[[Mutant], MutantResult],
    mutants: Sequence[Mutant],
    jobs: int,
    stop: Event,
    show: Callable[[MutantResult], None] | None,
) -> list[MutantResult]:
    """Validate mutants, some at once, and return their results in the same order."""
    results: dict[int, MutantResult] = {}
    executor = ThreadPoolExecutor(jobs, thread_name_prefix="mutants")
    try:
        futures = {executor.submit(validate, mutant): number for number, mutant in enumerate(mutants)}
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            if show is not None:
                show(future.result())
    finally:
        stop.set()  # which ends what an interrupt has left
        executor.shutdown(cancel_futures=True)
    return [results[number] for number in range(len(mutants))]


def _examine(source: Source, level: Level, limits: RunLimits, stop: Event) -> _Original:
    """Validate the environment itself, and record its episodes."""
    begun = time.monotonic()
    with copied(source, None) as folder:
        options = _options(folder, source, stop)
        results = [
            result for found in each_folder_results(read_source(folder), level, limits, options) for result in found
        ]
        known = frozenset(result.check_id for result in results if result.status is not CheckStatus.PASS)
        unplayed = [result for result in results if result.check_id in _NEEDED and result.status is CheckStatus.FAIL]
        missing = set(_NEEDED) - {result.check_id for result in results}
        if unplayed or missing:
            reason = "; ".join(text for result in unplayed for text in result.evidence) or "it does not run"
            raise ConfigurationError(
                f"Expected an environment that can be played, to plant faults in it: {reason}. "
                "`openenv validate` without --mutants has all findings."
            )
        limit_s = max(_MIN_LIMIT_S, _TIMES * (time.monotonic() - begun))
        transcript = record(folder, limits, limit_s, options)
    with copied(source, None) as folder:
        again = (
            None
            if transcript is None
            else replay(folder, transcript.episodes, limits, limit_s, _options(folder, source, stop))
        )
    if transcript is None or again is None:
        raise ConfigurationError("The environment's episodes could not be recorded: its process ended, or hung.")
    unsteady = frozenset(paths_of_differences(transcript.answers, again))
    return _Original(source, known, transcript, unsteady, limit_s)


def _options(folder: Path, source: Source, stop: Event) -> ProcessOptions:
    """Return the options of processes for a copy: programs that the environment starts find the copy first."""
    home = folder.parents[len(source.folder.relative_to(source.top_folder).parts)]
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    path = os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {"PYTHONPATH": path, "TMPDIR": str(temporary), "PYTHONHASHSEED": "1"}
    return ProcessOptions(variables, is_quiet=True, stop=stop)


def _try(original: _Original, mutant: Mutant, level: Level, limits: RunLimits, stop: Event) -> MutantResult:
    """Validate a mutant up to the first finding; where there is none, compare its answers."""
    begun = time.monotonic()
    if stop.is_set():
        return MutantResult(mutant, MutantOutcome.UNDECIDED)
    with copied(original.source, mutant) as folder:
        options = _options(folder, original.source, stop)
        limits = replace(limits, check_s=min(limits.check_s, original.limit_s))
        with closing(each_folder_results(read_source(folder), level, limits, options)) as each_results:
            for found in each_results:
                result = next((each for each in found if _is_new(each, original.known)), None)
                if result is not None:
                    return MutantResult(
                        mutant,
                        MutantOutcome.FOUND,
                        result.check_id,
                        " ".join(result.evidence[:1]),
                        is_failure=bool(failing([result], policy_with([result]))),
                        seconds=time.monotonic() - begun,
                    )
                if time.monotonic() - begun > original.limit_s:
                    return MutantResult(mutant, MutantOutcome.UNDECIDED, seconds=time.monotonic() - begun)
        answers = replay(folder, original.transcript.episodes, limits, original.limit_s, options)
    outcome, evidence = _compared(original, answers)
    return MutantResult(mutant, outcome, evidence=evidence, seconds=time.monotonic() - begun)


def _is_new(result: CheckResult, known: frozenset[str]) -> bool:
    return result.status is not CheckStatus.PASS and result.check_id not in known


def _compared(original: _Original, answers: list[Any] | None) -> tuple[MutantOutcome, str]:
    if answers is None:
        return MutantOutcome.SURVIVED, "the recorded episodes do not end"
    different = sorted(paths_of_differences(original.transcript.answers, answers) - original.unsteady)
    if not different:
        return MutantOutcome.NO_EFFECT, ""
    return MutantOutcome.SURVIVED, f"differs in {different[0]}, and {len(different) - 1} more fields"
