"""One training run from beginning to end: evaluate, learn from examples, train, evaluate again, report."""

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from transformers import TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.auto.target import is_address
from openenv.core.exceptions import ConfigurationError
from openenv.records.run_folder import RunFolder, step_of
from openenv.records.run_start import RunStart
from openenv.records.scores import (
    AFTER,
    BEFORE,
    RANDOM,
    SCRIPTED,
    WARMED_UP,
    Score,
    figure_name,
    sampled,
    score_name,
)
from openenv.train.agents.player_agent import PlayerAgent
from openenv.train.agents.policy import Policy, load_policies, make_policies
from openenv.train.agents.policy_agent import PolicyAgent
from openenv.train.dataset.rollout_traces import RolloutTraces
from openenv.train.evaluation.scores import random_agent, score, scripted_agent
from openenv.train.quiet import quiet_about_tied_weights, quiet_libraries
from openenv.train.run.components import check_component_names, check_components
from openenv.train.run.diagnosis import TrainingWarning, diagnose
from openenv.train.run.grpo import make_joint_trainer
from openenv.train.run.interruption import Interruption
from openenv.train.run.joint import open_sessions
from openenv.train.run.live_warnings import LiveWarnings
from openenv.train.run.lora import whole_model
from openenv.train.run.progress import TrainingProgress
from openenv.train.run.report import write_report
from openenv.train.run.rollout_notes import RolloutNotes
from openenv.train.run.warm_up import call_examples, check_examples, example_tokens, find_examples, learn_examples
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.vllm_settings import check_vllm_is_installed
from openenv.train.spec.sessions import Sessions
from openenv.viewer.run_page import PageAddress, RunPage

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

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
    config: TrainConfig,
    console: Console | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    *,
    page: PageAddress | None = None,
) -> TrainResult:
    """Train a language model on an environment.

    Args:
        config: The run's settings.
        console: Where progress is shown; by default the terminal.
        callbacks: Called after each optimiser step, once its metrics were written.
        page: Where the page of the run is served until the training ends; ``None`` for no page.

    Returns:
        Scores and where everything lies.

    Raises:
        OpenEnvError: The settings, the model or the environment are not as they must be; the subclass says how.

    Example::

        result = train(TrainConfig(environment="catch"))
        print(result.scores["after training"].mean_reward)
    """
    _check_installed(config)
    with (
        quiet_libraries(),
        _threads(config.threads),
        _new_folder(config) as folder,
        _traces(config, folder) as traces,
        open_sessions(config, traces.env_vars) as sessions,
    ):
        policies = make_policies(config, sessions, call_examples(config, sessions))
        for name, part in config.parts.items():
            check_examples(part, sessions[name], policies[name])
            check_component_names(part, sessions[name], policies[name])
        return _Run(config, folder, sessions, policies, traces, console or Console(), callbacks).whole(page)


def resume(
    path: Path,
    console: Console | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    *,
    steps: int | None = None,
    page: PageAddress | None = None,
) -> TrainResult:
    """Go on with a run that was interrupted, or has ended and is to be longer, from its last checkpoint.

    On the same machine, with the same versions and number of threads, the model ends up with the weights that it would
    have without the interruption.

    Args:
        path: The run's folder.
        console: Where progress is shown; by default the terminal.
        callbacks: Called after each optimiser step, once its metrics were written.
        steps: Optimiser steps of the whole run, those that are done among them. The learning rate goes on as that of a
            run with so many steps: after 300 of 600 steps a linear one is at half of where it began.
        page: As for ``train``.

    Returns:
        Scores and where everything lies.

    Raises:
        ConfigurationError: It is no run's folder, or the run has ended and ``steps`` is not more than it has done.
    """
    folder = RunFolder.reopen(path)
    config = _config_to_go_on_with(folder, steps)
    _check_installed(config)
    _begin_again(folder, config)
    with (
        quiet_libraries(),
        _threads(config.threads),
        _traces(config, folder) as traces,
        open_sessions(config, traces.env_vars) as sessions,
    ):
        checkpoint = folder.last_checkpoint()
        # A checkpoint with additions holds nothing else; the trainer puts them on the model that it began with.
        whole = None if config.lora else checkpoint
        source = whole or (folder.warm_up if folder.warm_up.is_dir() else None)
        if source is None:
            policies = make_policies(config, sessions, call_examples(config, sessions))
        else:
            policies = load_policies(config, sessions, source)
        return _Run(config, folder, sessions, policies, traces, console or Console(), callbacks).whole(page)


def _begin_again(folder: RunFolder, config: TrainConfig) -> None:
    folder.report.unlink(missing_ok=True)
    if config != load_config(folder.config):  # a longer run, which has no end yet
        folder.forget_end()
        config.save(folder.config)


