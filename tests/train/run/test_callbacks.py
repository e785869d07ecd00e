"""Progress and warnings while a model trains."""

from collections.abc import Callable
from io import StringIO
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from openenv.train.run.callbacks import LiveWarnings, RunControl, TrainingProgress
from openenv.train.run.interruption import Interruption
from openenv.train.settings.config import TrainConfig

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
        shown.on_log(arguments, state, TrainerControl(), LOGS, torch.nn.Linear(2, 2))
    shown.on_log(arguments, state, TrainerControl(), {"train_runtime": 1.0})
    shown.on_log(arguments, state, TrainerControl(), None)


def clock(seconds: float) -> Callable[[], float]:
    """Make a clock on which this much time passes from one look to the next."""
    looks = count()
    return lambda: next(looks) * seconds


def test_a_terminal_shows_what_is_counted(tmp_path: Path) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=80)
    config = TrainConfig(environment="catch", steps=30, output_dir=tmp_path)
    with TrainingProgress(console, config, config.make_folder("catch"), done_steps=29) as shown:
        steps(shown, range(30, 31))
    written = console.file.getvalue()  # type: ignore[attr-defined]
    for news in ("30/30 steps", "reward +0.500, mean of 1 step", "9.0 actions an episode, 11.0 s a step"):
        assert news in written
    assert "13 actions/s, 1,234 tokens/s" in written


def test_elsewhere_a_resumed_run_has_lines_with_the_time_of_what_is_left(tmp_path: Path) -> None:
    console = Console(file=StringIO(), width=40)
    config = TrainConfig(environment="catch", steps=200, output_dir=tmp_path)
    with TrainingProgress(console, config, config.make_folder("catch"), 100, clock=clock(11.0)) as shown:
        steps(shown, range(101, 102))
    estimate, line = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert estimate.startswith("left      about 18 min; 0.1 GB of disk in all; Ctrl-C is safe")
    assert line == (
        "101/200 steps  reward +0.500, mean of 1 step  9.0 actions an episode, 11.0 s a step  "
        "13 actions/s, 1,234 tokens/s  18:09 left"
    )


def estimate_of(config: TrainConfig, seconds: float) -> str:
    """What is printed after the first two steps, each of which took this long."""
    folder = config.make_folder("catch")
    folder.add_times({"evaluation": 600.0})
    folder.rollouts.write_bytes(b"x" * 10_000_000)
    console = Console(file=StringIO(), width=80)
    progress = TrainingProgress(console, config, folder, clock=clock(0.0))
    model = torch.nn.Linear(1000, 99_999)  # with the biases 100 million weights
    model.bias.requires_grad = False
    nothing: Any = None
    with progress:
        for step in (1, 2):
            state: Any = SimpleNamespace(global_step=step)
            times = {"time/generation": seconds / 2, "time/training": seconds / 2}
            logs = {"episode/reward": 0.5, "episode/length": 3.0, **times}
            progress.on_log(nothing, state, nothing, logs=logs, model=model)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_first_step_tells_how_long_and_how_large_the_run_will_be(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"environment": "catch", "steps": 201, "checkpoint_every": 25, "output_dir": tmp_path}
    # Three checkpoints of 12 bytes a learned weight, the model at the end, and 201 times what the first step recorded.
    text = "left      about 5 h; 6.0 GB of disk in all; Ctrl-C is safe: --resume\n"
    assert estimate_of(TrainConfig(**settings), 87.0) == text
    fewer = TrainConfig(**settings, checkpoints_kept=1, sft=8)
    assert estimate_of(fewer, 30.0) == "left      about 110 min; 5.2 GB of disk in all; Ctrl-C is safe: --resume\n"


def test_a_short_run_needs_no_estimate(tmp_path: Path) -> None:
    config = TrainConfig(environment="catch", output_dir=tmp_path)
    console = Console(file=StringIO(), width=80)
    state: Any = SimpleNamespace(global_step=1)
    with TrainingProgress(console, config, config.make_folder("catch"), clock=clock(0.0)) as progress:
        progress.on_log(state, state, state, {"episode/reward": 0.5, "episode/length": 3.0, "time/training": 0.1})
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_checkpoints_beyond_a_size_go(tmp_path: Path) -> None:
    config = TrainConfig(environment="catch", output_dir=tmp_path, checkpoints_max_gb=25e-9)
    folder = config.make_folder("catch")
    nothing: Any = None
    for step in (5, 10, 100):
        (folder.checkpoints / f"checkpoint-{step}").mkdir(parents=True)
        (folder.checkpoints / f"checkpoint-{step}" / "weights").write_bytes(b"x" * 10)
        RunControl(Interruption(), config, folder).on_save(nothing, nothing, nothing)
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["checkpoint-10", "checkpoint-100"]
    folder.keep_checkpoints(1)
    assert [path.name for path in folder.checkpoints.iterdir()] == ["checkpoint-100"], "the newest stays"


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
