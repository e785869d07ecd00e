"""``openenv eval`` as a person uses it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import scaffold


def test_what_is_shown_and_where_it_lies(openenv_here: Any, tmp_path: Path) -> None:
    shown = openenv_here("eval", "catch", "--player", "random", "--tasks", "12", "--samples", "3", "--k", "2").stdout
    text = " ".join(shown.split())
    assert "random player on catch 12 tasks, 3 attempts at each mean 95% interval" in text
    assert re.search(r"reward [+-]0\.\d{3} [+-]\d\.\d{3} to [+-]\d\.\d{3} pass@2 0\.\d{3} 0\.\d{3} to 0\.\d{3}", text)
    assert "the 10 worst tasks" in text
    (folder,) = (tmp_path / "evals").iterdir()
    assert folder.name.startswith("catch-random-player-")
    for what in ("results", "episodes", "traces"):
        place = re.findall(rf"^{what} +(.+)$", shown, re.MULTILINE)[-1]
        assert Path(place).is_file()
    results = json.loads((folder / "results.json").read_text())
    assert list(results["pass_at"]) == ["2"]
    assert f"pass@2 {results['pass_at']['2']['value']:.3f}" in text


def test_results_have_the_environments_name_wherever_its_folder_is(
    openenv_here: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = scaffold(tmp_path, "my_env")
    monkeypatch.chdir(folder)
    shown = openenv_here("eval", ".", "--player", "random", "--tasks", "2", "--max-turns", "2")
    assert "random player on my_env" in shown.stdout
    (results,) = (folder / "evals").iterdir()
    assert results.name.startswith("my_env-random-player-")
    assert json.loads((results / "results.json").read_text())["environment"] == "my_env"
    assert json.loads((results / "settings.json").read_text())["environment"] == "my_env"
    line = json.loads((results / "episodes.jsonl").read_text().splitlines()[0])
    assert line["environment"] == "my_env"


def test_json_alone(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here("eval", "wordle", "--tasks", "3", "--json", "--output", "e", "--max-turns", "6", "--no-traces")
    assert not (tmp_path / "e" / "traces.db").exists()
    results = json.loads(ended.stdout)
    assert results["mean_reward"]["value"] == 1.0
    assert results["pass_at"]["1"]["low"] == pytest.approx(0.4385, abs=1e-3)
    assert len(results["tasks"]) == 3


def test_the_smaller_number_of_tasks(openenv_here: Any) -> None:
    for numbers in (["--tasks", "9", "--num-tasks", "2"], ["--tasks", "2", "--num-tasks", "9"]):
        assert "\n2 tasks " in openenv_here("eval", "catch", "--player", "random", *numbers).stdout


@pytest.mark.needs("reasoning-gym")
def test_a_split_by_its_name(openenv_here: Any) -> None:
    ended = openenv_here(
        "eval", "reasoning_gym", "--player", "scripted", "--tasks", "train", "--num-tasks", "2", "--output", "e"
    )
    assert "2 tasks" in ended.stdout
    assert '{"split": "train", "index": 1}' in ended.stdout


def test_the_scripted_player_plays_unless_another_is_named(openenv_here: Any, tmp_path: Path) -> None:
    ended = openenv_here("eval", "catch", "--tasks", "1", "--output", tmp_path / "results")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "scripted player on catch" in ended.stdout


def test_a_model_that_can_t_be_is_refused_before_torch_is_imported() -> None:
    program = (
        "import sys\nfrom openenv.cli.__main__ import main\n"
        "sys.argv = ['openenv', 'eval', 'catch', '--model', 'tiny']\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    print(ended.code, 'torch' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "2 False\n"


def test_mistakes(openenv_here: Any) -> None:
    for arguments, message in (
        (["catch", "--player", "random", "--model", "m"], "Expected either a player or a model. See --player, --model"),
        (["catch", "--model", "tiny"], "train it, as in `openenv train catch`"),
        (["catch", "--model", "./none"], "There is no folder ./none"),
        (["catch", "--model", "me/m", "--base-url", "http://x:1"], "The address of a served model is --llm-endpoint"),
        (["catch", "--player", "random", "--k", "2"], "pass@2 needs 2 samples of each task, and there are 1"),
        (["catch", "--player", "random", "--tasks", "none.jsonl"], "none.jsonl"),
        (["catch", "--player", "random", "--tasks", "0"], "Expected num_tasks to be 1 or more, got 0."),
        (["catch", "--model", "m", "--system-prompt", "Win."], "without a system prompt"),
        (["catch", "--player", "random", "--tasks", "validation"], "lists no tasks"),
    ):
        ended = openenv_here("eval", *arguments)
        is_model = message.startswith(("train it", "There is no folder", "The address of a served"))
        assert ended.returncode == (2 if is_model else 1), arguments
        assert message in ended.stderr


def test_parameters_of_every_reset(openenv_here: Any, tmp_path: Path) -> None:
    command = ("eval", "wordle", "--player", "scripted", "--tasks", "2", "--max-turns", "2", "--output", "e")
    ended = openenv_here(*command, "--reset", "word_length=4", "--json")
    assert [task["task"]["word_length"] for task in json.loads(ended.stdout)["tasks"]] == [4, 4]
    assert json.loads((tmp_path / "e" / "settings.json").read_text())["reset"] == {"word_length": 4}
    assert "were played with reset {'word_length': 4}, not None" in openenv_here(*command).stderr
