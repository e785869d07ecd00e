"""Measurements of a card, of an environment that runs."""

import time
from pathlib import Path

import pytest
from tests.support.environment_folders import scaffold

from openenv.auto.discovery import find_environment
from openenv.validation.card.measuring import CARD_CHECKS, CardTarget
from openenv.validation.findings import run_check
from openenv.validation.trials import RunLimits
from openenv.validation.types import CheckStatus

SPEED, CURVE = CARD_CHECKS


@pytest.mark.level("process")
def test_steps_are_measured_over_one_and_several_sessions(tmp_path: Path) -> None:
    package = find_environment(scaffold(tmp_path, "my_env"))
    [found] = run_check(SPEED, CardTarget(package, RunLimits(play_s=5.0)))
    assert found.status is CheckStatus.PASS, found.evidence
    assert all(episode["steps"] and episode["cpu_s"] > 0 for episode in found.measured["episodes"])
    latencies = found.measured["p99_ms"]
    assert min(latencies["1"], latencies["4"]) > 0
    assert latencies["16"] == "its server holds 8 sessions"


def test_without_time_there_is_no_curve(tmp_path: Path) -> None:
    package = find_environment(scaffold(tmp_path, "my_env"))
    [found] = run_check(CURVE, CardTarget(package, RunLimits(until=time.monotonic())))
    assert (found.status, found.evidence) == (CheckStatus.SKIP, ["no time was left for a training"])
