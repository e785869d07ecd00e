"""The training examples run, in a small size."""

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
