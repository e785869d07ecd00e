"""One training run from beginning to end: evaluate, learn from examples, train, evaluate again, report."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import torch
from rich.console import Console
from transformers import TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.core.exceptions import ConfigurationError
from openenv.train.config import TrainConfig
from openenv.train.evaluation import evaluate_policy, evaluate_random_player, evaluate_scripted_player
from openenv.train.grpo import make_trainer, takes_gpu
from openenv.train.lora import whole_model
from openenv.train.policy import Policy, load_policy, make_policy
from openenv.train.progress import TrainingProgress
from openenv.train.quiet import quiet_libraries
from openenv.train.report import AFTER, BEFORE, RANDOM, SCRIPTED, WARMED_UP, write_report
from openenv.train.run_folder import RunFolder, step_of
from openenv.train.scores import Score
from openenv.train.sessions import Sessions
from openenv.train.vllm_settings import check_vllm_is_installed
from openenv.train.warm_up import find_examples, warm_up

__all__ = ["TrainResult", "resume", "train"]


@dataclass(frozen=True)
class TrainResult:
    """What a run came to.

    Attributes:
        environment: Short name of the environment.
        folder: Where everything of the run lies.
        scores: Scores by player: before and after training, the random and, if there is one, the scripted player.
        seconds: Wall-clock time of the training itself, without evaluations.
        steps: Optimiser steps that were done in this process.
    """

    environment: str
    folder: RunFolder
    scores: dict[str, Score]
    seconds: float
    steps: int


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
    with quiet_libraries(), _threads(config.threads), Sessions.open(config.environment, config.rollouts) as sessions:
        # First what may be refused, so that a mistake leaves no folder behind.
        policy = make_policy(config, sessions)
        folder = RunFolder.create(config, sessions.name)
        return _Run(config, folder, sessions, policy, console or Console(), callbacks).whole()


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
    with quiet_libraries(), _threads(config.threads), Sessions.open(config.environment, config.rollouts) as sessions:
        checkpoint = folder.last_checkpoint()
        # A checkpoint with additions holds nothing else; the trainer puts them on the model that it began with.
        whole = None if config.lora else checkpoint
        source = whole or (folder.warm_up if folder.warm_up.is_dir() else None)
        policy = make_policy(config, sessions) if source is None else load_policy(config, sessions, source)
        return _Run(config, folder, sessions, policy, console or Console(), callbacks).whole()


def _check_installed(config: TrainConfig) -> None:
    # A warm-up alone needs no vLLM.
    if config.vllm is not None and config.grpo:
        check_vllm_is_installed()


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
        sessions: Sessions,
        policy: Policy,
        console: Console,
        callbacks: Sequence[TrainerCallback],
    ) -> None:
        self._config = config
        self._folder = folder
        self._sessions = sessions
        self._policy = policy
        self._console = console
        self._callbacks = callbacks
        self._checkpoint = folder.last_checkpoint()
        self._told: set[str] = set()

    def whole(self) -> TrainResult:
        self._introduce()
        seconds = self._warm_up() if self._has_to_warm_up() else 0.0
        if self._config.grpo:
            seconds += self._reinforce()
        else:
            self._score_before()
            self._to_device()
        shown = self._folder.read_scores()[BEFORE].sample_seed
        self._score(AFTER, lambda: evaluate_policy(self._policy, self._sessions, self._config, shown))
        self._policy.model.save_pretrained(self._folder.model)
        self._policy.tokenizer.save_pretrained(self._folder.model)
        write_report(self._folder, self._config, f"{self._config.model} on {self._sessions.name}")
        scores = self._folder.read_scores()
        steps = self._config.steps - self._steps_done() if self._config.grpo else 0
        return TrainResult(self._sessions.name, self._folder, scores, seconds, steps)

    def _has_to_warm_up(self) -> bool:
        return self._config.sft is not None and self._checkpoint is None and not self._folder.warm_up.is_dir()

    def _warm_up(self) -> float:
        """Learn from examples, and go on with the model that comes of it; return the seconds that it took."""
        self._to_device()
        self._score_before()
        start = time.monotonic()
        examples = find_examples(self._config, self._sessions, self._policy)
        self._say(f"warm-up on {len(examples)} episodes")
        warm_up(self._policy, examples, self._config, self._folder.warm_up, self._console)
        seconds = time.monotonic() - start
        # Its trainer leaves wrappers around a model.
        self._policy = load_policy(self._config, self._sessions, self._folder.warm_up)
        return seconds

    def _reinforce(self) -> float:
        """Learn from rewards; return the seconds that it took."""
        progress = TrainingProgress(self._console, self._config.steps, self._config.rollouts, self._steps_done())
        callbacks = [progress, *self._callbacks]
        # Also puts the model on its device.
        trainer = make_trainer(self._policy, self._sessions, self._config, self._folder, callbacks)
        self._score_before()
        if self._config.sft is not None:
            shown = self._folder.read_scores()[BEFORE].sample_seed
            self._score(WARMED_UP, lambda: evaluate_policy(self._policy, self._sessions, self._config, shown))
        seconds = self._train(trainer, progress)
        self._policy = replace(self._policy, model=whole_model(trainer.model))
        return seconds

    def _score_before(self) -> None:
        self._score(RANDOM, lambda: evaluate_random_player(self._policy, self._sessions, self._config))
        self._score(SCRIPTED, lambda: evaluate_scripted_player(self._sessions, self._config))
        self._score(BEFORE, lambda: evaluate_policy(self._policy, self._sessions, self._config))

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

    def _score(self, player: str, evaluate: Callable[[], Score | None]) -> None:
        """Evaluate a player, unless that was done before, and say how it went."""
        if player in self._told:
            return
        self._told.add(player)
        scores = self._folder.read_scores()
        if player not in scores:
            score = evaluate()
            if score is None:
                return
            scores[player] = score
            self._folder.write_scores(scores)
        self._say(f"{player:<16} mean reward {scores[player].mean_reward:+.3f}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
