"""Whole runs, small ones."""

import re
import shutil
import signal
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread, current_thread, main_thread
from typing import Any

import pytest
import torch
from rich.console import Console
from tests.goldens.golden import normalised
from tests.support.models.chat_models import save_chat_model
from tests.support.servers import RunningServer
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

from openenv.core.documents import is_draft
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, ServerCapacityError
from openenv.records.run_folder import RunFolder
from openenv.records.scores import AFTER, BEFORE, RANDOM, WARMED_UP, Score, sampled
from openenv.train.dataset.collecting import collect
from openenv.train.evaluation.evaluating import Evaluation, evaluate
from openenv.train.run.callbacks import TrainingProgress
from openenv.train.run.interruption import TrainingInterruptedError
from openenv.train.run.training import TrainResult, resume, train
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.play_settings import PlaySettings
from openenv.train.tasks.seeds import evaluation_seeds


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
    assert normalised(one.folder.read_metrics()) == normalised(other.folder.read_metrics())


def test_a_run_leaves_all_of_its_parts(settings: dict[str, Any]) -> None:
    console = quiet()
    result = train(TrainConfig(**settings, name="mine"), console)
    folder = result.folder
    assert sorted(path.name for path in folder.path.iterdir()) == [
        *(
            "checkpoints",
            "config.yaml",
            "curve.png",
            "metrics.jsonl",
            "model",
            "report.html",
            "rollouts.jsonl",
            "scores.json",
            "starts.jsonl",
            "times.json",
            "traces.db",
            "warnings.json",
        )
    ]
    assert load_config(folder.config) == TrainConfig(**settings, name="mine")
    assert list(result.scores) == [RANDOM, BEFORE, sampled(BEFORE), AFTER, sampled(AFTER)]
    assert {score.episodes for score in result.scores.values()} == {10}
    assert (result.steps, result.environment) == (6, "127.0.0.1")
    assert AutoTokenizer.from_pretrained(str(folder.model)).tokenize("fall asleep") == ["fall asleep"]
    (start,) = folder.read_starts()
    assert start.versions["torch"] == version("torch")
    shown = written(console)
    assert "6/6 steps  reward " in shown
    assert "mean of 6 steps" in shown
    assert f"{AFTER}, greedy    mean reward {result.scores[AFTER].mean_reward:+.3f}" in shown
    assert f"{AFTER}, sampled   mean reward {result.scores[sampled(AFTER)].mean_reward:+.3f}" in shown


def test_the_time_of_a_run_is_split_in_its_steps_and_in_all(settings: dict[str, Any], whole: TrainResult) -> None:
    rows = whole.folder.read_metrics()
    for row in rows:
        parts = {name: row[f"time/{name}"] for name in ("generation", "environment", "training", "waiting")}
        assert all(seconds > 0 for seconds in parts.values()), row["step"]
        assert parts["generation"] + parts["environment"] < row["step_time"]
        written = row["episode/length"] * settings["rollouts"]  # an action is one token here
        assert row["speed/tokens_per_second"] * parts["generation"] == pytest.approx(written)
        assert row["speed/actions_per_second"] * parts["environment"] == pytest.approx(written)
    times = whole.folder.run_times()
    assert list(times.seconds) == ["generation", "environment", "training", "evaluation", "waiting"]
    assert times.seconds["evaluation"] > 0, "the players' and the model's, before and after"
    assert times.total >= whole.seconds
    assert f"{times.seconds['evaluation']:,.1f} s" in whole.folder.report.read_text()


