"""The checks of the statistical level, in their order, and a run of them."""

from collections.abc import Iterator
from typing import Any

from openenv.auto.package import EnvironmentPackage
from openenv.validation.findings import Check, run_check
from openenv.validation.report import CheckResult
from openenv.validation.semantic.graded import GradedEnvironment
from openenv.validation.semantic.package import graded_package
from openenv.validation.statistical.blind import BLIND_CHECKS
from openenv.validation.statistical.learning import LEARNING_CHECK, LearningTarget
from openenv.validation.statistical.sample import PlayerSample
from openenv.validation.statistical.separation import SEPARATION_CHECKS
from openenv.validation.statistical.variance import VARIANCE_CHECKS
from openenv.validation.trials import RunLimits

SAMPLE_CHECKS: tuple[Check[PlayerSample], ...] = (*SEPARATION_CHECKS, *VARIANCE_CHECKS, *BLIND_CHECKS)
STATISTICAL_CHECKS: tuple[Check[Any], ...] = (*SAMPLE_CHECKS, LEARNING_CHECK)


def each_sample_results(graded: GradedEnvironment) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each check that compares players, as soon as they are known."""
    sample = PlayerSample(graded)
    for check in SAMPLE_CHECKS:
        yield run_check(check, sample)


def each_statistical_results(package: EnvironmentPackage, limits: RunLimits) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each statistical check of a package, as soon as they are known."""
    with graded_package(package, limits) as graded:
        yield from each_sample_results(graded)
    yield run_check(LEARNING_CHECK, LearningTarget(package.target, limits))
