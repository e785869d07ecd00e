"""The training examples run, in a small size, each as a script that was copied out of its folder."""

import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from openenv.train.settings.config import load_config

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    def run(name: str, *options: str) -> None:
        copy = shutil.copy(EXAMPLES / name, tmp_path / "copied.py")
        monkeypatch.setattr(sys, "argv", [name, *options])
        runpy.run_path(str(copy), run_name="__main__")

    return run


@pytest.mark.level("files")
def test_every_example_is_copied_and_run() -> None:
    here = Path(__file__).read_text() + Path(__file__).with_name("test_training_examples.py").read_text()
    for example in EXAMPLES.glob("*.py"):
        assert f'"{example.name}"' in here or f'"{example.stem}"' in here, f"no test runs {example.name}"


def test_one_word(tmp_path: Path) -> None:
    """Its environment pays as it says, and the settings beside it are those of a training of a real model on a CPU."""
    game = runpy.run_path(str(EXAMPLES / "one_word.py"))
    environment = game["OneWordEnvironment"]()
    questions = {environment.reset(seed=seed).text for seed in range(200)}
    assert len(questions) == 29
    assert "What is the capital of Egypt? Answer in one word." in questions
    paid = {"Cairo.": 1.0, "It's Cairo": 0.5, "It is in Cairo, I think": 0.0, "": 0.0, "a": 0.0}
    assert {text: environment.step(game["Answer"](text=text)).reward for text in paid} == paid
    config = load_config(EXAMPLES / "one_word.yaml", environment=str(EXAMPLES / "one_word.py"), output_dir=tmp_path)
    assert (config.model, config.max_turns) == ("smollm2", 1)


def test_name_tools() -> None:
    """Its settings are those of a training of a real model by calls of tools, on tasks other than those it is shown."""
    config = load_config(EXAMPLES / "name_tools.yaml", environment="reasoning_gym")
    assert (config.model, config.form, config.max_turns) == ("smollm2", "tools", 1)
    assert (config.tasks, config.eval_tasks) == ("train", "test")
    assert config.sft is not None
    assert config.lora is not None


def test_train_with_trl(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run("train_with_trl.py", "--steps", "2", "--rollouts", "16")
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"mean reward [+-]\d\.\d{3} in the first step, [+-]\d\.\d{3} in the last", last_line)


def test_ppo_cartpole(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    run("ppo_cartpole.py", "--steps", "10000", "--seed", "2")
    torch.set_num_threads(threads)

    last_line = capsys.readouterr().out.splitlines()[-1]
    returns = re.match(r"mean return ([\d.]+) in the first episodes, ([\d.]+) in the last", last_line)
    assert returns is not None
    first, last = map(float, returns.groups())
    assert first < 40
    assert last > 100


@pytest.mark.parametrize("way", ["environment_factory", "rollout_func"])
def test_wordle(way: str, run: Run, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--words", "6", "--transcripts", "480", "--steps", "3", "--rollouts", "16"]
    metrics = tmp_path / "metrics.json"
    run("wordle.py", "--way", way, *small, "--metrics", str(metrics))

    before, after = re.findall(r"games won [\w ]+: (\d\.\d\d)", capsys.readouterr().out)
    assert float(before) > 0.25, "the warm-up did not teach the model to call the tool"
    assert float(after) > 0.25
    steps = [entry for entry in json.loads(metrics.read_text(encoding="utf-8")) if "reward" in entry]
    assert [entry["step"] for entry in steps] == [1, 2, 3]
    weights = {"correct": 1.0, "greens": 0.2, "yellows": 0.1, "repetition": 0.2}
    for entry in steps:
        streams = {name: entry[f"rewards/{name}/mean"] for name in weights}
        assert entry["reward"] == pytest.approx(sum(weights[name] * streams[name] for name in weights), abs=1e-4)
        assert 0 < streams["greens"] <= 1
        assert 0 < streams["yellows"] <= 1
        assert -1 <= streams["repetition"] <= 0