class Interruption(TrainerCallback):
    """Stops the process, as Ctrl-C does, when a step is done."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("step", "left"), [(2, 6), (5, 2), (6, 2)])
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


class SignalAfter(TrainerCallback):
    """Sends the process a signal within a step."""

    def __init__(self, number: signal.Signals, step: int) -> None:
        self._number = number
        self._step = step

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            signal.raise_signal(self._number)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_lets_the_step_end_and_keeps_it(
    settings: dict[str, Any], whole: TrainResult, number: signal.Signals, status: int
) -> None:
    before = signal.getsignal(number)
    console = quiet()
    config = TrainConfig(**settings, name=f"ended by {number.name}")
    with pytest.raises(TrainingInterruptedError) as error:
        train(config, console, [SignalAfter(number, step=2)])
    assert error.value.exit_status == status
    assert signal.getsignal(number) is before
    folder = RunFolder(config.output_dir / f"ended-by-{number.name}")
    assert folder.last_checkpoint() == folder.checkpoints / "checkpoint-3", "not a step that others are kept at"
    assert "Interrupted after 3 of 6 optimiser steps" in folder.report.read_text()
    shown = written(console)
    assert f"The last checkpoint is {folder.checkpoints / 'checkpoint-3'}, and the report up to here is" in shown
    assert f"To go on: openenv train --resume {folder.path}" in shown
    assert not folder.has_ended
    resumed = resume(folder.path, quiet())
    assert resumed.steps == 3
    assert_same_outcome(resumed, whole)
    assert "Interrupted" not in folder.report.read_text()


class SignalAtFirstScore(Console):
    """Sends the process a signal while players are compared."""

    def print(self, *objects: Any, **others: Any) -> None:
        super().print(*objects, **others)
        if RANDOM in str(objects[0]):
            signal.raise_signal(signal.SIGTERM)


def test_a_signal_before_the_first_step_leaves_nothing_and_says_so(settings: dict[str, Any]) -> None:
    console = SignalAtFirstScore(file=StringIO(), width=100)
    with pytest.raises(TrainingInterruptedError):
        train(TrainConfig(**settings, name="hardly begun"), console)
    shown = written(console)
    assert "There is no checkpoint yet, and no report, since no step was done." in shown
    assert "To begin again: openenv train --resume " in shown


def test_a_run_that_has_ended_can_be_made_longer(settings: dict[str, Any], whole: TrainResult, tmp_path: Path) -> None:
    path = tmp_path / "longer"
    shutil.copytree(whole.folder.path, path)
    with pytest.raises(ConfigurationError, match="has done 6 steps; --steps counts these too, and must be more; got 6"):
        resume(path, quiet(), steps=6)
    result = resume(path, quiet(), steps=9)
    assert (result.steps, load_config(result.folder.config).steps) == (3, 9)
    rows = result.folder.read_metrics()
    assert [row["step"] for row in rows] == list(range(1, 10))
    assert [row["episode/reward"] for row in rows[:6]] == [row["episode/reward"] for row in whole.folder.read_metrics()]
    assert rows[5]["learning_rate"] < rows[6]["learning_rate"] == pytest.approx(whole_rate(whole) * (1 - 6 / 9))
    assert result.scores[AFTER] != whole.scores[AFTER]
    assert result.scores[BEFORE] == whole.scores[BEFORE]
    assert "9 optimiser steps" in result.folder.report.read_text()


def whole_rate(result: TrainResult) -> float:
    return load_config(result.folder.config).learning_rate


def test_what_is_trained_on_can_be_named(settings: dict[str, Any], tmp_path: Path) -> None:
    """Tasks of a file, over and over; the same ones are compared on, and by an evaluation of the model."""
    file = tmp_path / "stairs.jsonl"
    file.write_text("".join(f'{{"height": {height}}}\n' for height in (1, 2, 3)))
    heights = Heights()
    named = {**settings, "tasks": str(file), "max_turns": 9, "fallback": "up", "output_dir": tmp_path}
    result = train(TrainConfig(**named, name="named"), quiet(), [heights])
    assert {score.episodes for score in result.scores.values()} == {3}
    assert all(1 <= length < 9 for length in heights.lengths)
    played = PlaySettings(environment=settings["environment"], model=str(result.folder.path), form="text")
    evaluation = evaluate(played, tmp_path / "evaluation", sessions=2, console=quiet())
    assert [task.task for task in evaluation.tasks] == [{"height": 1}, {"height": 2}, {"height": 3}]
    assert evaluation.greedy is not None
    for figure, name in ((evaluation, sampled(AFTER)), (evaluation.greedy, AFTER)):
        assert_same_figures(figure, result.scores[name])
    assert_same_outcome(train(TrainConfig(**named), quiet()), result)


def assert_same_figures(evaluation: Evaluation, score: Score) -> None:
    """Check that ``openenv eval`` and a run say the same of a model, to the last bit."""
    mean = evaluation.mean_reward
    assert (mean.value, mean.low, mean.high) == (score.mean_reward, score.low, score.high)
    assert [reward for task in evaluation.tasks for reward in task.rewards] == score.rewards
    assert evaluation.episodes == score.episodes
    assert (evaluation.mean_length, evaluation.illegal_actions) == (score.mean_length, score.illegal_actions)
    assert {name: each.value for name, each in evaluation.reward_components.items()} == score.reward_components


def test_an_evaluation_of_a_run_gives_the_runs_own_figures(
    settings: dict[str, Any], whole: TrainResult, tmp_path: Path
) -> None:
    """However many episodes are played at once."""
    played = PlaySettings(environment=settings["environment"], model=str(whole.folder.path), form="text")
    evaluation = evaluate(played, tmp_path / "e", sessions=3, console=quiet())
    assert evaluation.episodes == settings["eval_episodes"]
    assert evaluation.temperature == 1.0
    assert evaluation.greedy is not None
    assert evaluation.greedy.temperature == 0.0
    for figure, name in ((evaluation, sampled(AFTER)), (evaluation.greedy, AFTER)):
        assert_same_figures(figure, whole.scores[name])
    assert whole.scores[sampled(AFTER)] != whole.scores[AFTER]
    hot = evaluate(played.model_copy(update={"temperature": 0.5}), tmp_path / "hot", sessions=3, console=quiet())
    assert (hot.temperature, hot.greedy) == (0.5, None)
    last = played.model_copy(update={"model": str(whole.folder.checkpoints / "checkpoint-6")})
    of_checkpoint = evaluate(last, tmp_path / "last", sessions=3, console=quiet())
    assert_same_figures(of_checkpoint, whole.scores[sampled(AFTER)])


def test_episodes_of_a_run_are_collected_to_learn_from(
    settings: dict[str, Any], whole: TrainResult, tmp_path: Path
) -> None:
    played = PlaySettings(environment=settings["environment"], model=str(whole.folder.path), form="text")
    result = collect(played, 6, tmp_path / "data", console=quiet())
    lines = result.collection.read()
    assert (result.kept, [line["index"] for line in lines]) == (6, list(range(6)))
    assert not {line["task"]["seed"] for line in lines} & set(evaluation_seeds(1, 10))


class InterruptedAfterTraining(Console):
    """Stops the process between the last score and the report."""

    def print(self, *objects: Any, **settings: Any) -> None:
        if AFTER in str(objects[0]) and current_thread() is main_thread():
            raise KeyboardInterrupt


def test_a_run_that_was_cut_off_before_its_report_gets_it(settings: dict[str, Any], whole: TrainResult) -> None:
    config = TrainConfig(**settings, name="unreported")
    with pytest.raises(KeyboardInterrupt):
        train(config, InterruptedAfterTraining())
    resumed = resume(config.output_dir / "unreported", quiet())
    assert resumed.steps == 0
    assert_same_outcome(resumed, whole)


def test_a_chat_model_can_be_resumed_too_with_the_sizes_that_were_chosen(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = save_chat_model(tmp_path / "model")
    chat = {"model": model, "max_action_tokens": 3, "steps": 3, "learning_rate": 1e-3, "threads": 1}
    console = quiet()
    whole = train(TrainConfig(**settings | chat, name="whole chat"), console)
    sized = load_config(whole.folder.config)
    assert (sized.micro_batch, sized.gradient_checkpointing, sized.threads) == (4, False, 1)
    assert "sizes     micro_batch 4, gradient_checkpointing off: at most " in written(console)
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**settings | chat, name="cut chat"), quiet(), [Interruption(3)])
    # It goes on with the sizes that it began with, whatever is free by now.
    monkeypatch.setattr("openenv.train.run.training.free_memory", lambda: 0)
    resumed = resume(settings["output_dir"] / "cut-chat", quiet())
    assert_same_outcome(resumed, whole)
    assert load_config(resumed.folder.config).micro_batch == 4


@pytest.fixture(scope="module")
def examples(settings: dict[str, Any]) -> str:
    """Collected episodes to begin with."""
    folder: Path = settings["output_dir"] / "examples"
    play = PlaySettings(environment=settings["environment"], player="random", form="text", max_turns=4)
    return str(collect(play, 60, folder, min_reward=0.25, console=quiet()).collection.path)


@pytest.fixture(scope="module")
def taught(settings: dict[str, Any], examples: str) -> tuple[TrainResult, str]:
    """A run that began with them and that nothing disturbed, and what it has shown."""
    console = quiet()
    return train(TrainConfig(**settings, name="taught", sft=examples), console), written(console)


@pytest.fixture(scope="module")
def only_taught(settings: dict[str, Any], examples: str) -> TrainResult:
    """A run of examples only."""
    return train(TrainConfig(**settings, name="only taught", sft=examples, grpo=False), quiet())


def test_a_run_may_begin_with_examples(taught: tuple[TrainResult, str], examples: str) -> None:
    result, shown = taught
    assert list(result.scores) == [
        RANDOM,
        *(name for player in (BEFORE, WARMED_UP, AFTER) for name in (player, sampled(player))),
    ]
    assert result.scores[WARMED_UP].illegal_actions < result.scores[BEFORE].illegal_actions
    assert (result.folder.warm_up / "model.safetensors").is_file()
    assert load_config(result.folder.config).sft == examples
    assert len(result.folder.read_metrics()) == result.steps == 6
    assert len(re.findall(rf"{RANDOM} +mean reward", shown)) == 1
    assert "warm-up on " in shown
    assert "a warm-up on examples and 6 optimiser steps" in result.folder.report.read_text()


@pytest.mark.parametrize("step", [1, 5])
def test_an_interrupted_run_with_examples_ends_as_if_it_had_not_been(
    settings: dict[str, Any], examples: str, taught: tuple[TrainResult, str], step: int
) -> None:
    name = f"taught, cut after {step}"
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**settings, sft=examples, name=name), quiet(), [Interruption(step)])
    folder = settings["output_dir"] / f"taught-cut-after-{step}"
    learned = (folder / "warm_up" / "metrics.jsonl").read_text()
    assert_same_outcome(resume(folder, quiet()), taught[0])
    assert (folder / "warm_up" / "metrics.jsonl").read_text() == learned, "the examples are not learned again"


class InterruptedWarmUp(Console):
    """Stops the process while it learns from examples."""

    def print(self, *objects: Any, **settings: Any) -> None:
        if re.match("warm-up .* loss ", str(objects[0])) and current_thread() is main_thread():
            raise KeyboardInterrupt


def test_a_run_that_was_cut_off_in_its_warm_up_warms_up_again(
    settings: dict[str, Any], examples: str, only_taught: TrainResult
) -> None:
    only = {**settings, "sft": examples, "grpo": False}
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**only, name="barely taught"), InterruptedWarmUp())
    folder = settings["output_dir"] / "barely-taught"
    (folder / ".warm_up-killed_1" / "warm_up").mkdir(parents=True)
    resumed = resume(folder, quiet())
    assert_same_outcome(resumed, only_taught)
    assert not [path for path in resumed.folder.path.iterdir() if is_draft(path, resumed.folder.warm_up)]


def test_examples_that_cannot_be_learned_from_leave_no_folder(settings: dict[str, Any], tmp_path: Path) -> None:
    play = PlaySettings(environment=settings["environment"], player="random", max_turns=4)
    collect(play, 2, tmp_path / "tools", console=quiet())
    console = quiet()
    for sft, message in (
        (str(tmp_path / "none"), "Expected a folder that openenv collect has made"),
        (str(tmp_path / "tools"), "and has calls of tools"),
        (3, "has no scripted player to learn from"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            train(TrainConfig(**settings | {"output_dir": tmp_path / "runs"}, sft=sft), console)
    assert not (tmp_path / "runs").exists()
    assert written(console) == "", "nothing was played before"


class OtherRun(BaseRequestHandler):
    """A server that refuses each connection, and begins a run beside the one that connects."""

    folder: Path

    def handle(self) -> None:
        self.folder.mkdir(exist_ok=True)


def test_a_refusal_is_shown_though_another_run_has_begun_beside_it(settings: dict[str, Any], tmp_path: Path) -> None:
    OtherRun.folder = tmp_path / "runs" / "other"
    with ThreadingTCPServer(("127.0.0.1", 0), OtherRun) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with pytest.raises(ConnectionFailedError):
            train(TrainConfig(**settings | {"environment": address, "output_dir": tmp_path / "runs"}), quiet())
        server.shutdown()
    assert list((tmp_path / "runs").iterdir()) == [OtherRun.folder]


def test_a_run_may_be_examples_only(only_taught: TrainResult) -> None:
    result = only_taught
    assert list(result.scores) == [RANDOM, BEFORE, sampled(BEFORE), AFTER, sampled(AFTER)]
    assert (result.steps, result.folder.read_metrics()) == (0, [])
    assert result.folder.curve.stat().st_size > 10_000
    assert "after a warm-up on examples. Means of 10 episodes of one seed, 1," in result.folder.report.read_text()


@pytest.mark.parametrize("sft", [False, True])
def test_additions_are_learned_and_become_part_of_the_model(
    settings: dict[str, Any], examples: str, sft: bool, tmp_path: Path
) -> None:
    """Another run's weights, and those of an interrupted run, which goes on from a checkpoint with additions only."""
    learned = {**settings, "lora": {"rank": 4}, "sft": examples if sft else None, "learning_rate": 1e-2}
    whole = train(TrainConfig(**learned), quiet())
    assert not any("lora" in name for name in weights(whole))
    name = f"added {sft}"
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**learned, name=name), quiet(), [Interruption(5)])
    folder = settings["output_dir"] / name.replace(" ", "-")
    (checkpoint,) = [path for path in (folder / "checkpoints").iterdir() if path.name == "checkpoint-4"]
    assert (checkpoint / "adapter_model.safetensors").is_file()
    assert_same_outcome(resume(folder, quiet()), whole)
    (last,) = [path for path in whole.folder.checkpoints.iterdir() if path.name == "checkpoint-6"]
    played = PlaySettings(environment=settings["environment"], model=str(last), form="text")
    evaluation = evaluate(played, tmp_path / "last", sessions=3, console=quiet())
    assert_same_figures(evaluation, whole.scores[sampled(AFTER)])


