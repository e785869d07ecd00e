"""Warnings while a run goes on."""

from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from openenv.train.run.live_warnings import LiveWarnings
from openenv.train.settings.config import TrainConfig


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
