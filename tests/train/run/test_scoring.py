"""Scores before and in a training: when they are, what is kept, and that nothing else changes by them."""

import signal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.support.servers import RunningServer
from transformers import AutoModelForCausalLM, TrainerCallback

from openenv.core.exceptions import EnvironmentFailedError
from openenv.records.scores import AFTER, BEFORE, RANDOM, sampled
from openenv.train.agents.policy import make_policies
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.evaluation.scores import score
from openenv.train.run import scoring
from openenv.train.run.environments import OpenRun, open_run
from openenv.train.run.interruption import TrainingInterruptedError
from openenv.train.run.scoring import score_before
from openenv.train.run.training import TrainResult, resume, train
from openenv.train.settings.config import TrainConfig
from openenv.train.settings.play_settings import PlaySettings

REWARD = "evaluation/reward"


def shown(run: OpenRun) -> str:
    assert isinstance(run.console.file, StringIO)
    return run.console.file.getvalue()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_of_the_folder_are_shown_and_not_played_again(
    stairs_server: RunningServer, tmp_path: Path, temperature: float
) -> None:
    config = TrainConfig(
        environment=stairs_server.url,
        eval_episodes=3,
        eval_temperature=temperature,
        max_turns=3,
        steps=1,
        rollouts=4,
        group_size=4,
        output_dir=tmp_path,
        traces=False,
    )
    folder = config.make_folder("stairs")
    with open_run(config, folder, Console(file=StringIO(), width=100)) as run:
        policies = make_policies(config, run.sessions)
        score_before(run, policies)
    scores = folder.read_scores()
    assert list(scores) == [RANDOM, BEFORE, *([sampled(BEFORE)] if temperature else [])]
    first = shown(run)
    assert len(first.splitlines()) == len(scores)
    score_before(run, policies)  # the sessions are closed, so an episode would fail
    assert shown(run) == first * 2
    assert folder.read_scores() == scores


def quiet() -> Console:
    return Console(file=StringIO(), width=200)


