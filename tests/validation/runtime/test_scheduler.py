"""Graders run after those that they depend on, and a grader's own failure is its result."""

import random
from dataclasses import dataclass, field

import pytest
from tests.support.validated import subject

from openenv.validation.graders import Subject
from openenv.validation.manifest import NormalizedManifest
from openenv.validation.policy import PolicyError
from openenv.validation.report import CheckResult
from openenv.validation.runtime.scheduler import execute_graders, order_graders
from openenv.validation.types import CheckStatus, Level, ProviderCapability


@dataclass
class _Grader:
    check_id: str
    depends_on: tuple[str, ...] = ()
    status: CheckStatus = CheckStatus.PASS
    level: Level = Level.RUNTIME
    requires_provider: frozenset[ProviderCapability] = frozenset()
    requires_capabilities: frozenset[str] = frozenset()
    answers_for: str = ""
    error: Exception | None = None
    runs: list[str] = field(default_factory=list)

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        return True

    def run(self, subject: Subject) -> CheckResult:
        self.runs.append(self.check_id)
        if self.error is not None:
            raise self.error
        return _result(self.answers_for or self.check_id, self.status)


def _result(check_id: str, status: CheckStatus) -> CheckResult:
    return CheckResult(check_id=check_id, status=status, duration_s=0.0)


def _statuses(results: list[CheckResult]) -> dict[str, tuple[str, list[str]]]:
    return {each.check_id: (each.status.value, each.evidence) for each in results}


def test_order_follows_dependencies_then_level_and_name() -> None:
    graders = [
        _Grader("a.last", depends_on=("z.first", "elsewhere.check")),
        _Grader("z.first"),
        _Grader("m.middle"),
        _Grader("s.static", level=Level.STATIC),
    ]
    for _ in range(5):
        random.Random(7).shuffle(graders)
        assert [each.check_id for each in order_graders(graders)] == ["s.static", "m.middle", "z.first", "a.last"]


def test_duplicates_and_circles_are_refused() -> None:
    with pytest.raises(PolicyError, match=r"^duplicate grader IDs$"):
        order_graders([_Grader("a.a"), _Grader("a.a")])
    with pytest.raises(PolicyError, match=r"^grader dependency cycle at a\.[ab]$"):
        order_graders([_Grader("a.a", depends_on=("a.b",)), _Grader("a.b", depends_on=("a.a",))])
    with pytest.raises(PolicyError, match=r"^grader dependency cycle at a\.a$"):
        order_graders([_Grader("a.a", depends_on=("a.a",))])


def test_grader_whose_dependencies_have_not_passed_is_skipped() -> None:
    graders = [
        _Grader("b.b", depends_on=("a.a", "a.missing")),
        _Grader("a.a", status=CheckStatus.FAIL),
        _Grader("c.c", depends_on=("p.prior",)),
        _Grader("d.d", depends_on=("b.b",)),
    ]
    prior = [_result("p.prior", CheckStatus.PASS)]
    assert _statuses(execute_graders(graders, subject(), prior=prior)) == {
        "a.a": ("fail", []),
        "b.b": ("skip", ["unmet dependencies: a.a, a.missing"]),
        "c.c": ("pass", []),
        "d.d": ("skip", ["unmet dependencies: b.b"]),
    }
    assert graders[0].runs == graders[3].runs == []


def test_grader_that_requires_more_of_the_provider_is_skipped() -> None:
    needed = frozenset({ProviderCapability.NETWORK_POLICY, ProviderCapability.EXEC})
    graders = [_Grader("a.a", requires_provider=needed)]
    held = frozenset({ProviderCapability.EXEC})
    (missing,) = execute_graders(graders, subject(), provider_capabilities=held)
    assert missing.evidence == ["missing provider capabilities: network_policy"]
    (result,) = execute_graders(graders, subject(), provider_capabilities=needed)
    assert result.status is CheckStatus.PASS


def test_failure_of_a_grader_is_an_error_of_its_check() -> None:
    graders = [
        _Grader("a.a", error=ZeroDivisionError("secret")),
        _Grader("b.b", answers_for="c.c"),
        _Grader("d.d"),
    ]
    assert _statuses(execute_graders(graders, subject())) == {
        "a.a": ("error", ["grader failed (ZeroDivisionError)"]),
        "b.b": ("error", ["grader failed (ValueError)"]),
        "d.d": ("pass", []),
    }