def test_only_additions_are_learned(settings: dict[str, Any]) -> None:
    """At a rate of almost nothing the additions are nothing, and what the run leaves is what it began with."""
    still = {**settings, "steps": 1, "learning_rate": 1e-12}
    added = train(TrainConfig(**still, lora={"rank": 4, "target_modules": ["q_proj"]}), quiet())
    plain = train(TrainConfig(**still), quiet())
    for name, tensor in weights(plain).items():
        assert torch.allclose(tensor, weights(added)[name], atol=1e-6), name
    moved = train(
        TrainConfig(**still | {"learning_rate": 0.1}, lora={"rank": 4, "target_modules": ["q_proj"]}), quiet()
    )
    changed = {name for name, tensor in weights(plain).items() if not torch.allclose(tensor, weights(moved)[name])}
    assert changed == {"model.layers.0.self_attn.q_proj.weight"}


class Heights(TrainerCallback):
    """Remembers how long the episodes of each step were."""

    def __init__(self) -> None:
        self.lengths: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "episode/length" in logs:
            self.lengths.append(logs["episode/length"])


CURRICULUM = {"reset": {"height": 3}, "curriculum": [{"steps": 2, "reset": {"height": 1}}], "max_turns": 9}


def test_easier_stages_come_first(settings: dict[str, Any]) -> None:
    """Most words of a new model are illegal and count as a step up: episodes are about as long as the stairs."""
    heights = Heights()
    staged = settings | CURRICULUM
    staged["curriculum"] = [*staged["curriculum"], {"steps": 1, "reset": {"height": 9}}]
    result = train(TrainConfig(**staged, name="staged"), quiet(), [heights])
    assert max(heights.lengths[:2]) < 3
    assert heights.lengths[2] == 9
    assert all(3 <= length < 9 for length in heights.lengths[3:])
    assert {score.sample[0]["observation"] for score in result.scores.values()} == {"step of 3"}
    assert AutoTokenizer.from_pretrained(str(result.folder.model)).tokenize("9 3 1") == ["9", "3", "1"]


def test_an_interrupted_curriculum_ends_as_if_it_had_not_been(settings: dict[str, Any]) -> None:
    staged = settings | CURRICULUM
    whole = train(TrainConfig(**staged), quiet())
    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(**staged, name="cut stages"), quiet(), [Interruption(3)])
    assert_same_outcome(resume(settings["output_dir"] / "cut-stages", quiet()), whole)


def test_a_run_that_has_ended_is_not_resumed(whole: TrainResult) -> None:
    with pytest.raises(ConfigurationError, match=r"has ended; its report is .*report\.html\. Start a new run"):
        resume(whole.folder.path)


def test_too_small_a_server_is_told(settings: dict[str, Any]) -> None:
    with pytest.raises(ServerCapacityError, match="24/24 sessions active"):
        train(TrainConfig(**settings | {"rollouts": 32}), quiet())


def test_progress_is_told_by_the_trainer(settings: dict[str, Any]) -> None:
    console = Console(file=StringIO(), force_terminal=True, width=120)
    train(TrainConfig(**settings | {"steps": 1}), console)
    shown = written(console)
    assert "1/1" in shown
    assert TrainingProgress.__name__ not in shown
