"""The time of a run, in its steps and beside them."""

from pathlib import Path

import pytest

from openenv.records.run_folder import RunFolder
from openenv.records.run_times import RunTimes

STEPS = [
    {"step": 1, "loss": 1.0},  # of an earlier version
    {"step": 2, "time/generation": 3.0, "time/training": 1.0, "speed/tokens_per_second": 100.0},
    {"step": 3, "time/generation": 1.0, "time/environment": 2.0, "speed/tokens_per_second": 20.0},
]


def test_times_of_steps_and_beside_them_are_added() -> None:
    times = RunTimes.of(STEPS, {"evaluation": 2.0, "training": 1.0, "dreaming": 9.0})
    assert times.seconds == {"generation": 4.0, "environment": 2.0, "training": 2.0, "evaluation": 2.0}
    assert times.step_seconds == {"generation": 2.0, "environment": 1.0, "training": 0.5}
    assert times.total == 10.0
    assert times.shares["generation"] == 0.4
    assert times.tokens_per_second == 80.0, "the mean over the seconds, not over the steps"
    assert times.actions_per_second is None
    assert times.speeds == "80 tokens/s of the model"


def test_a_folder_adds_what_no_step_has(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.run_times() == RunTimes({}, {}, None, None)
    for step in STEPS:
        folder.add_metrics(step)
    folder.add_times({"evaluation": 1.5})
    folder.add_times({"evaluation": 0.5, "waiting": 1.0})
    assert folder.read_times() == {"evaluation": 2.0, "waiting": 1.0}
    assert folder.run_times().total == 7.0 + 3.0


@pytest.mark.parametrize("content", ["", "[1]", '{"waiting": "long"}', '{"waiting": -1}'])
def test_a_file_of_other_programs_has_no_times(tmp_path: Path, content: str) -> None:
    (tmp_path / "times.json").write_text(content)
    assert RunFolder(tmp_path).read_times() == {}