def _config_to_go_on_with(folder: RunFolder, steps: int | None) -> TrainConfig:
    config = load_config(folder.config)
    if steps is None:
        if folder.has_ended:
            raise ConfigurationError(
                f"The run in {folder.path} has ended; its report is {folder.report}. Start a new run, or make this one "
                f"longer: --resume {quote(str(folder.path))} --steps {2 * config.steps}"
            )
        return config
    if not config.grpo:
        raise ConfigurationError(f"The run in {folder.path} learns from examples alone; leave out --steps.")
    checkpoint = folder.last_checkpoint()
    done = 0 if checkpoint is None else step_of(checkpoint)
    if steps <= done:
        raise ConfigurationError(
            f"The run in {folder.path} has done {done} steps; --steps counts these too, and must be more; got {steps}."
        )
    return load_config(folder.config, steps=steps)


def _check_installed(config: TrainConfig) -> None:
    # A warm-up alone needs no vLLM.
    if config.vllm is not None and config.grpo:
        check_vllm_is_installed()


def _name_of(config: TrainConfig) -> str:
    return config.environment if config.environments else Sessions.name_of(config.environment)


@contextmanager
def _new_folder(config: TrainConfig) -> Iterator[RunFolder]:
    """Make the folder of a new run, in which its servers record; where the run is refused, it is removed again."""
    is_first = not config.output_dir.exists()
    folder = config.make_folder(_name_of(config))
    try:
        yield folder
    except BaseException:
        if not folder.starts.exists():
            with suppress(OSError):  # the reason of the refusal is what matters
                shutil.rmtree(folder.path)
                if is_first:
                    config.output_dir.rmdir()
        raise


def _traces(config: TrainConfig, folder: RunFolder) -> RolloutTraces:
    environments = {name: part.environment for name, part in config.parts.items()}
    share = config.traces_sample if config.traces else 0.0
    return RolloutTraces(folder.traces, config.model, environments, share, config.traces_leave_out)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _schemas(sessions: Sessions) -> list[dict[str, Any]]:
    """Return the tools that an environment offers, as chat templates take them."""
    return [] if sessions.tools is None else sessions.tools.schemas()


class _StopAfterStep(TrainerCallback):
    """Ends the training with a checkpoint when a signal came."""

    def __init__(self, interruption: Interruption) -> None:
        self._interruption = interruption

    def on_step_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Ask for a checkpoint and the end."""
        if self._interruption.received is not None:
            control.should_save = control.should_training_stop = True


class _RateOfTheSchedule(TrainerCallback):
    """Begins with the learning rate that the schedule has: a checkpoint of a shorter run holds that run's own."""

    def on_train_begin(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        optimizer: Any = None,
        lr_scheduler: Any = None,
        **kwargs: Any,
    ) -> None:
        """Set the rate of the first step."""
        schedules = zip(lr_scheduler.base_lrs, lr_scheduler.lr_lambdas, strict=True)
        rates = [base * share(lr_scheduler.last_epoch) for base, share in schedules]
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        lr_scheduler._last_lr = rates  # what is logged


