"""Training of the tiny policy that ends once its improvement is significant; it needs PyTorch and TRL."""

import io
import time
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import fmean, variance
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.console import Console
from transformers import TrainerCallback

from openenv.train.run.training import train
from openenv.train.settings.config import TrainConfig

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

WINDOW = 10
# In standard errors of the difference of two windows: some thirty windows are looked at in a training.
_SIGNIFICANT = 5.0


@dataclass
class LearningCurve:
    """Rewards of a training from random weights.

    Attributes:
        seed: Its seed.
        rewards: Mean reward of the episodes of each optimiser step.
        seconds: Seconds from the training's beginning to the end of each step.
        has_improved: Whether the last steps earn significantly more than the first ones.
    """

    seed: int
    rewards: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    has_improved: bool = False

    @property
    def first(self) -> float:
        """Mean reward of the first steps."""
        return fmean(self.rewards[:WINDOW])

    @property
    def last(self) -> float:
        """Mean reward of the last steps."""
        return fmean(self.rewards[-WINDOW:])

    def add(self, reward: float, seconds: float) -> None:
        """Add a step, and see whether the last steps are better than the first."""
        self.rewards.append(reward)
        self.seconds.append(seconds)
        if len(self.rewards) < 2 * WINDOW:
            return
        first, last = self.rewards[:WINDOW], self.rewards[-WINDOW:]
        error = sqrt((variance(first) + variance(last)) / WINDOW)
        self.has_improved = fmean(last) - fmean(first) > _SIGNIFICANT * error


class _Ending(TrainerCallback):
    """Ends a training after its time, or once the improvement is significant."""

    def __init__(self, curve: LearningCurve, seconds: float, *, to_the_end: bool) -> None:
        self._curve = curve
        self._start = time.monotonic()
        self._seconds = seconds
        self._to_the_end = to_the_end

    def on_log(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the step to the curve."""
        if not logs or "episode/reward" not in logs:
            return
        seconds = time.monotonic() - self._start
        self._curve.add(logs["episode/reward"], seconds)
        if seconds > self._seconds or (self._curve.has_improved and not self._to_the_end):
            control.should_training_stop = True


def train_tiny(environment: str, seed: int, steps: int, seconds: float, *, to_the_end: bool = False) -> LearningCurve:
    """Train the tiny policy on an environment, with the defaults of ``openenv train``.

    Args:
        environment: Target of the environment.
        seed: Seed of the run.
        steps: Optimiser steps at most.
        seconds: Seconds after which it is ended with the step under way.
        to_the_end: Whether it continues once the improvement is significant.

    Returns:
        The curve.

    Raises:
        OpenEnvError: The environment is none that it can be trained on.
    """
    curve = LearningCurve(seed)
    with TemporaryDirectory(prefix="openenv-validate-") as folder:
        config = TrainConfig(
            environment=environment,
            seed=seed,
            steps=steps,
            traces=False,
            eval_episodes=2,
            eval_temperature=0,
            checkpoint_every=steps + 1,
            device="cpu",
            output_dir=Path(folder),
        )
        train(config, Console(file=io.StringIO()), [_Ending(curve, seconds, to_the_end=to_the_end)])
    return curve
