"""The examples of training by tool calls run with a tiny model: it calls tools, and the environments reward it."""

import json
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.servers import RunningServer
from transformers import AutoModelForCausalLM, AutoTokenizer

from catch_env.models import CatchAction, CatchObservation
from catch_env.server.catch_environment import CatchEnvironment
from openenv.core.env_server.app import create_app
from openenv.train.quiet import quiet_libraries

EXAMPLES = Path(__file__).parents[2] / "examples"
Metrics = dict[str, float]
Run = Callable[..., list[Metrics]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run an example as a script that was copied out of its folder; return what each of its steps logged."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")

    def run(name: str, *options: str, steps: int = 2) -> list[Metrics]:
        arguments = [name, "--model", "tiny", "--steps", str(steps), "--output", str(tmp_path), *options]
        monkeypatch.setattr(sys, "argv", arguments)
        copy = shutil.copy(EXAMPLES / f"{name}.py", tmp_path / "copied.py")
        with quiet_libraries():
            runpy.run_path(str(copy), run_name="__main__")
        state = json.loads((tmp_path / f"checkpoint-{steps}" / "trainer_state.json").read_text(encoding="utf-8"))
        return [entry for entry in state["log_history"] if "reward" in entry]

    return run


def assert_played(logged: list[Metrics], calls: float) -> None:
    """Assert that tools were called and that rewards came of it."""
    assert all(entry["tools/call_frequency"] >= calls for entry in logged), "few tool calls"
    assert all(entry["tools/failure_frequency"] == 0 for entry in logged), "TRL could not do a call"
    assert any(entry["reward"] or entry["reward_std"] for entry in logged), "all rewards are 0"


def test_catch(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logged = run("catch")

    assert_played(logged, calls=5)
    first, last = (entry["reward"] for entry in logged)
    assert -1 <= min(first, last) <= max(first, last) <= 1
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line == f"mean reward {first:+.3f} in the first step, {last:+.3f} in the last"
    assert AutoModelForCausalLM.from_pretrained(tmp_path).num_parameters() < 100_000
    assert AutoTokenizer.from_pretrained(tmp_path).response_template is not None


def test_catch_on_a_server_that_runs_and_with_adapters(run: Run, tmp_path: Path) -> None:
    app = create_app(CatchEnvironment, CatchAction, CatchObservation, max_concurrent_envs=16)
    with RunningServer(app) as server:
        logged = run("catch", "--url", server.url, "--lora", steps=1)
        server.wait_for_sessions(0)

    assert_played(logged, calls=5)
    assert (tmp_path / "adapter_model.safetensors").exists()


@pytest.mark.parametrize(
    ("example", "calls"),
    [
        ("echo", 0.5),
        ("blackjack", 0.5),
        ("game_2048", 2.0),
        pytest.param("code_feedback", 0.5, marks=pytest.mark.needs("sandbox")),
    ],
)
def test_an_example(run: Run, example: str, calls: float) -> None:
    assert_played(run(example), calls)


def test_sudoku(run: Run) -> None:
    logged = run("sudoku")

    assert_played(logged, calls=0.5)
    assert all(0 <= entry["rewards/progress/mean"] <= 1 for entry in logged)
    assert all(0 <= entry["rewards/allowed_moves/mean"] <= 1 for entry in logged)


@pytest.mark.needs("browser")
def test_a_browser(run: Run) -> None:
    logged = run("browsergym_llm", steps=1)

    assert_played(logged, calls=0.5)
    assert -0.4 <= logged[0]["rewards/economy/mean"] <= 0


def test_several_environments(run: Run) -> None:
    logged = run("several_environments")

    assert_played(logged, calls=2)
    for entry in logged:
        assert 0 <= entry["rewards/wordle_reward/mean"] <= 1
        assert -1 <= entry["rewards/catch_reward/mean"] <= 1
        assert 0 < entry["episode/wordle/length"] <= 6
        assert 0 < entry["episode/catch/length"] <= 9
