"""What a person sees while a model trains: one live line in a terminal, plain lines now and then elsewhere."""

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from transformers import TrainerCallback

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["TrainingProgress"]

PLAIN_LINE_EVERY_S = 10.0
AVERAGED_STEPS = 10


class TrainingProgress(TrainerCallback):
    """Shows reward, episode length, environment steps per second and the time left.

    Use it as a context manager around the training.

    Args:
        console: Where to write.
        total_steps: Optimiser steps of the whole run.
        rollouts: Episodes in each of them.
        done_steps: Steps that were done before, when a run is resumed.
        clock: Tells the time in seconds.
    """

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


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
