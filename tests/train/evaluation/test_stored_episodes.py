"""Stored episodes: reused, or played again where the environment or the model is another one now."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.environment_folders import scaffold

from openenv.records.collection import Collection
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
