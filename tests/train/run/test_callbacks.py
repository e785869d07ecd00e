"""Progress and warnings while a model trains."""

from collections.abc import Callable
from io import StringIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from openenv.train.run.callbacks import LiveWarnings, StepTimes, TrainingProgress
from openenv.train.settings.config import TrainConfig
from openenv.train.time_split import TimeSplit

LOGS = {
    "episode/reward": 0.5,
    "episode/length": 9.0,
    "time/generation": 8.0,
    "time/training": 3.0,
    "speed/tokens_per_second": 1234.5,
    "speed/actions_per_second": 13.1,
}


def steps(shown: TrainingProgress, numbers: range) -> None:
    state = TrainerState()
    arguments: Any = TrainingArguments
    for number in numbers:
        state.global_step = number
        shown.on_log(arguments, state, TrainerControl(), LOGS)
    shown.on_log(arguments, state, TrainerControl(), {"train_runtime": 1.0})
    shown.on_log(arguments, state, TrainerControl(), None)


def clock(seconds: float) -> Callable[[], float]:
    """Make a clock on which this much time passes from one look to the next."""
    looks = count()
    return lambda: next(looks) * seconds


def test_a_terminal_shows_what_is_counted() -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    with TrainingProgress(console, total_steps=30) as shown:
        steps(shown, range(1, 31))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    for news in ("30/30 steps", "reward +0.500, mean of 10 steps", "9.0 actions an episode, 11.0 s a step"):
        assert news in written
    assert "13 actions/s, 1,234 tokens/s" in written


def test_elsewhere_a_resumed_run_has_lines_with_the_time_of_what_is_left() -> None:
    console = Console(file=StringIO(), width=40)
    with TrainingProgress(console, total_steps=200, done_steps=100, clock=clock(11.0)) as shown:
        steps(shown, range(101, 102))
    (line,) = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert line == (
        "101/200 steps  reward +0.500, mean of 1 step  9.0 actions an episode, 11.0 s a step  "
        "13 actions/s, 1,234 tokens/s  18:09 left"
    )


def test_a_step_has_the_time_of_what_happened_in_it_and_of_the_wait_before() -> None:
    seconds = iter(range(100))
    split = TimeSplit(lambda: next(seconds))
    times = StepTimes(split)
    nothing: Any = None
    times.on_step_begin(nothing, nothing, nothing)
    with split.measure("waiting"), split.measure("generation"):
        times.count(tokens=30, actions=8)
    times.on_step_end(nothing, nothing, nothing)
    assert times.drain() == {
        "time/waiting": 1 + 2 + 1,
        "time/training": 1 + 1,
        "time/generation": 1,
        "speed/tokens_per_second": 30.0,
    }
    assert times.drain() == {"time/waiting": 1}


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
