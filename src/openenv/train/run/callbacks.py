"""Callbacks of a run's trainer: progress and warnings on the terminal, the rate that it resumes with, the end."""

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from transformers import TrainerCallback

from openenv.records.run_folder import RunFolder
from openenv.train.run.diagnosis import LAST_STEPS, diagnose
from openenv.train.run.interruption import Interruption
from openenv.train.settings.config import TrainConfig

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["LiveWarnings", "RunControl", "TrainingProgress"]

PLAIN_LINE_EVERY_S = 10.0
AVERAGED_STEPS = 10


class TrainingProgress(TrainerCallback):
    """Shows reward, episode length, environment steps per second and the time left, as a context manager."""

    def __init__(
        self,
        console: Console,
        total_steps: int,
        rollouts: int,
        done_steps: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._clock = clock
        self._total = total_steps
        self._rollouts = rollouts
        self._rewards: deque[float] = deque(maxlen=AVERAGED_STEPS)
        # When the training began, then the ends of its last steps.
        self._ends: deque[float] = deque(maxlen=AVERAGED_STEPS + 1)
        self._last_line = 0.0
        self._bar = Progress(
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TextColumn("{task.fields[left]}", style="progress.remaining"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("training", total=total_steps, completed=done_steps, news="", left="")

    def __enter__(self) -> Self:
        """Show the bar; the time counts from here."""
        self._last_line = self._clock()
        self._ends.append(self._last_line)
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the bar as it is."""
        self._bar.stop()

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
        self._ends.append(self._clock())
        self._rewards.append(logs["episode/reward"])
        seconds_each = (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1)
        news = (
            f"reward {sum(self._rewards) / len(self._rewards):+.3f}  length {logs['episode/length']:.1f}  "
            f"{self._rollouts * logs['episode/length'] / seconds_each:,.0f} steps/s"
        )
        left = f"{_duration(seconds_each * (self._total - state.global_step))} left"
        self._bar.update(self._task, completed=state.global_step, news=news, left=left)
        if not self._console.is_terminal:
            self._write_line(state.global_step, f"{news}  {left}")

    def _write_line(self, step: int, news: str) -> None:
        now = self._clock()
        if now - self._last_line >= PLAIN_LINE_EVERY_S or step == self._total:
            self._last_line = now
            self._console.print(f"step {step}/{self._total}  {news}", highlight=False, soft_wrap=True)


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
        for warning in diagnose(self._config, self._folder.read_metrics(), self._folder.read_scores()):
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


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
