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
from openenv.train.config import TrainConfig
from openenv.train.progress import TrainingProgress
from openenv.train.report import AFTER, BEFORE, RANDOM
from openenv.train.run import TrainResult, resume, train


@pytest.fixture(scope="module")
def settings(stairs_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small run's; each test gives it another name."""
    return {
        "environment": stairs_server.url,
        "output_dir": tmp_path_factory.mktemp("runs"),
        "steps": 6,
        "rollouts": 8,
        "group_size": 4,
        "max_turns": 4,
        "eval_episodes": 10,
        "checkpoint_every": 2,
        "fallback": "up",
    }


@pytest.fixture(scope="module")
def whole(settings: dict[str, Any]) -> TrainResult:
    """A run that nothing disturbed."""
    return train(TrainConfig(**settings, name="whole"), quiet())


def quiet() -> Console:
    return Console(file=StringIO(), width=100)


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


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
    shown = written(console)
    assert "step 6/6  reward " in shown
    assert f"{AFTER}   mean reward {result.scores[AFTER].mean_reward:+.3f}" in shown


class Interruption(TrainerCallback):
    """Stops the process, as Ctrl-C does, when a step is done."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("step", "left"), [(1, 6), (2, 6), (5, 2), (6, 2)])
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    settings: dict[str, Any], whole: TrainResult, step: int, left: int
) -> None:
    config = TrainConfig(**settings, name=f"cut after step {step}")
    console = quiet()
    with pytest.raises(KeyboardInterrupt):
        train(config, console, [Interruption(step)])
    assert f"openenv train --resume {config.output_dir}/cut-after-step-{step}" in written(console)
    resumed = resume(config.output_dir / f"cut-after-step-{step}", quiet())
    assert resumed.steps == left, "it goes on from the last checkpoint"
    assert_same_outcome(resumed, whole)


class InterruptedAfterTraining(Console):
    """Stops the process between the last score and the report."""

    def print(self, *objects: Any, **settings: Any) -> None:
        if AFTER in str(objects[0]):
            raise KeyboardInterrupt


def test_a_run_that_was_cut_off_before_its_report_gets_it(settings: dict[str, Any], whole: TrainResult) -> None:
    config = TrainConfig(**settings, name="unreported")
    with pytest.raises(KeyboardInterrupt):
        train(config, InterruptedAfterTraining())
    resumed = resume(config.output_dir / "unreported", quiet())
    assert resumed.steps == 0
    assert_same_outcome(resumed, whole)


def test_a_chat_model_can_be_resumed_too(settings: dict[str, Any], tmp_path: Path) -> None:
    model = save_chat_model(tmp_path / "model")
    chat = {"model": model, "max_action_tokens": 3, "steps": 3, "micro_batch": 4, "learning_rate": 1e-3, "threads": 1}
    whole = train(TrainConfig(**settings | chat, name="whole chat"), quiet())
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**settings | chat, name="cut chat"), quiet(), [Interruption(3)])
    assert_same_outcome(resume(settings["output_dir"] / "cut-chat", quiet()), whole)


def test_a_run_that_has_ended_is_not_resumed(whole: TrainResult) -> None:
    with pytest.raises(ConfigurationError, match=r"has ended; its report is .*report\.html\. Start a new run"):
        resume(whole.folder.path)


def test_too_small_a_server_is_told(settings: dict[str, Any]) -> None:
    with pytest.raises(ServerCapacityError, match="24/24 sessions active"):
        train(TrainConfig(**settings | {"rollouts": 32}), quiet())


def test_progress_is_told_by_the_trainer(settings: dict[str, Any]) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=120)
    train(TrainConfig(**settings), console)
    shown = written(console)
    assert "6/6" in shown
    assert TrainingProgress.__name__ not in shown
