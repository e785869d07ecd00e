"""The example of a game by two models, against a real server of TextArena and two of models."""

import runpy
import sys
from pathlib import Path

import pytest
from tests.support.models.judge_server import JudgeServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "users" / "two_models.py"


@pytest.mark.level("process")
def test_the_first_model_wins(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = JudgeServer(["[0]", "[1]", "[2]"]), JudgeServer(["[3]", "[4]"])
    names = [f"one@{first.server.url}", f"two@{second.server.url}"]
    monkeypatch.setattr(sys, "argv", ["two_models.py", *names])
    with first.server, second.server:
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "game 0: Player 0 has won!",
        f"  {names[0]}: 3 replies of one, 30 tokens read, 15 written, price not known",
        f"  {names[1]}: 2 replies of two, 20 tokens read, 10 written, price not known",
    ]
    assert "Tic Tac Toe" in first.requests[0]["messages"][1]["content"]
