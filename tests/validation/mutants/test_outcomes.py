"""Outcomes of mutants: found, without effect, survived; what hangs is found; what can't be tried is refused."""

from pathlib import Path

import pytest
from tests.support.broken_environments import ENVIRONMENT, Broken

from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.validation import Level
from openenv.validation.mutants.mutating import Mutant
from openenv.validation.mutants.outcomes import MutantOutcome, MutantResult, MutantsReport, try_mutants
from openenv.validation.trials import RunLimits

pytestmark = pytest.mark.level("process")
# A check that never finds anything to raise for, a loop that a fault makes endless, and a field that nothing reads.
LINE = "        seen, over = None, reward > 0 or self._steps == 6\n"
STEP = f"""\
        if self._steps < 0:
            raise ValueError("backwards")
        left = 3
        while left:
            left = left - 1
{LINE}\
        if self._steps % 2:
            seen = "odd"
"""
OPERATORS = {
    "fix_seed": (MutantOutcome.FOUND, "runtime.seed_effect", "9 seeds give the same episode"),
    "swap_arithmetic": (MutantOutcome.FOUND, "runtime.play", "no answer within 3 s"),
    "drop_check": (MutantOutcome.NO_EFFECT, "", ""),
    "negate_condition": (MutantOutcome.SURVIVED, "", "observation.seen"),
}


def walk(parent: Path) -> Path:
    return Broken("", "", "", [(ENVIRONMENT, LINE, STEP)]).write(parent)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> MutantsReport:
    shown = list[MutantResult]()
    report = try_mutants(
        walk(tmp_path_factory.mktemp("walk")),
        level=Level.RUNTIME,
        limits=RunLimits(answer_s=3.0),
        operators=OPERATORS,
        jobs=2,
        show=shown.append,
    )
    assert sorted(map(str, shown)) == sorted(map(str, report.results))
    return report


def test_each_mutant_has_its_outcome(report: MutantsReport) -> None:
    results = {result.mutant.operator: result for result in report.results}
    assert len(results) == len(report.results) == report.possible
    for name, (outcome, check, evidence) in OPERATORS.items():
        found = results[name]
        assert (found.outcome, found.check) == (outcome, check), found
        assert evidence in found.evidence


def test_a_warning_is_told_from_a_failure(report: MutantsReport) -> None:
    assert {each.mutant.operator: each.is_failure for each in report.results if each.check} == {
        "fix_seed": False,
        "swap_arithmetic": True,
    }


def test_what_has_no_effect_does_not_count(report: MutantsReport) -> None:
    assert report.worth.startswith("Of 3 planted faults with an effect, 2 (67%) are found")
    assert report.as_json()["totals"] == {"found": 2, "without effect": 1, "survived": 1, "undecided": 0}


def test_the_json_has_file_line_and_change(report: MutantsReport) -> None:
    survivor = next(each for each in report.as_json()["mutants"] if each["outcome"] == "survived")
    assert (survivor["file"], survivor["severity"]) == (ENVIRONMENT, None)
    assert survivor["change"] == "self._steps % 2 becomes not (self._steps % 2)"
    text = walk_text(report)
    assert "self._steps % 2" in text.splitlines()[survivor["line"] - 1]


def walk_text(report: MutantsReport) -> str:
    return (Path(report.target) / ENVIRONMENT).read_text()


def test_nothing_is_known_without_an_effect() -> None:
    result = MutantResult(Mutant("drop_check", "env.py", 1, "", ""), MutantOutcome.NO_EFFECT)
    report = MutantsReport("env", Level.RUNTIME, 0, 1, (), (result,), 1.0)
    assert report.worth == "No mutant has an effect, so nothing is known of what a pass is worth."


def test_an_environment_that_does_not_run_is_refused(tmp_path: Path) -> None:
    broken = Broken("", "", "", [(ENVIRONMENT, "pass  # in step\n", "raise KeyError('gone')\n")])
    with pytest.raises(ConfigurationError, match=r"that can be played, to plant faults in it: .*gone"):
        try_mutants(broken.write(tmp_path), level=Level.RUNTIME)


def test_mutants_are_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="expected the level runtime or a higher one, got static"):
        try_mutants(tmp_path, level=Level.STATIC)


def test_there_has_to_be_an_environment(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentNotFoundError):
        try_mutants(tmp_path / "nothing")
