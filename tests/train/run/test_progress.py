"""What a person sees while a model trains."""

from collections.abc import Callable
from io import StringIO
from itertools import count
from typing import Any

from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from openenv.train.run.progress import TrainingProgress


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
