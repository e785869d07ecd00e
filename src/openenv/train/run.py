"""One training run from beginning to end: evaluate, learn from examples, train, evaluate again, report."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

import torch
from rich.console import Console
from transformers import TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.exceptions import ConfigurationError
from openenv.train.config import TrainConfig
from openenv.train.diagnosis import TrainingWarning, diagnose
from openenv.train.evaluation import evaluate_policy, evaluate_random_player, evaluate_scripted_player
from openenv.train.grpo import make_joint_trainer, takes_gpu
from openenv.train.joint import open_sessions
from openenv.train.live_warnings import LiveWarnings
from openenv.train.lora import whole_model
from openenv.train.policy import Policy, load_policies, make_policies
from openenv.train.progress import TrainingProgress
from openenv.train.quiet import quiet_libraries
from openenv.train.report import AFTER, BEFORE, RANDOM, SCRIPTED, WARMED_UP, score_name, write_report
from openenv.train.run_folder import RunFolder, step_of
from openenv.train.run_start import RunStart
from openenv.train.scores import Score
from openenv.train.sessions import Sessions
from openenv.train.vllm_settings import check_vllm_is_installed
from openenv.train.warm_up import call_examples, check_examples, example_tokens, find_examples, learn_examples

__all__ = ["TrainResult", "resume", "train"]


@dataclass(frozen=True)
class TrainResult:
    """What a run came to.

    Attributes:
        environment: Short name of the environment; those of several joined by ``+``.
        folder: Where everything of the run lies.
        scores: Scores by player: before and after training, the random and, if there is one, the scripted player. With
            several environments, by `score_name`.
        seconds: Wall-clock time of the training itself, without evaluations.
        steps: Optimiser steps that were done in this process.
        warnings: What kept the model from learning, and rewards that are too good.
    """

    environment: str
    folder: RunFolder
    scores: dict[str, Score]
    seconds: float
    steps: int
    warnings: list[TrainingWarning] = field(default_factory=list)


def train(
    config: TrainConfig, console: Console | None = None, callbacks: Sequence[TrainerCallback] = ()
) -> TrainResult:
    """Train a language model on an environment.

    Args:
        config: The run's settings.
        console: Where progress is shown; by default the terminal.
        callbacks: Told of each optimiser step, after its metrics were written.

    Returns:
        Scores and where everything lies.

    Raises:
        OpenEnvError: The settings, the model or the environment are not as they must be; the subclass says how.

    Example::

        result = train(TrainConfig(environment="catch"))
        print(result.scores["after training"].mean_reward)
    """
    _check_installed(config)
    with quiet_libraries(), _threads(config.threads), open_sessions(config) as sessions:
        # First what may be refused, so that a mistake leaves no folder behind.
        policies = make_policies(config, sessions, call_examples(config, sessions))
        for name, part in config.parts.items():
            check_examples(part, sessions[name], policies[name])
        folder = RunFolder.create(config, _name_of(config, sessions))
        return _Run(config, folder, sessions, policies, console or Console(), callbacks).whole()


def resume(path: Path, console: Console | None = None, callbacks: Sequence[TrainerCallback] = ()) -> TrainResult:
    """Go on with a run that was interrupted, from its last checkpoint.

    On the same machine, with the same versions and number of threads, the model ends up with the weights that it would
    have without the interruption.

    Args:
        path: The run's folder.
        console: Where progress is shown; by default the terminal.
        callbacks: Told of each optimiser step, after its metrics were written.

    Returns:
        Scores and where everything lies.

    Raises:
        ConfigurationError: It is no run's folder, or the run has ended.
    """
    folder = RunFolder.reopen(path)
    if folder.report.exists():
        raise ConfigurationError(f"The run in {path} has ended; its report is {folder.report}. Start a new run.")
    config = folder.load_config()
    _check_installed(config)
    with quiet_libraries(), _threads(config.threads), open_sessions(config) as sessions:
        checkpoint = folder.last_checkpoint()
        # A checkpoint with additions holds nothing else; the trainer puts them on the model that it began with.
        whole = None if config.lora else checkpoint
        source = whole or (folder.warm_up if folder.warm_up.is_dir() else None)
        if source is None:
            policies = make_policies(config, sessions, call_examples(config, sessions))
        else:
            policies = load_policies(config, sessions, source)
        return _Run(config, folder, sessions, policies, console or Console(), callbacks).whole()


def _check_installed(config: TrainConfig) -> None:
    # A warm-up alone needs no vLLM.
    if config.vllm is not None and config.grpo:
        check_vllm_is_installed()


def _name_of(config: TrainConfig, sessions: Mapping[str, Sessions]) -> str:
    return config.environment if config.environments else sessions[""].name


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Run:
    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        sessions: Mapping[str, Sessions],
        policies: Mapping[str, Policy],
        console: Console,
        callbacks: Sequence[TrainerCallback],
    ) -> None:
        self._config = config
        self._folder = folder
        self._sessions = sessions
        self._policies = policies
        self._parts = config.parts
        self._name = _name_of(config, sessions)
        self._console = console
        self._callbacks = callbacks
        self._checkpoint = folder.last_checkpoint()
        self._told: set[str] = set()

    @property
    def _policy(self) -> Policy:
        """The model, with its dialogue for the first environment."""
        return next(iter(self._policies.values()))

    def whole(self) -> TrainResult:
        self._folder.add_start(RunStart.now())
        self._introduce()
        seconds = self._warm_up() if self._has_to_warm_up() else 0.0
        if self._config.grpo:
            seconds += self._reinforce()
        else:
            self._score_before()
            self._to_device()
        self._score(AFTER, self._evaluate_again)
        self._policy.model.save_pretrained(self._folder.model)
        self._policy.tokenizer.save_pretrained(self._folder.model)
        write_report(self._folder, self._config, f"{self._config.model} on {self._name}")
        scores = self._folder.read_scores()
        steps = self._config.steps - self._steps_done() if self._config.grpo else 0
        warnings = diagnose(self._config, self._folder.read_metrics(), scores)
        return TrainResult(self._name, self._folder, scores, seconds, steps, warnings)

    def _has_to_warm_up(self) -> bool:
        return self._config.sft is not None and self._checkpoint is None and not self._folder.warm_up.is_dir()

    def _warm_up(self) -> float:
        """Learn from examples, and go on with the model that comes of it; return the seconds that it took."""
        self._to_device()
        self._score_before()
        start = time.monotonic()
        examples = [
            example_tokens(episode, self._policies[name].dialogue)
            for name, part in self._parts.items()
            for episode in find_examples(part, self._sessions[name], self._policies[name])
        ]
        self._say(f"warm-up on {len(examples)} episodes")
        learn_examples(self._policy, examples, self._config, self._folder.warm_up, self._console)
        seconds = time.monotonic() - start
        # Its trainer leaves wrappers around a model.
        self._policies = load_policies(self._config, self._sessions, self._folder.warm_up)
        return seconds

    def _reinforce(self) -> float:
        """Learn from rewards; return the seconds that it took."""
        progress = TrainingProgress(self._console, self._config.steps, self._config.rollouts, self._steps_done())
        callbacks = [progress, LiveWarnings(self._console, self._config, self._folder), *self._callbacks]
        # Also puts the model on its device.
        trainer = make_joint_trainer(self._policies, self._sessions, self._config, self._folder, callbacks)
        self._score_before()
        if self._config.sft is not None:
            self._score(WARMED_UP, self._evaluate_again)
        seconds = self._train(trainer, progress)
        model = whole_model(trainer.model)
        self._policies = {name: replace(policy, model=model) for name, policy in self._policies.items()}
        return seconds

    def _score_before(self) -> None:
        self._score(
            RANDOM, lambda name: evaluate_random_player(self._policies[name], self._sessions[name], self._parts[name])
        )
        self._score(SCRIPTED, lambda name: evaluate_scripted_player(self._sessions[name], self._parts[name]))
        self._score(BEFORE, lambda name: evaluate_policy(self._policies[name], self._sessions[name], self._parts[name]))
        self._warn_of_hidden_text()

    def _warn_of_hidden_text(self) -> None:
        """Say once where an environment's text is only where no model is shown it."""
        for name, sessions in self._sessions.items():
            if sessions.hidden_text is not None and f"{name} hidden text" not in self._told:
                self._told.add(f"{name} hidden text")
                text = f"warning   {sessions.name}: {sessions.hidden_text}"
                self._console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)

    def _evaluate_again(self, name: str) -> Score:
        """Evaluate the model, and keep the episode that went worst before."""
        shown = self._folder.read_scores()[score_name(BEFORE, name)].sample_seed
        return evaluate_policy(self._policies[name], self._sessions[name], self._parts[name], shown)

    def _to_device(self) -> None:
        if takes_gpu(self._config):
            self._policy.model.to("cuda")  # type: ignore[arg-type]

    def _introduce(self) -> None:
        parameters = sum(parameter.numel() for parameter in self._policy.model.parameters())
        self._say(f"run       {self._folder.path}")
        if self._checkpoint is not None:
            self._say(f"resumed   from {self._checkpoint}")
        self._say(f"model     {self._config.model}, {parameters:,} parameters")

    def _train(self, trainer: GRPOTrainer, progress: TrainingProgress) -> float:
        """Train to the end of the schedule; return the seconds that it took."""
        self._folder.forget_after(self._checkpoint)
        start = time.monotonic()
        try:
            with progress:
                trainer.train(resume_from_checkpoint=None if self._checkpoint is None else str(self._checkpoint))
        except KeyboardInterrupt:
            self._say(f"Interrupted. To go on: openenv train --resume {quote(str(self._folder.path))}")
            raise
        return time.monotonic() - start

    def _steps_done(self) -> int:
        return 0 if self._checkpoint is None else step_of(self._checkpoint)

    def _score(self, player: str, evaluate: Callable[[str], Score | None]) -> None:
        """Evaluate a player in each environment, unless that was done before, and say how it went."""
        for name in self._parts:
            key = score_name(player, name)
            if key not in self._told:
                self._told.add(key)
                self._score_one(key, name, evaluate)

    def _score_one(self, key: str, name: str, evaluate: Callable[[str], Score | None]) -> None:
        scores = self._folder.read_scores()
        if key not in scores:
            score = evaluate(name)
            if score is None:
                return
            scores[key] = score
            self._folder.write_scores(scores)
        width = max(len(score_name(f"{SCRIPTED} ", each)) for each in self._parts)
        self._say(f"{key:<{width}} mean reward {scores[key].mean_reward:+.3f}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