def written(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def settings(stairs_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {
        "environment": stairs_server.url,
        "output_dir": tmp_path_factory.mktemp("runs"),
        "steps": 7,
        "rollouts": 8,
        "group_size": 4,
        "max_turns": 4,
        "eval_episodes": 6,
        "eval_every": 2,
        "checkpoint_every": 3,
        "fallback": "up",
    }


@pytest.fixture(scope="module")
def evaluated(settings: dict[str, Any]) -> tuple[TrainResult, str]:
    console = quiet()
    prices = settings["output_dir"] / "prices.yaml"
    prices.write_text("models: {tiny: {input: 1, output: 2}}\n")
    return train(TrainConfig(**settings, name="evaluated", prices=prices), console), written(console)


def figures(result: TrainResult) -> dict[int, float]:
    return {row["step"]: row[REWARD] for row in result.folder.read_metrics() if REWARD in row}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(AutoModelForCausalLM.from_pretrained(str(folder)).named_parameters())


def assert_same_weights(one: Path, other: Path) -> None:
    others = weights(other)
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, others[name]), name


def test_it_is_every_some_steps_and_the_best_model_is_kept(evaluated: tuple[TrainResult, str]) -> None:
    result, shown = evaluated
    rewards = figures(result)
    assert list(rewards) == [2, 4, 6]
    best = min(step for step, reward in rewards.items() if reward == max(rewards.values()))
    assert result.folder.best_model() == result.folder.best / f"checkpoint-{best}"
    assert [folder.name for folder in result.folder.best.iterdir()] == [f"checkpoint-{best}"]
    assert f"step 2, greedy  mean reward {rewards[2]:+.3f}, the best so far\n" in shown
    assert all(f"step {step}, greedy  mean reward {reward:+.3f}" in shown for step, reward in rewards.items())
    seconds = {row["step"]: row.get("time/evaluation", 0.0) for row in result.folder.read_metrics()}
    assert {step for step, each in seconds.items() if each > 0} == {2, 4, 6}


def test_its_price_is_that_of_the_model_and_apart(settings: dict[str, Any], evaluated: tuple[TrainResult, str]) -> None:
    folder = evaluated[0].folder
    rows = [row for row in folder.read_metrics() if REWARD in row]
    scores = folder.read_scores()
    of_steps = [
        {name: row[f"evaluation/{name}"] for name in row if f"evaluation/{name}" in row and name.startswith("cost/")}
        for row in rows
    ]
    assert len(of_steps) == 3
    for costs in [*of_steps, scores[BEFORE].costs, scores[AFTER].costs]:
        assert costs["cost/episodes"] == settings["eval_episodes"]
        tokens = costs["cost/input_tokens"] + 2 * costs["cost/output_tokens"]
        assert costs["cost/price_usd"] == pytest.approx(tokens / 1e6)
        assert tokens > 0
    # Without a model there are no tokens, and no price that is 0.
    assert not {"cost/input_tokens", "cost/price_usd"} & scores[RANDOM].costs.keys()


def test_the_figure_is_that_of_an_evaluation_of_the_kept_model(
    settings: dict[str, Any], evaluated: tuple[TrainResult, str], tmp_path: Path
) -> None:
    result, _ = evaluated
    best = result.folder.best_model()
    assert best is not None
    played = PlaySettings(environment=settings["environment"], model=str(best), form="text", temperature=0.0)
    evaluation = evaluate(played, tmp_path / "e", console=quiet())
    step = int(best.name.removeprefix("checkpoint-"))
    assert evaluation.mean_reward.value == pytest.approx(figures(result)[step])
    assert evaluation.episodes == settings["eval_episodes"]


def test_what_is_learned_is_the_same_without(settings: dict[str, Any], evaluated: tuple[TrainResult, str]) -> None:
    plain = train(TrainConfig(**{**settings, "eval_every": None}, name="plain"), quiet())
    assert_same_weights(plain.folder.model, evaluated[0].folder.model)
    assert plain.folder.best_model() is None
    assert figures(plain) == {}


class Stop(TrainerCallback):
    def __init__(self, step: int) -> None:
        self._step = step

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            signal.raise_signal(signal.SIGINT)


def test_an_interrupted_run_has_the_same_figures_and_the_same_best(
    settings: dict[str, Any], evaluated: tuple[TrainResult, str]
) -> None:
    with pytest.raises(TrainingInterruptedError):
        train(TrainConfig(**settings, name="cut"), quiet(), [Stop(5)])
    folder = settings["output_dir"] / "cut"
    # A kill after an evaluation that the last checkpoint does not know.
    for later in (folder / "checkpoints").glob("checkpoint-[4-9]"):
        (later / "trainer_state.json").unlink()
    result = resume(folder, quiet())
    assert figures(result) == figures(evaluated[0])
    best, other = result.folder.best_model(), evaluated[0].folder.best_model()
    assert best is not None
    assert other is not None
    assert best.name == other.name
    assert_same_weights(best, other)


def test_an_evaluation_that_fails_is_no_figure_and_not_the_runs_end(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[None] = []
    before = 3  # a random player, and the model greedy and sampled

    def failing(*arguments: Any, **others: Any) -> Any:
        calls.append(None)
        if len(calls) == before + 2:
            raise EnvironmentFailedError("The server is gone.")
        return score(*arguments, **others)

    monkeypatch.setattr(scoring, "score", failing)
    console = quiet()
    result = train(TrainConfig(**settings, name="failing"), console)
    assert list(figures(result)) == [2, 6]
    assert "the evaluation at step 4 failed, so it has no figure: The server is gone." in written(console)


def test_additions_are_evaluated_and_kept(settings: dict[str, Any], tmp_path: Path) -> None:
    result = train(TrainConfig(**{**settings, "steps": 4}, lora={"rank": 2}, name="additions"), quiet())
    best = result.folder.best_model()
    assert best is not None
    assert (best / "adapter_model.safetensors").is_file()
    played = PlaySettings(environment=settings["environment"], model=str(best), form="text", temperature=0.0)
    evaluation = evaluate(played, tmp_path / "e", console=quiet())
    assert evaluation.mean_reward.value == pytest.approx(figures(result)[2])
