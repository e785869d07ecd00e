"""Callbacks of a run's trainer: progress, warnings, the time of its steps, the rate that it resumes with, the end."""

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from transformers import TrainerCallback

from openenv.records.run_folder import RunFolder
from openenv.records.run_times import ACTIONS_SPEED, ACTIVITIES, TOKENS_SPEED, time_metric
from openenv.train.progress import WorkProgress
from openenv.train.run.diagnosis import LAST_STEPS, diagnose
from openenv.train.run.interruption import Interruption
from openenv.train.settings.config import TrainConfig
from openenv.train.time_split import TimeSplit

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["LiveWarnings", "RunControl", "StepTimes", "TrainingProgress"]

AVERAGED_STEPS = 10


class TrainingProgress(TrainerCallback):
    """Shows the reward, the length of episodes, the speeds and the time left, as a context manager."""

    def __init__(
        self,
        console: Console,
        total_steps: int,
        done_steps: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = WorkProgress(console, "steps", total_steps, done_steps, recent=AVERAGED_STEPS, clock=clock)
        self._rewards: deque[float] = deque(maxlen=AVERAGED_STEPS)

    def __enter__(self) -> Self:
        """Show the display; the time counts from here."""
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the display as it is."""
        self._progress.__exit__(kind, error, traceback)

    def on_log(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Show the news of a step."""
        if not logs or "episode/reward" not in logs:
            return
        self._rewards.append(logs["episode/reward"])
        count = len(self._rewards)
        seconds = sum(logs.get(time_metric(activity), 0.0) for activity in ACTIVITIES)
        speeds = ((ACTIONS_SPEED, "actions/s"), (TOKENS_SPEED, "tokens/s"))
        self._progress.advance(
            state.global_step,
            f"reward {sum(self._rewards) / count:+.3f}, mean of {count} step{'s' * (count > 1)}",
            f"{logs['episode/length']:.1f} actions an episode, {seconds:.1f} s a step",
            ", ".join(f"{logs[metric]:,.0f} {unit}" for metric, unit in speeds if metric in logs),
        )


class StepTimes(TrainerCallback):
    """Measures the time of each optimiser step by what it goes to, and what was played in it.

    Args:
        split: Split of the run's time.
    """

    def __init__(self, split: TimeSplit) -> None:
        self.split = split
        # Since the last step was logged.
        self._tokens = self._actions = 0

    def count(self, tokens: int, actions: int) -> None:
        """Count tokens that the model has written, and actions of the environment."""
        self._tokens += tokens
        self._actions += actions

    def drain(self) -> dict[str, float]:
        """Return the metrics of the step that ends now: its seconds by activity, and the speeds."""
        seconds = self.split.drain()
        metrics = {time_metric(activity): value for activity, value in seconds.items()}
        for metric, count, activity in (
            (TOKENS_SPEED, self._tokens, "generation"),
            (ACTIONS_SPEED, self._actions, "environment"),
        ):
            if duration_s := metrics.get(time_metric(activity)):
                metrics[metric] = count / duration_s
        self._tokens = self._actions = 0
        return metrics

    def on_step_begin(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Count the time for training, but for what is measured within."""
        self.split.switch("training")

    def on_step_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Count the time until the next step, as of checkpoints, for waiting."""
        self.split.switch("waiting")


class LiveWarnings(TrainerCallback):
    """Prints the causes that keep a run from learning, each kind of them once."""

    def __init__(self, console: Console, config: TrainConfig, folder: RunFolder) -> None:
        self._console = console
        self._config = config
        self._folder = folder
        # The step at which the metrics are read next: after 10, 20, 40, 80 steps and so on, so that a long run does not
        # read them again and again.
        self._next = LAST_STEPS
        # Environment and name of each warning so far.
        self._printed: set[tuple[str, str]] = set()

    def on_log(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Print the warnings, where they are due."""
        if state.global_step < self._next:
            return
        while self._next <= state.global_step:
            self._next *= 2
        for warning in diagnose(self._config, self._folder.read_metrics(), {}):
            if (warning.environment, warning.name) not in self._printed:
                self._printed.add((warning.environment, warning.name))
                text = f"warning   at step {state.global_step}: {warning}"
                self._console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)


class RunControl(TrainerCallback):
    """Begins with the learning rate of the schedule, and ends with a checkpoint when a signal came."""

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption

    def on_train_begin(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        optimizer: Any = None,
        lr_scheduler: Any = None,
        **kwargs: Any,
    ) -> None:
        """Set the rate of the first step: a checkpoint of a shorter run holds that run's own."""
        schedules = zip(lr_scheduler.base_lrs, lr_scheduler.lr_lambdas, strict=True)
        rates = [base * share(lr_scheduler.last_epoch) for base, share in schedules]
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        lr_scheduler._last_lr = rates  # what is logged

    def on_step_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Request a checkpoint and the end."""
        if self._interruption.received is not None:
            control.should_save = control.should_training_stop = True
