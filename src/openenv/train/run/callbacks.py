"""Callbacks of a run's trainer: progress, warnings, the rate that it resumes with, the end."""

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
from openenv.train.run.diagnosis import LAST_STEPS, diagnose_run
from openenv.train.run.interruption import Interruption
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.disk_use import gigabytes, run_bytes

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["LiveWarnings", "RunControl", "TrainingProgress"]

AVERAGED_STEPS = 10
# Seconds of a training that needs no estimate.
_SHORT_S = 60.0


class TrainingProgress(TrainerCallback):
    """Shows the reward, the length of episodes, the speeds and the time left, as a context manager.

    After the first step it prints how long a run takes that takes a minute or longer, and how much disk.
    """

    def __init__(
        self,
        console: Console,
        config: TrainConfig,
        folder: RunFolder,
        done_steps: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._config = config
        self._folder = folder
        self._progress = WorkProgress(console, "steps", config.steps, done_steps, recent=AVERAGED_STEPS, clock=clock)
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
        model: Any = None,
        **kwargs: Any,
    ) -> None:
        """Show the news of a step."""
        if not logs or "episode/reward" not in logs:
            return
        seconds = sum(logs.get(time_metric(activity), 0.0) for activity in ACTIVITIES)
        if not self._rewards:
            self._print_estimate(seconds, state.global_step, model)
        self._rewards.append(logs["episode/reward"])
        count = len(self._rewards)
        speeds = ((ACTIONS_SPEED, "actions/s"), (TOKENS_SPEED, "tokens/s"))
        self._progress.advance(
            state.global_step,
            f"reward {sum(self._rewards) / count:+.3f}, mean of {count} step{'s' * (count > 1)}",
            f"{logs['episode/length']:.1f} actions an episode, {seconds:.1f} s a step",
            ", ".join(f"{logs[metric]:,.0f} {unit}" for metric, unit in speeds if metric in logs),
        )

    def _print_estimate(self, step_s: float, step: int, model: Any) -> None:
        """Print the time that is left and the disk of the whole run, unless the time is less than a minute."""
        # The model is evaluated again at the end, as at the beginning, greedy and sampled, and greedy in between.
        evaluations = 1 + len(self._config.evaluated_steps) / 2
        evaluation_s = self._folder.read_times().get("evaluation", 0.0)
        seconds = step_s * (self._config.steps - step) + evaluation_s * evaluations
        if seconds < _SHORT_S:
            return
        weights = list(model.parameters())
        learned = sum(each.numel() for each in weights if each.requires_grad)
        disk: float = run_bytes(self._config, sum(each.numel() for each in weights), learned)
        recorded = (self._folder.traces, self._folder.rollouts)
        disk += sum(file.stat().st_size for file in recorded if file.is_file()) * self._config.steps / step
        text = f"left      about {_rough_duration(seconds)}; {gigabytes(disk)} of disk in all; Ctrl-C is safe: --resume"
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


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
        for warning in diagnose_run(self._config, self._folder, has_scores=False):
            if (warning.environment, warning.name) not in self._printed:
                self._printed.add((warning.environment, warning.name))
                text = f"warning   at step {state.global_step}: {warning}"
                self._console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)


class RunControl(TrainerCallback):
    """Begins with the rate of the schedule, keeps few checkpoints, and ends with one when a signal came."""

    def __init__(self, interruption: Interruption, config: TrainConfig, folder: RunFolder) -> None:
        self._interruption = interruption
        self._config = config
        self._folder = folder

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

    def on_save(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Delete the oldest checkpoints where all of them are larger than the settings allow."""
        if self._config.checkpoints_max_gb is not None:
            self._folder.keep_checkpoints(self._config.checkpoints_max_gb * 1e9)


def _rough_duration(seconds: float) -> str:
    """Return seconds as whole hours or minutes.

    Example:
        >>> _rough_duration(5 * 3600 + 100), _rough_duration(5000)
        ('5 h', '83 min')
    """
    return f"{round(seconds / 3600)} h" if seconds >= 7200 else f"{round(seconds / 60)} min"
