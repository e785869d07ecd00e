"""Progress and warnings while a model trains."""

from collections.abc import Callable
from io import StringIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from openenv.train.run.callbacks import LiveWarnings, TrainingProgress
from openenv.train.settings.config import TrainConfig


def steps(shown: TrainingProgress, numbers: range) -> None:
    state = TrainerState()
    arguments: Any = TrainingArguments
    for number in numbers:
        state.global_step = number
        shown.on_log(arguments, state, TrainerControl(), {"episode/reward": 0.5, "episode/length": 9.0})
    shown.on_log(arguments, state, TrainerControl(), {"train_runtime": 1.0})
    shown.on_log(arguments, state, TrainerControl(), None)


def clock(seconds: float) -> Callable[[], float]:
    """Make a clock on which this much time passes from one look to the next."""
    looks = count()
    return lambda: next(looks) * seconds


def test_a_terminal_has_one_live_line() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    with TrainingProgress(console, total_steps=30, rollouts=16) as shown:
        steps(shown, range(1, 31))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    for news in ("30/30", "reward +0.500", "length 9.0", "steps/s", "0:00 left"):
        assert news in written
    assert "\nstep " not in written


def test_elsewhere_there_are_plain_lines_now_and_then() -> None:
    console = Console(file=StringIO(), width=40)
    with TrainingProgress(console, total_steps=30, rollouts=16, clock=clock(2.0)) as shown:
        steps(shown, range(1, 31))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert 3 < len(lines) < 15
    assert lines[-1].startswith("step 30/30  reward +0.500  length 9.0  ")
    assert lines[-1].endswith(" steps/s  0:00 left")
    assert all("\x1b" not in line for line in lines)


def test_a_resumed_run_tells_the_time_of_what_is_left() -> None:
    console = Console(file=StringIO(), width=40)
    with TrainingProgress(console, total_steps=200, rollouts=16, done_steps=100, clock=clock(11.0)) as shown:
        steps(shown, range(101, 102))
    (line,) = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert line == "step 101/200  reward +0.500  length 9.0  13 steps/s  18:09 left"


def test_each_warning_is_printed_once_and_as_soon_as_there_are_enough_steps(tmp_path: Path) -> None:
    config = TrainConfig(environment="catch", output_dir=tmp_path)
    folder = config.make_folder("catch")
    console = Console(file=StringIO(), width=80)
    warnings = LiveWarnings(console, config, folder)
    nothing: Any = None
    printed = []
    for step in range(1, 41):
        flat = 1.0 if step > 10 else 0.0
        row = {"step": step, "episode/reward": -float(flat), "episode/flat_groups": flat, "entropy": 1.0 - flat}
        folder.add_metrics({**row, "episode/best_reward": 1.0})
        state: Any = SimpleNamespace(global_step=step)
        warnings.on_log(nothing, state, nothing, logs=row)
        printed.append(console.file.getvalue())  # type: ignore[attr-defined]
    assert printed[18] == "", "nothing is wrong in the first ten steps, and these are not enough of the next"
    assert printed[19].count("warning   at step 20: ") == 2
    assert "In 100% of the groups" in printed[19]
    assert printed[39] == printed[19]
