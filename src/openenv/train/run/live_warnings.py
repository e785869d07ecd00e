"""Warnings in the terminal while a run goes on, rather than after it."""

from typing import TYPE_CHECKING, Any

from rich.console import Console
from transformers import TrainerCallback

from openenv.records.run_folder import RunFolder
from openenv.train.run.diagnosis import LAST_STEPS, diagnose
from openenv.train.settings.config import TrainConfig

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["LiveWarnings"]


class LiveWarnings(TrainerCallback):
    """Prints what keeps a run from learning, each kind of it once.

    It looks after 10, 20, 40, 80 steps and so on, so that a long run does not read its metrics again and again.

    Args:
        console: Where to write.
        config: The run's settings.
        folder: The run's folder, whose metrics are written before this is called.
    """

    def __init__(self, console: Console, config: TrainConfig, folder: RunFolder) -> None:
        self._console = console
        self._config = config
        self._folder = folder
        self._next = LAST_STEPS
        self._printed: set[tuple[str, str]] = set()

    def on_log(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Look, where it is time for it."""
        if state.global_step < self._next:
            return
        while self._next <= state.global_step:
            self._next *= 2
        for warning in diagnose(self._config, self._folder.read_metrics(), {}):
            if (warning.environment, warning.name) not in self._printed:
                self._printed.add((warning.environment, warning.name))
                text = f"warning   at step {state.global_step}: {warning}"
                self._console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)
