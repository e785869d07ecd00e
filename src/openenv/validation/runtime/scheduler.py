"""Order and execution of graders: each after those that it depends on, and none can end the validation."""

import time
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from openenv.validation.graders import Grader, Subject
from openenv.validation.policy import PolicyError
from openenv.validation.report import CheckResult, skipped
from openenv.validation.types import CheckStatus, ProviderCapability


def order_graders(graders: Iterable[Grader]) -> list[Grader]:
    """Sort graders so that each comes after those that it depends on; else by level and name.

    Args:
        graders: The graders. A dependency that is not among them has no part in the order.

    Returns:
        The graders.

    Raises:
        PolicyError: Two graders have the same id, or graders depend on each other in a circle.

    Example:
        >>> order_graders([])
        []
    """
    listed = sorted(graders, key=lambda grader: (grader.level, grader.check_id))
    by_id = {grader.check_id: grader for grader in listed}
    if len(by_id) != len(listed):
        raise PolicyError("duplicate grader IDs")
    sorter = TopologicalSorter({name: [each for each in by_id[name].depends_on if each in by_id] for name in by_id})
    try:
        sorter.prepare()
    except CycleError as error:
        raise PolicyError(f"grader dependency cycle at {error.args[1][0]}") from error
    ordered: list[Grader] = []
    ready = set(sorter.get_ready())
    while ready:
        name = min(ready, key=list(by_id).index)
        ready.remove(name)
        ordered.append(by_id[name])
        sorter.done(name)
        ready.update(sorter.get_ready())
    return ordered


def execute_graders(
    graders: Iterable[Grader],
    subject: Subject,
    *,
    provider_capabilities: frozenset[ProviderCapability] = frozenset(),
    prior: Sequence[CheckResult] = (),
) -> list[CheckResult]:
    """Run graders in their order, and return the result of each.

    Args:
        graders: The graders.
        subject: The subject that each grades.
        provider_capabilities: Capabilities of the provider that has started the subject.
        prior: Results of earlier checks, on which graders may depend.

    Returns:
        One result for each grader: skipped where a dependency has not passed or the provider lacks a capability, and
        an error where the grader itself failed.

    Raises:
        PolicyError: As ``order_graders`` does.

    Example:
        >>> execute_graders([], subject=None)
        []
    """
    passed = {result.check_id for result in prior if result.status is CheckStatus.PASS}
    results: list[CheckResult] = []
    for grader in order_graders(graders):
        reason = _reason_to_skip(grader, passed, provider_capabilities)
        result = _run(grader, subject) if reason is None else skipped(grader.check_id, reason)
        if result.status is CheckStatus.PASS:
            passed.add(result.check_id)
        results.append(result)
    return results


def _reason_to_skip(grader: Grader, passed: set[str], provider: frozenset[ProviderCapability]) -> str | None:
    unmet = [name for name in grader.depends_on if name not in passed]
    if unmet:
        return f"unmet dependencies: {', '.join(unmet)}"
    missing = sorted(each.value for each in grader.requires_provider - provider)
    return f"missing provider capabilities: {', '.join(missing)}" if missing else None


def _run(grader: Grader, subject: Subject) -> CheckResult:
    """Run a grader; one that fails has a result like any other."""
    start = time.perf_counter()
    try:
        result = grader.run(subject)
        if result.check_id != grader.check_id:
            raise ValueError(f"expected the result of {grader.check_id}, got that of {result.check_id}")
    except Exception as error:  # noqa: BLE001  # a grader of another package may raise anything
        return CheckResult(
            check_id=grader.check_id,
            status=CheckStatus.ERROR,
            evidence=[f"grader failed ({type(error).__name__})"],
            duration_s=time.perf_counter() - start,
        )
    return result
