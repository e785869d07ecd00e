"""The folder of a run."""

import json
from pathlib import Path

import pytest

from openenv.core.exceptions import ConfigurationError
from openenv.records.lines import read_objects
from openenv.records.run_folder import RunFolder
from openenv.records.scores import Score


def checkpoint(folder: RunFolder, step: int, state: str = '{"global_step": 1}') -> Path:
    path = folder.checkpoints / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "trainer_state.json").write_text(state)
    return path


def test_a_run_never_overwrites_another(tmp_path: Path) -> None:
    folders = [RunFolder.create(tmp_path / "runs", "catch-tiny").path for _ in range(20)]
    assert len(set(folders)) == 20
    assert all(folder.name.startswith("catch-tiny-2") for folder in folders)
    RunFolder.create(tmp_path, "catch-tiny", "mine")
    with pytest.raises(ConfigurationError, match=r"mine is there already.* --resume"):
        RunFolder.create(tmp_path, "catch-tiny", "mine")


def test_names_are_made_fit_for_a_folder(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "my env/../x-Qwen3 0.6B")
    assert folder.path.parent == tmp_path
    assert folder.path.name.startswith("my-env-..-x-Qwen3-0.6B-2")
    assert RunFolder.create(tmp_path, "catch", "../a b").path == tmp_path / "..-a-b"


def test_the_settings_are_kept(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, "catch", "mine")
    folder.config.write_text("environment: catch\n")
    assert RunFolder.reopen(folder.path).read_settings() == {"environment": "catch"}
    folder.config.write_text("- catch\n")
    with pytest.raises(ConfigurationError, match="Expected a mapping of settings"):
        folder.read_settings()
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
    assert [row["step"] for row in read_objects(folder.rollouts)] == [1, 3, 4]
    folder.forget_after(checkpoint(folder, 3))
    assert [json.loads(line)["step"] for line in folder.rollouts.read_text().splitlines()] == [1, 3]


def test_steps_are_forgotten_in_a_file_of_its_own_or_not_at_all(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    for step in (1, 2):
        folder.add_rollouts({"step": step})
    folder.add_rollouts({"no step": 3})
    with pytest.raises(KeyError):  # when the first lines were copied
        folder.forget_after(checkpoint(folder, 1))
    assert [row.get("step") for row in read_objects(folder.rollouts)] == [1, 2, None]
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoints", "rollouts.jsonl"}


def test_scores_are_kept(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_scores() == {}
    scores = {"random player": Score(-0.5, 0.1, 9.0, 0.0, 3, 7, [{"observation": "ünï", "reward": 1.0}])}
    folder.write_scores(scores)
    assert folder.read_scores() == scores
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_scores_of_earlier_versions_are_read_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    score = Score(-0.5, 0.1, 9.0, 0.0, 3, 7, [], low=-0.7, high=-0.3)
    folder.write_scores({"random player": score})
    written = json.loads(folder.scores.read_text())
    earlier = {name: value for name, value in written["random player"].items() if name not in ("low", "high")}
    folder.scores.write_text(json.dumps({"earlier": earlier, "later": {**earlier, "x": 1}, "none": {}, "text": "0"}))
    assert list(folder.read_scores()) == ["earlier", "later"]
    assert folder.read_scores()["earlier"].figure == "-0.500 ± 0.100"
    assert score.figure == "-0.500 [-0.700, -0.300]"
    folder.scores.write_text("[1")
    assert folder.read_scores() == {}


def test_a_run_ends_with_a_report_and_the_score_of_each_environment(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.starts.touch()
    assert (folder.state, folder.is_scored) == ("interrupted", False), "there are no settings"
    folder.config.write_text("environments:\n  a: {environment: catch}\n  b: {environment: wordle}\n")
    score = Score(0.5, 0.1, 9.0, 0.0, 3, 7, [])
    folder.write_scores({"a: after training": score, "b: after training": score})
    assert (folder.is_scored, folder.state) == (True, "interrupted"), "there is no report"
    folder.report.touch()
    assert folder.has_ended
    with folder.held():
        assert folder.state == "running"


def test_a_run_that_goes_on_has_no_end_yet(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.config.write_text("environments: {}\n")
    score = Score(0.5, 0.1, 9.0, 0.0, 3, 7, [])
    folder.write_scores(dict.fromkeys(("random player", "after training", "after training, sampled"), score))
    folder.forget_end()
    assert list(folder.read_scores()) == ["random player"]


def test_warnings_are_kept_until_the_steps_are_done_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_warnings() == []
    folder.write_warnings(["flat", "ünclear"])
    assert folder.read_warnings() == ["flat", "ünclear"]
    folder.forget_after(None)
    assert folder.read_warnings() == []


def test_the_rollouts_of_the_last_steps(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.last_rollouts(10) == []
    for step in (1, 2, 2, 3):
        folder.add_rollouts({"step": step, "episodes": []})
    assert [line["step"] for line in folder.last_rollouts(2)] == [2, 2, 3]
    assert [line["step"] for line in folder.last_rollouts(10)] == [1, 2, 2, 3]
