"""A training run: load the model, score it, warm it up, train it, score it again, save it, report."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

import torch
from rich.console import Console
from transformers import TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from openenv.auto.target import is_address
from openenv.core.exceptions import ConfigurationError
from openenv.records.prices import read_prices
from openenv.records.run_folder import RunFolder, step_of
from openenv.records.run_start import RunStart
from openenv.records.scores import AFTER, WARMED_UP, Score
from openenv.train.agents.policy import Policy, load_policies, make_policies, sizes_of, takes_gpu
from openenv.train.checks import check_trackers, check_vllm
from openenv.train.machine import bfloat16_speed, free_memory, usable_cores
from openenv.train.quiet import quiet_about_tied_weights, quiet_libraries
from openenv.train.rollout.sessions import Sessions
from openenv.train.run.callbacks import LiveWarnings, RunControl, TrainingProgress
from openenv.train.run.components import check_component_names
from openenv.train.run.diagnosis import TrainingWarning
from openenv.train.run.environments import OpenRun, environment_name, open_run
from openenv.train.run.grpo import make_trainer
from openenv.train.run.interruption import Interruption
from openenv.train.run.lora import whole_model
from openenv.train.run.report import write_report
from openenv.train.run.scoring import score_before, score_model
from openenv.train.run.warm_up import call_examples, check_examples, warm_up
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.sizes import choose_sizes
from openenv.viewer.run_page import PageAddress, RunPage

__all__ = ["TrainResult", "resume", "train"]


@dataclass(frozen=True)
class TrainResult:
    """Outcome of a run.

    Attributes:
        environment: Short name of the environment; those of several joined by ``+``.
        folder: The run's folder, with everything that it has written.
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
        The scores and the run's folder.

    Raises:
        OpenEnvError: The settings, the model or the environment are refused; the subclass names the reason.

    Example::

        result = train(TrainConfig(environment="catch"))
        print(result.scores["after training"].mean_reward)
    """
    _check_machine(config)
    console = console or Console()
    config = _sized(config, console)
    with _new_folder(config) as folder:
        return _run(config, folder, console, callbacks, page)


def resume(
    path: Path,
    console: Console | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    *,
    steps: int | None = None,
    page: PageAddress | None = None,
) -> TrainResult:
    """Resume a run that was interrupted, or make a run that has ended longer, from its last checkpoint.

    On the same machine, with the same versions and number of threads, the model ends up with the weights that it would
    have without the interruption.

    Args:
        path: The run's folder.
        console: Where progress is shown; by default the terminal.
        callbacks: Called after each optimiser step, once its metrics were written.
        steps: Optimiser steps of the whole run, those that are done among them. The learning rate continues as that of
            a run with so many steps: after 300 of 600 steps a linear one is at half of where it began.
        page: Where the page of the run is served until the training ends; ``None`` for no page.

    Returns:
        The scores and the run's folder.

    Raises:
        ConfigurationError: It is no run's folder, or the run has ended and ``steps`` is not more than it has done.
    """
    folder = RunFolder.reopen(path)
    config = _resumed_settings(folder, steps)
    _check_machine(config)
    folder.report.unlink(missing_ok=True)
    if config != load_config(folder.config):  # a longer run, which has no end yet
        folder.forget_end()
        config.save(folder.config)
    return _run(config, folder, console or Console(), callbacks, page)


def _run(
    config: TrainConfig,
    folder: RunFolder,
    console: Console,
    callbacks: Sequence[TrainerCallback],
    page: PageAddress | None,
) -> TrainResult:
    """Bring a run from where its folder stands to its end."""
    with quiet_libraries(), _threads(config.threads), open_run(config, folder, console) as run:
        policies = _load(run)
        with _started(run, page) as interruption:
            _introduce(run, policies)
            seconds = 0.0
            warms_up = config.sft is not None and run.checkpoint is None and not folder.warm_up.is_dir()
            if warms_up:
                score_before(run, policies)
                seconds += warm_up(run, policies)
                policies = _load(run)  # its trainer leaves wrappers around a model
            if config.grpo:
                progress = TrainingProgress(console, config, folder, run.steps_done)
                shown = [progress, LiveWarnings(console, config, folder), *callbacks]
                # Made before the scores, so that settings that it refuses are refused at once.
                trainer = make_trainer(run, policies, [*shown, RunControl(interruption, config, folder)])
            if not warms_up:
                score_before(run, policies)
            if config.grpo:
                if config.sft is not None:
                    score_model(run, policies, WARMED_UP)
                with progress:
                    seconds += _train_to_end(run, trainer, policies, interruption)
                model = whole_model(trainer.model)
                policies = {name: replace(policy, model=model) for name, policy in policies.items()}
                del trainer  # the evaluation may need the memory of its optimiser
            score_model(run, policies, AFTER)
            _save(run, policies)
            run.keep_times()
            warnings = write_report(folder, config, run.title)
            return _result(run, seconds, warnings)


def _load(run: OpenRun) -> dict[str, Policy]:
    """Load the model as the run has left it, with a renderer for each environment; at the beginning, make it."""
    config, sessions = run.config, run.sessions
    # A checkpoint with additions holds nothing else; the trainer puts them on the model that it began with.
    checkpoint = None if config.lora else run.checkpoint
    source = checkpoint or (run.folder.warm_up if run.folder.warm_up.is_dir() else None)
    if source is not None:
        return load_policies(config, sessions, source)
    policies = make_policies(config, sessions, call_examples(config, sessions))
    if run.checkpoint is None:
        # What the warm-up or the evaluations would refuse is refused here, before they use their time.
        for name, part in config.parts.items():
            check_examples(part, sessions[name], policies[name])
            check_component_names(part, sessions[name], policies[name])
    return policies


@contextmanager
def _started(run: OpenRun, page: PageAddress | None) -> Iterator[Interruption]:
    """Mark the run as under way, and report what there is of it where a signal ends it."""
    run.folder.add_start(RunStart.now())
    with run.folder.held(), Interruption() as interruption, _served(run, page):
        try:
            yield interruption
        except KeyboardInterrupt:
            _report_interruption(run)
            raise


def _served(run: OpenRun, address: PageAddress | None) -> AbstractContextManager[object]:
    return nullcontext() if address is None else RunPage(run.folder.path, address, run.console)


def _introduce(run: OpenRun, policies: Mapping[str, Policy]) -> None:
    model = next(iter(policies.values())).model
    run.show(f"run       {run.folder.path}")
    if run.checkpoint is not None:
        run.show(f"resumed   from {run.checkpoint}")
    run.show(f"model     {run.config.model}, {sum(parameter.numel() for parameter in model.parameters()):,} parameters")
    for name, part in run.config.parts.items():
        tools = run.sessions[name].tools
        if tools is not None:
            run.show(f"actions   {f'{name}: ' if name else ''}calls of {', '.join(tools.names)}")
        run.show(f"illegal   {f'{name}: ' if name else ''}{_illegal_rule(part, run.sessions[name], policies[name])}")
        if not is_address(part.environment):  # a server that was started for this run, and has the page
            run.show(f"watch     {run.sessions[name].client.async_client.base_url}/web/live")


def _illegal_rule(config: TrainConfig, sessions: Sessions, policy: Policy) -> str:
    """Return what an illegal answer does, in words."""
    fallback = policy.actions.fallback if sessions.tools is None else None
    rule = replace(config.answer_rule, fallback=fallback)
    cost = "" if rule.penalty else f"; in training each costs {config.illegal_penalty:g}"
    return f"answers: {rule}{cost}"


def _train_to_end(
    run: OpenRun, trainer: GRPOTrainer, policies: Mapping[str, Policy], interruption: Interruption
) -> float:
    """Train to the end of the schedule; return the seconds that it took."""
    run.folder.forget_after(run.checkpoint)
    run.keep_times()
    start = time.monotonic()
    with interruption.steps(), quiet_about_tied_weights(next(iter(policies.values())).model):
        trainer.train(resume_from_checkpoint=None if run.checkpoint is None else str(run.checkpoint))
    interruption.raise_if_received()
    return time.monotonic() - start


def _save(run: OpenRun, policies: Mapping[str, Policy]) -> None:
    policy = next(iter(policies.values()))
    policy.model.save_pretrained(run.folder.model)
    policy.tokenizer.save_pretrained(run.folder.model)


def _result(run: OpenRun, seconds: float, warnings: list[TrainingWarning]) -> TrainResult:
    config, folder = run.config, run.folder
    scores = folder.read_scores()
    steps = config.steps - run.steps_done if config.grpo else 0
    return TrainResult(environment_name(config), folder, scores, seconds, steps, warnings)


def _report_interruption(run: OpenRun) -> None:
    """Write the report as far as the run has come, and show what there is and how to resume."""
    folder, checkpoint = run.folder, run.folder.last_checkpoint()
    run.keep_times()
    kept = "There is no checkpoint yet" if checkpoint is None else f"The last checkpoint is {checkpoint}"
    if not folder.read_metrics():
        kept += ", and no report, since no step was done."
    elif folder.is_scored:
        kept += ", and only the model and the report are still to be written."
    else:
        write_report(folder, run.config, run.title)
        kept += f", and the report up to here is {folder.report}."
    again = "begin again" if checkpoint is None else "go on"
    run.show(f"Interrupted. {kept}\nTo {again}: openenv train --resume {quote(str(folder.path))}")


def _check_machine(config: TrainConfig) -> None:
    check_trackers(config)
    check_vllm(config)
    if config.prices is not None:
        read_prices(config.prices)  # which raises where they can't be read


def _sized(config: TrainConfig, console: Console) -> TrainConfig:
    """Choose the sizes that the settings of a new run leave open, and show them; its folder keeps them."""
    if config.is_tiny:
        return config
    on_gpu = takes_gpu(config)
    free = torch.cuda.mem_get_info()[0] if on_gpu else free_memory()
    speed = 1.0 if config.dtype == "float32" else bfloat16_speed(on_gpu=on_gpu)
    config, reason = choose_sizes(config, sizes_of(config.model), free, usable_cores(), speed)
    if reason:
        console.print(f"sizes     {reason}", highlight=False, soft_wrap=True, markup=False)
    return config


@contextmanager
def _new_folder(config: TrainConfig) -> Iterator[RunFolder]:
    """Make the folder of a new run, in which its servers record; where the run is refused, it is removed again."""
    is_first = not config.output_dir.exists()
    folder = config.make_folder(environment_name(config))
    try:
        yield folder
    except BaseException:
        if not folder.starts.exists():
            with suppress(OSError):  # the reason of the refusal is what matters
                shutil.rmtree(folder.path)
                if is_first:
                    config.output_dir.rmdir()
        raise


def _resumed_settings(folder: RunFolder, steps: int | None) -> TrainConfig:
    """Read the settings of a run that is resumed, with so many steps; refuse one that has nothing left to do."""
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


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
