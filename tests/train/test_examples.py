"""The training examples run, in a small size."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_train_with_trl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["train_with_trl.py", "--steps", "2", "--rollouts", "16"])
    runpy.run_path(str(EXAMPLES / "train_with_trl.py"), run_name="__main__")
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"mean reward [+-]\d\.\d{3} in the first step, [+-]\d\.\d{3} in the last", last_line)


def test_ppo_cartpole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["ppo_cartpole.py", "--steps", "10000", "--seed", "2"])
    runpy.run_path(str(EXAMPLES / "ppo_cartpole.py"), run_name="__main__")
    torch.set_num_threads(threads)

    last_line = capsys.readouterr().out.splitlines()[-1]
    returns = re.match(r"mean return ([\d.]+) in the first episodes, ([\d.]+) in the last", last_line)
    assert returns is not None
    first, last = map(float, returns.groups())
    assert first < 40
    assert last > 100


@pytest.mark.parametrize("way", ["environment_factory", "rollout_func"])
def test_wordle(way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--words", "6", "--transcripts", "480", "--steps", "3", "--rollouts", "16"]
    metrics = tmp_path / "metrics.json"
    monkeypatch.setattr(sys, "argv", ["wordle.py", "--way", way, *small, "--metrics", str(metrics)])
    runpy.run_path(str(EXAMPLES / "wordle.py"), run_name="__main__")

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
