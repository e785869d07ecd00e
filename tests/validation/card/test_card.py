"""Cards: each figure comes from a check's result, and what was not measured has its reason."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold

from openenv.auto.discovery import find_environment
from openenv.auto.manifest import Manifest
from openenv.auto.package import EnvironmentPackage
from openenv.records.prices import Prices
from openenv.validation.card.card import Card, card_of, make_card
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus

PACKAGE = EnvironmentPackage("catch", "catch_env", Path("catch_env"), Manifest(name="catch"))
EPISODE = {"took_s": 3.6, "cpu_s": 0.036, "steps": 9, "is_whole": True}
NAMES = [
    "floor",
    "oracle",
    "exploits",
    "determinism",
    "isolation",
    "CPU of a step",
    "p99 of a step",
    "price of 1,000 episodes",
    "groups with a signal",
    "learning",
]


def estimate(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.1, "high": mean + 0.1}


def result(check_id: str, status: str = "pass", *evidence: str, **measured: Any) -> CheckResult:
    return CheckResult(
        check_id=check_id, status=CheckStatus(status), measured=measured, evidence=list(evidence), duration_s=0.0
    )


WHOLE = [
    result("runtime.seed_control"),
    result("runtime.process_isolation"),
    result("runtime.episode_determinism"),
    result("runtime.episode_isolation"),
    result("semantic.probe_early", episodes=4),
    result("semantic.probe_object", episodes=0),
    result(
        "statistical.difficulty_separation", tasks=24, random=estimate(-0.5), weak=estimate(0), scripted=estimate(1)
    ),
    result("statistical.training_signal", group_size=8, random=estimate(0.25), weak=estimate(0.5)),
    result(
        "card.speed", player="scripted", episodes=[EPISODE], p99_ms={"1": 1.25, "16": "its server holds 8 sessions"}
    ),
    result("card.curve", rewards=[0.0, 0.5], seconds=[1, 2], first=0, last=0.5, steps=2, has_improved=True),
]


def texts(card: Card) -> dict[str, str | None]:
    return {figure.name: figure.text for figure in card.figures}


def test_all_figures() -> None:
    card = card_of(PACKAGE, WHOLE, Prices(sandbox_hour=1.0, cpu_hour=2.0), 12.0)
    assert texts(card) == {
        "floor": "-0.5 [-0.6, -0.4]",
        "oracle": "1 [0.9, 1.1]",
        "exploits": "1 of 1 families earned nothing",
        "determinism": "equal in another process",
        "isolation": "sessions do not touch each other",
        "CPU of a step": "4 ms",
        "p99 of a step": "1.25 ms",
        "price of 1,000 episodes": "$1.02",
        "groups with a signal": "25% random, 50% weak",
        "learning": "0 to 0.5",
    }
    assert next(each.reason for each in card.figures if each.name == "p99 of a step").endswith(
        "with 16: its server holds 8 sessions"
    )
    assert not card.faults
    assert card.levels == {"floor": -0.5, "oracle": 1.0}


def test_without_any_result_each_figure_has_a_reason() -> None:
    card = card_of(PACKAGE, [], None, 1.0)
    assert [each.name for each in card.figures] == NAMES
    assert {each.text for each in card.figures} == {None}
    assert all(each.reason for each in card.figures)


def test_the_reason_is_the_failure_before() -> None:
    card = card_of(PACKAGE, [result("runtime.startup", "fail", "it raised ValueError")], None, 1.0)
    assert card.figures[0].reason == "runtime.startup failed: it raised ValueError"


@pytest.mark.parametrize(
    ("changed", "name", "reason"),
    [
        (result("statistical.difficulty_separation", "skip", "no player"), "oracle", "no player"),
        (result("card.curve", "skip", "torch is not installed"), "learning", "torch is not installed"),
        (
            result("card.speed", player="scripted", episodes=[{**EPISODE, "cpu_s": None}], p99_ms={"1": 1}),
            "CPU of a step",
            "its server measures none, as of asynchronous methods",
        ),
    ],
)
def test_what_was_left_out_has_its_reason(changed: CheckResult, name: str, reason: str) -> None:
    results = [changed if each.check_id == changed.check_id else each for each in WHOLE]
    figure = next(each for each in card_of(PACKAGE, results, None, 1.0).figures if each.name == name)
    assert (figure.text, figure.reason) == (None, reason)


def test_a_fault_is_one_of_the_card() -> None:
    failed = result("semantic.probe_early", "fail", "seed 1: half of it", episodes=4)
    card = card_of(PACKAGE, [failed if each.check_id == failed.check_id else each for each in WHOLE], None, 1.0)
    assert [(each.name, each.text) for each in card.faults] == [("exploits", "0 of 1 families earned nothing")]
    assert "semantic.probe_early: seed 1: half of it" in card.faults[0].reason


@pytest.mark.level("process")
def test_after_its_time_no_measurement_begins(tmp_path: Path) -> None:
    card = make_card(find_environment(scaffold(tmp_path, "my_env")), seconds=0.0)
    assert {each.reason for each in card.figures} == {
        "no time was left for it",
        "no prices were named; name them with --prices FILE",
    }
    assert card.curve is None
