"""Whole runs, small ones."""

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.servers import RunningServer
from tests.train.chat_models import save_chat_model
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from openenv.core.exceptions import ConfigurationError, ServerCapacityError
from openenv.train import run
from openenv.train.config import TrainConfig
from openenv.train.progress import TrainingProgress
from openenv.train.report import AFTER, BEFORE, RANDOM
from openenv.train.run import TrainResult, resume, train


@pytest.fixture
def settings(stairs_server: RunningServer, tmp_path: Path) -> dict[str, Any]:
    return {
        "environment": stairs_server.url,
        "output_dir": tmp_path,
        "steps": 6,
        "rollouts": 8,
        "group_size": 4,
        "max_turns": 4,
        "eval_episodes": 10,
        "checkpoint_every": 2,
        "fallback": "up",
    }


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


def weights(result: TrainResult) -> dict[str, torch.Tensor]:
    model = AutoModelForCausalLM.from_pretrained(str(result.folder.model))
    return dict(model.named_parameters())


def assert_same_outcome(one: TrainResult, other: TrainResult) -> None:
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(other)[name]), name
    assert one.scores == other.scores
    rows, others = one.folder.read_metrics(), other.folder.read_metrics()
    timeless = [[{**row, "step_time": 0} for row in each] for each in (rows, others)]
    assert timeless[0] == timeless[1]


def test_a_run_leaves_all_of_its_parts(settings: dict[str, Any]) -> None:
    console = quiet()
    result = train(TrainConfig(**settings, name="mine"), console)
    folder = result.folder
    assert sorted(path.name for path in folder.path.iterdir()) == [
        *("checkpoints", "config.yaml", "curve.png", "metrics.jsonl", "model", "report.html", "scores.json")
    ]
    assert folder.load_config() == TrainConfig(**settings, name="mine")
    assert list(result.scores) == [RANDOM, BEFORE, AFTER]
    assert {score.episodes for score in result.scores.values()} == {10}
    assert (result.steps, result.environment) == (6, "127.0.0.1")
    assert AutoTokenizer.from_pretrained(str(folder.model)).tokenize("fall asleep") == ["fall asleep"]
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "step 6/6  reward " in shown
    assert f"{AFTER}   mean reward {result.scores[AFTER].mean_reward:+.3f}" in shown


class Interruption(TrainerCallback):
    """Stops the process, as Ctrl-C does, when a step is done."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("step", [1, 2, 5, 6])
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    whole = train(TrainConfig(**settings, name="whole"), quiet())
    make_trainer = run.make_trainer
    with monkeypatch.context() as patch:
        patch.setattr(run, "make_trainer", lambda *given: make_trainer(*given[:-1], [*given[-1], Interruption(step)]))
        with pytest.raises(KeyboardInterrupt):
            train(TrainConfig(**settings, name="cut"), quiet())
    resumed = resume(settings["output_dir"] / "cut", quiet())
    assert_same_outcome(resumed, whole)
    assert resumed.steps == 6 - 2 * ((step - 1) // 2) if step < 6 else True


def test_a_run_that_was_cut_off_before_its_report_gets_it(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(TrainConfig(**settings, name="whole"), quiet())

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "write_report", fail)
        with pytest.raises(KeyboardInterrupt):
            train(TrainConfig(**settings, name="cut"), quiet())
    resumed = resume(settings["output_dir"] / "cut", quiet())
    assert resumed.steps == 0
    assert_same_outcome(resumed, whole)


def test_a_chat_model_can_be_resumed_too(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = save_chat_model(tmp_path / "model")
    settings |= {
        "model": model,
        "max_action_tokens": 3,
        "steps": 3,
        "micro_batch": 4,
        "learning_rate": 1e-3,
        "threads": 1,
    }
    whole = train(TrainConfig(**settings, name="whole"), quiet())
    make_trainer = run.make_trainer
    with monkeypatch.context() as patch:
        patch.setattr(run, "make_trainer", lambda *given: make_trainer(*given[:-1], [*given[-1], Interruption(3)]))
        with pytest.raises(KeyboardInterrupt):
            train(TrainConfig(**settings, name="cut"), quiet())
    assert_same_outcome(resume(settings["output_dir"] / "cut", quiet()), whole)


def test_a_run_that_has_ended_is_not_resumed(settings: dict[str, Any]) -> None:
    result = train(TrainConfig(**settings), quiet())
    with pytest.raises(ConfigurationError, match=r"has ended; its report is .*report\.html\. Start a new run"):
        resume(result.folder.path)


def test_too_small_a_server_is_told(settings: dict[str, Any]) -> None:
    with pytest.raises(ServerCapacityError, match="24/24 sessions active"):
        train(TrainConfig(**settings | {"rollouts": 32}), quiet())


def test_progress_is_told_by_the_trainer(settings: dict[str, Any]) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=120)
    train(TrainConfig(**settings), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "6/6" in shown
    assert TrainingProgress.__name__ not in shown
