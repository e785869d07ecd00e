"""Learning: the tiny policy, from random weights on a CPU, earns more after a bounded number of steps."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.validation.findings import Check, Finding, LeftOutError, Measurement, warn
from openenv.validation.trials import RunLimits

if TYPE_CHECKING:
    from openenv.validation.statistical.training import LearningCurve

_DIGITS = 4


@dataclass(frozen=True)
class LearningTarget:
    """Environment that the tiny policy is trained on.

    Attributes:
        target: Its target.
        limits: Bounds of the trainings.
    """

    target: str
    limits: RunLimits


def find_in_learning(learned: LearningTarget) -> Iterator[Finding | Measurement]:
    """Find that the tiny policy does not improve with most seeds; it ends once the answer is known."""
    limits = learned.limits
    if not limits.learning_steps:
        raise LeftOutError("--learning-steps 0 leaves the training out")
    training = imported_training()
    curves: list[LearningCurve] = []
    until = time.monotonic() + limits.learning_s
    needed, improved = limits.learning_seeds // 2 + 1, 0
    for seed in range(1, limits.learning_seeds + 1):
        left_s = until - time.monotonic()
        if left_s <= 0:
            break
        try:
            curves.append(training.train_tiny(learned.target, seed, limits.learning_steps, left_s))
        except (ConfigurationError, NotImplementedError) as error:
            raise LeftOutError(f"the tiny policy can't be trained on it: {error}") from error
        except OpenEnvError as error:
            raise LeftOutError(f"the training ended with an error: {error}") from error
        if not curves[-1].rewards:
            raise LeftOutError("no step of a training had an episode with a reward")
        improved = sum(curve.has_improved for curve in curves)
        if improved >= needed or len(curves) - improved >= needed:
            break
    yield Measurement({"steps": limits.learning_steps, "seeds": list(map(figures_of, curves)), "improved": improved})
    if improved < needed and len(curves) - improved < needed:
        raise LeftOutError(f"{improved} of {len(curves)} trainings improved; no time was left for further seeds")
    if improved < needed:
        yield warn(
            f"the tiny policy has improved in {improved} of {len(curves)} trainings of {limits.learning_steps} steps: "
            + "; ".join(f"seed {each.seed} from {each.first:.3g} to {each.last:.3g}" for each in curves),
            "See the warnings of `openenv train` for a run on it: rewards that never differ, or illegal answers. Long "
            "episodes and rare rewards want easier tasks first.",
        )


def figures_of(curve: "LearningCurve") -> dict[str, float | bool]:
    """Return the figures of a training."""
    return {
        "seed": curve.seed,
        "steps": len(curve.rewards),
        "first": round(curve.first, _DIGITS),
        "last": round(curve.last, _DIGITS),
        "has_improved": curve.has_improved,
    }


def imported_training() -> ModuleType:
    """Import what trains the tiny policy, with PyTorch.

    Raises:
        LeftOutError: A library of training is not installed.
    """
    try:
        return import_module("openenv.validation.statistical.training")
    except ImportError as error:
        raise LeftOutError(f"{error.name} is not installed; to train: {install_command('train')}") from error


LEARNING_CHECK: Check[LearningTarget] = Check(
    "statistical.learnability",
    "the tiny policy improves from random weights",
    find_in_learning,
    "statistical.learnability",
)
