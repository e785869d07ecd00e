"""Stored episodes: reused, or played again where the environment or the model is another one now."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.environment_folders import scaffold
from tests.support.rated_folder import rate, rated_environment

from openenv.records.collection import Collection
from openenv.traces import open as open_traces
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.evaluation.stored_episodes import played_versions, reuse_stored
from openenv.train.settings.play_settings import PlaySettings


def printed(environment: Path, output: Path) -> str:
    """Evaluate a random player on two tasks, and return what is printed."""
    console = Console(file=StringIO(), width=200)
    settings = PlaySettings(environment=str(environment), player="random", max_turns=2, traces=False)
    evaluate(settings, output, num_tasks=2, sessions=2, console=console)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.level("process")
def test_a_changed_environment_is_played_again(tmp_path: Path) -> None:
    environment, output = scaffold(tmp_path, "my_env"), tmp_path / "e"
    assert "stored" not in printed(environment, output)
    episodes = (output / "episodes.jsonl").read_bytes()
    (environment / "README.md").write_text("Another description.")
    (environment / "runs").mkdir()
    (environment / "runs" / "notes.txt").write_text("Outputs are no part of an environment.")
    assert "2 stored episodes are reused.\n" in printed(environment, output)
    assert not (output / "earlier").exists()
    with (environment / "server" / "my_env_environment.py").open("a") as file:
        file.write("\n# changed\n")
    said = printed(environment, output)
    assert "2 stored episodes are played again: the version of the environment was 0.1.0 (" in said
    assert f"The earlier ones are in {output}/earlier/1." in said
    assert (output / "earlier" / "1" / "episodes.jsonl").read_bytes() == episodes
    assert len(Collection(output).indexes()) == 2


@pytest.mark.level("process")
def test_another_rubric_scores_stored_episodes_anew(tmp_path: Path) -> None:
    environment, output = rated_environment(tmp_path), tmp_path / "e"

    def evaluated(*, traces: bool = True) -> tuple[str, float]:
        console = Console(file=StringIO(), width=500)
        settings = PlaySettings(environment=str(environment), player="random", traces=traces)
        found = evaluate(settings, output, num_tasks=4, sessions=4, console=console)
        assert isinstance(console.file, StringIO)
        return console.file.getvalue(), found.mean_reward.value

    _, first = evaluated()
    collection = Collection(output)
    lefts = {line["index"]: line["rewards"].count(1.0) for line in collection.read()}
    assert 0 < sum(lefts.values()) < 12
    assert first == sum(lefts.values()) / 4

    rate(environment, 0.25, -1.0)
    said, mean = evaluated()
    assert "4 stored episodes are scored anew: the version of the rubric was " in said
    assert mean == sum(0.25 * lefts[index] - (3 - lefts[index]) for index in range(4)) / 4
    assert {line["index"]: line["rewards"].count(0.25) for line in collection.read()} == lefts
    assert all(line["reward_components"] == {"first": line["reward"]} for line in collection.read())
    with open_traces(collection.traces) as file:
        (score, *_) = [score for episode in file.episodes() for score in file.scores(episode.id)]
        assert (score.name, set(score.rewards) <= {0.25, -1.0}) == ("rubric", True)
        assert file.count() == 4, "nothing was played"
    assert "4 stored episodes are reused." in evaluated()[0]

    # One whose recorded rewards are not the rubric's, one that failed by itself, and one in which the rubric failed.
    lines = collection.read()
    collection.set_aside()
    collection.add({**lines[0], "rewards": [9.0, 9.0, 9.0], "reward": 27.0})
    collection.add(lines[1])
    for line, kind in zip(lines[2:], ("environment", "rubric"), strict=True):
        collection.leave_out({"index": line["index"], "task": line["task"], "failure": kind}, "the environment failed")
    rate(environment, 3.0, 0.0)
    said, mean = evaluated()
    assert (
        "1 stored episode is scored anew; 1 stored episode is reused, since it failed; 2 stored episodes are " in said
    )
    assert "played again, since the rubric that they were played with does not score what is on record" in said
    counted = [lefts[line["index"]] for line in (*lines[:2], lines[3])]
    assert mean == sum(counted)
    assert [line["index"] for line in collection.read_left_out()] == [lines[2]["index"]]

    collection.traces.unlink()
    rate(environment, 5.0, 0.0)
    said, _ = evaluated(traces=False)
    assert "4 stored episodes are played again, since their traces are not on record: the version of the rubric" in said
    with (environment / "server" / "turn_environment.py").open("a") as module:
        module.write("# changed\n")
    rate(environment, 1.0, 0.0)
    said, _ = evaluated(traces=False)
    assert "4 stored episodes are played again: the version of the environment was" in said
    assert "and the version of the rubric was" in said


def test_other_weights_are_another_model(tmp_path: Path) -> None:
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    settings = PlaySettings(environment="catch", model=str(weights.parent))
    versions = []
    for last in (b"one", b"two"):
        weights.write_bytes(b"0" * 3_000_000 + last)
        versions.append(played_versions(settings, None))
    first, second = versions
    assert str(first["model"]).startswith("model (")
    assert (first["environment"], first == second) == (None, False)
    collection = Collection.open(tmp_path / "e", {"environment": "catch"})
    assert reuse_stored(collection, first) is None
    collection.leave_out({"index": 0, "task": {}, "reward": 0.0}, "the environment failed")
    assert reuse_stored(collection, first) == "1 stored episode is reused."
    assert reuse_stored(collection, {"environment": None, "model": None}) == "1 stored episode is reused."
    reuse_stored(collection, first)
    assert "1 stored episode is played again: the version of the model was" in str(reuse_stored(collection, second))
    assert collection.indexes() == set()