class _Run:
    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        sessions: Mapping[str, Sessions],
        policies: Mapping[str, Policy],
        traces: RolloutTraces,
        console: Console,
        callbacks: Sequence[TrainerCallback],
    ) -> None:
        self._config = config
        self._folder = folder
        self._sessions = sessions
        self._policies = policies
        self._traces = traces
        self._notes = RolloutNotes(folder, traces)
        self._parts = config.parts
        self._name = _name_of(config)
        self._console = console
        self._callbacks = callbacks
        self._checkpoint = folder.last_checkpoint()
        self._told: set[str] = set()
        self._interruption = Interruption()

    @property
    def _policy(self) -> Policy:
        """The model, with its renderer for the first environment."""
        return next(iter(self._policies.values()))

    def whole(self, page: PageAddress | None) -> TrainResult:
        self._folder.add_start(RunStart.now())
        with self._folder.held(), self._interruption, self._page(page):
            try:
                return self._play_and_learn()
            except KeyboardInterrupt:
                self._end_early()
                raise

    def _page(self, address: PageAddress | None) -> AbstractContextManager[object]:
        if address is None:
            return nullcontext()
        return RunPage(self._folder.path, address, self._console)

    def _play_and_learn(self) -> TrainResult:
        self._introduce()
        seconds = self._warm_up() if self._has_to_warm_up() else 0.0
        if self._config.grpo:
            seconds += self._reinforce()
        else:
            self._score_before()
            self._policy.to_device(self._config)
        self._score_model(AFTER)
        self._policy.model.save_pretrained(self._folder.model)
        self._policy.tokenizer.save_pretrained(self._folder.model)
        self._report()
        scores = self._folder.read_scores()
        steps = self._config.steps - self._steps_done() if self._config.grpo else 0
        warnings = diagnose(self._config, self._folder.read_metrics(), scores)
        return TrainResult(self._name, self._folder, scores, seconds, steps, warnings)

    def _has_to_warm_up(self) -> bool:
        return self._config.sft is not None and self._checkpoint is None and not self._folder.warm_up.is_dir()

    def _warm_up(self) -> float:
        """Learn from examples, and go on with the model that comes of it; return the seconds that it took."""
        self._policy.to_device(self._config)
        self._score_before()
        start = time.monotonic()
        examples = [
            example_tokens(episode, self._policies[name].renderer)
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
        live = LiveWarnings(self._console, self._config, self._folder)
        callbacks = [progress, live, *self._callbacks, _StopAfterStep(self._interruption), _RateOfTheSchedule()]
        # Also puts the model on its device.
        trainer = make_joint_trainer(self._policies, self._sessions, self._config, self._folder, callbacks, self._notes)
        self._score_before()
        if self._config.sft is not None:
            self._score_model(WARMED_UP)
        seconds = self._train(trainer, progress)
        model = whole_model(trainer.model)
        self._policies = {name: replace(policy, model=model) for name, policy in self._policies.items()}
        return seconds

    def _score_before(self) -> None:
        self._score(RANDOM, self._evaluate_random)
        self._score(SCRIPTED, self._evaluate_scripted)
        self._score_model(BEFORE)
        check_components(self._config, self._folder.read_scores())
        self._warn_of_hidden_text()

    def _warn_of_hidden_text(self) -> None:
        """Say once where an environment's text is only where no model is shown it."""
        for name, sessions in self._sessions.items():
            if sessions.hidden_text is not None and f"{name} hidden text" not in self._told:
                self._told.add(f"{name} hidden text")
                text = f"warning   {sessions.name}: {sessions.hidden_text}"
                self._console.print(text, style="yellow", highlight=False, soft_wrap=True, markup=False)

    def _score_model(self, player: str) -> None:
        """Evaluate the model as it is now, greedy and sampled."""
        step = self._next_step(player)
        self._score(player, lambda name: self._evaluate(player, name, step, greedy=True))
        if self._config.sampled_temperature:
            name_of_both = sampled(player)
            self._score(name_of_both, lambda name: self._evaluate(name_of_both, name, step, greedy=False))

    def _next_step(self, player: str) -> int:
        """Return the step that would come after an evaluation of the model."""
        return self._config.steps + 1 if player == AFTER and self._config.grpo else 1

    def _evaluate(self, player: str, name: str, step: int, *, greedy: bool) -> Score:
        """Evaluate the model, and keep the episode that went worst before."""
        before = self._folder.read_scores().get(score_name(BEFORE, name))
        shown = None if before is None else before.sample_seed
        policy, sessions, config = self._policies[name], self._sessions[name], self._parts[name]
        temperature = 0.0 if greedy else config.sampled_temperature
        agent = PolicyAgent(policy, config, temperature=temperature)
        recorder = self._traces.evaluation(
            figure_name(player), name, step, sampling={"temperature": temperature}, tools=_schemas(sessions)
        )
        return score(agent, sessions, config, shown, recorder=recorder)

    def _evaluate_random(self, name: str) -> Score:
        agent = random_agent(self._policies[name], self._sessions[name], self._parts[name])
        return self._score_of_player(RANDOM, name, agent)

    def _evaluate_scripted(self, name: str) -> Score | None:
        agent = scripted_agent(self._sessions[name], self._parts[name])
        return None if agent is None else self._score_of_player(SCRIPTED, name, agent)

    def _score_of_player(self, player: str, name: str, agent: PlayerAgent) -> Score:
        sessions = self._sessions[name]
        recorder = self._traces.evaluation(player, name, 1, player, tools=_schemas(sessions))
        return score(agent, sessions, self._parts[name], recorder=recorder)

    def _introduce(self) -> None:
        parameters = sum(parameter.numel() for parameter in self._policy.model.parameters())
        self._say(f"run       {self._folder.path}")
        if self._checkpoint is not None:
            self._say(f"resumed   from {self._checkpoint}")
        self._say(f"model     {self._config.model}, {parameters:,} parameters")
        for name, part in self._parts.items():
            if not is_address(part.environment):  # a server that was started for this run, and has the page
                self._say(f"watch     {self._sessions[name].client.async_client.base_url}/web/live")

    def _train(self, trainer: GRPOTrainer, progress: TrainingProgress) -> float:
        """Train to the end of the schedule; return the seconds that it took."""
        self._folder.forget_after(self._checkpoint)
        start = time.monotonic()
        with progress, self._interruption.steps(), quiet_about_tied_weights(self._policy.model):
            trainer.train(resume_from_checkpoint=None if self._checkpoint is None else str(self._checkpoint))
        self._interruption.raise_if_received()
        return time.monotonic() - start

    def _report(self) -> None:
        write_report(self._folder, self._config, f"{self._config.model} on {self._name}")

    def _end_early(self) -> None:
        """Write the report as far as the run has come, and say what there is and how to go on."""
        checkpoint = self._folder.last_checkpoint()
        kept = "There is no checkpoint yet" if checkpoint is None else f"The last checkpoint is {checkpoint}"
        if not self._folder.read_metrics():
            kept += ", and no report, since no step was done."
        elif self._folder.is_scored:
            kept += ", and only the model and the report are still to be written."
        else:
            self._report()
            kept += f", and the report up to here is {self._folder.report}."
        again = "begin again" if checkpoint is None else "go on"
        self._say(f"Interrupted. {kept}\nTo {again}: openenv train --resume {quote(str(self._folder.path))}")

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
        width = max(len(score_name(sampled(BEFORE), each)) for each in self._parts)
        self._say(f"{figure_name(key):<{width}}  mean reward {scores[key].mean_reward:+.3f}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
