"""The folder of a run."""

import json
from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.scores import Score
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.run_folder import RunFolder, read_lines


def config(folder: Path, name: str | None = None, model: str = "tiny") -> TrainConfig:
    return TrainConfig(environment="catch", output_dir=folder, name=name, model=model)


def checkpoint(folder: RunFolder, step: int, state: str = '{"global_step": 1}') -> Path:
    path = folder.checkpoints / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(state)
    return path


def test_a_run_never_overwrites_another(tmp_path: Path) -> None:
    folders = [RunFolder.create(config(tmp_path / "runs"), "catch").path for _ in range(20)]
    assert len(set(folders)) == 20
    assert all(folder.name.startswith("catch-tiny-2") for folder in folders)
    RunFolder.create(config(tmp_path, "mine"), "catch")
    with pytest.raises(ConfigurationError, match=r"mine is there already.* --resume"):
        RunFolder.create(config(tmp_path, "mine"), "catch")


def test_names_are_made_fit_for_a_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(config(tmp_path, model="Qwen/Qwen3 0.6B"), "my env/../x")
    assert folder.path.parent == tmp_path
    assert folder.path.name.startswith("my-env-..-x-Qwen3-0.6B-2")
    assert RunFolder.create(config(tmp_path, "../a b"), "catch").path == tmp_path / "..-a-b"


def test_the_settings_are_kept(tmp_path: Path) -> None:
    settings = config(tmp_path, "mine")
    folder = RunFolder.create(settings, "catch")
    assert RunFolder.reopen(folder.path).load_config() == settings
    with pytest.raises(ConfigurationError, match=r"is no run's folder: there is no config\.yaml in it"):
        RunFolder.reopen(tmp_path)


def test_the_last_complete_checkpoint_counts(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.last_checkpoint() is None
    checkpoint(folder, 9)
    newest = checkpoint(folder, 100)
    checkpoint(folder, 110, state='{"global_st')
    checkpoint(folder, 120, state="[]")
    (folder.checkpoints / "checkpoint-130").mkdir()
    assert folder.last_checkpoint() == newest


def test_what_came_after_a_checkpoint_is_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in range(1, 6):
        folder.add_metrics({"step": step})
    with folder.metrics.open("a") as file:
        file.write('{"step": 6, "rew')
    kept = checkpoint(folder, 3)
    checkpoint(folder, 5)
    assert [row["step"] for row in folder.read_metrics()] == [1, 2, 3, 4, 5]
    folder.forget_after(kept)
    assert [json.loads(line)["step"] for line in folder.metrics.read_text().splitlines()] == [1, 2, 3]
    assert [path.name for path in folder.checkpoints.iterdir()] == ["checkpoint-3"]
    folder.forget_after(None)
    assert folder.read_metrics() == []
    assert folder.last_checkpoint() is None


def test_a_line_that_a_full_disk_cut_off_costs_no_other(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.add_rollouts({"step": 1})
    with folder.rollouts.open("a") as file:
        file.write('{"step": 2, "epi')
    folder.add_rollouts({"step": 3})
    folder.add_rollouts({"step": 4})
    assert [row["step"] for row in read_lines(folder.rollouts)] == [1, 3, 4]
    folder.forget_after(checkpoint(folder, 3))
    assert [json.loads(line)["step"] for line in folder.rollouts.read_text().splitlines()] == [1, 3]


def test_steps_are_forgotten_in_a_file_of_its_own_or_not_at_all(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (1, 2):
        folder.add_rollouts({"step": step})
    folder.rollouts.with_suffix(".draft").mkdir()  # nothing can be written there
    with pytest.raises(IsADirectoryError):
        folder.forget_after(None)
    assert [row["step"] for row in read_lines(folder.rollouts)] == [1, 2]


def test_scores_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_scores() == {}
    scores = {"random player": Score(-0.5, 0.1, 9.0, 0.0, 3, 7, [{"observation": "ünï", "reward": 1.0}])}
    folder.write_scores(scores)
    assert folder.read_scores() == scores
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]
