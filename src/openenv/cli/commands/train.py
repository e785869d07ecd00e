"""``openenv train``: examples, then GRPO on an environment, from a command line, a YAML file, or both."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from openenv.cli.key_values import read_reset, read_weights
from openenv.cli.options import (
    PLAYED_TEXT,
    ResetParameters,
    TracesLeaveOut,
    environment_argument,
    max_turns_option,
    step_timeout_option,
    temperature_option,
)
from openenv.cli.targets import played_environment, read_target
from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.scores import figure_name
from openenv.train.run.interruption import TrainingInterruptedError
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.names import check_names, check_run
from openenv.train.spec.example_check import check_examples_named
from openenv.viewer.run_page import PageAddress

if TYPE_CHECKING:
    from openenv.train.run.training import TrainResult

# Options that are no settings of the run.
NO_SETTINGS = ("config", "resume", "view", "view_host", "view_port")
REQUIRED = ("torch", "transformers", "trl", "datasets", "peft", "matplotlib")

Environment = Annotated[str | None, environment_argument(PLAYED_TEXT)]
Model = Annotated[str | None, typer.Option(help="'tiny', a model's id on the Hub, or its folder.  [default: tiny]")]
Tasks = Annotated[
    str | None,
    typer.Option(
        help="Train on a number of seeds, a split of the environment's tasks, or a file.  [default: ever new seeds]"
    ),
]
EvalTasks = Annotated[
    str | None,
    typer.Option(help="Compare on a split of the tasks, or a file.  [default: --tasks, else fresh seeds]"),
]
Sft = Annotated[
    str | None,
    typer.Option(
        metavar="N|FOLDER|FILE|postgresql://...",
        help="Learn first from N episodes of the scripted player, a folder of collected ones, or traces.",
    ),
]
SftMinReward = Annotated[
    float | None, typer.Option("--min-reward", help="Learn first only from episodes with at least this reward.")
]
Grpo = Annotated[bool | None, typer.Option("--grpo/--no-grpo", help="Let the model play then.  [default: grpo]")]
Steps = Annotated[int | None, typer.Option(help="Optimiser steps.  [default: 300 for tiny, else 200]")]
Rollouts = Annotated[int | None, typer.Option(help="Episodes for each step.  [default: 128 for tiny, else 32]")]
GroupSize = Annotated[int | None, typer.Option(help="Episodes that share a seed.  [default: 8]")]
MicroBatch = Annotated[int | None, typer.Option(help="Episodes in one backward pass.  [default: all for tiny, else 4]")]
LearningRate = Annotated[float | None, typer.Option(help="Rate at the start.  [default: 3e-3 for tiny, else 2e-6]")]
Temperature = Annotated[float | None, temperature_option("1")]
MaxTurns = Annotated[int | None, max_turns_option("32 for tiny, else 16")]
MaxActionTokens = Annotated[int | None, typer.Option(help="Tokens in an action.  [default: 8 for tiny, else 256]")]
MaxContext = Annotated[int | None, typer.Option(help="Tokens in an episode.  [default: 2048 for tiny, else 4096]")]
RewardComponents = Annotated[
    list[str] | None,
    typer.Option(
        "--reward-component",
        metavar="NAME=WEIGHT",
        help="Learn from this component of the reward; repeatable.  [default: the whole reward]",
    ),
]
IllegalPenalty = Annotated[float | None, typer.Option(help="Taken for each illegal action.  [default: 0.1]")]
Fallback = Annotated[str | None, typer.Option(help="The action that an illegal one counts as.  [default: its own]")]
Thinking = Annotated[bool | None, typer.Option("--thinking", help="Let the model reason before it acts.")]
StepTimeoutS = Annotated[float | None, step_timeout_option("60")]
Seed = Annotated[int | None, typer.Option(help="What every random choice derives from.  [default: 1]")]
EvalEpisodes = Annotated[
    int | None, typer.Option(help="Fresh seeds before and after.  [default: 200 for tiny, else 64]")
]
CheckpointEvery = Annotated[
    int | None, typer.Option(help="Steps between checkpoints.  [default: 100 for tiny, else 25]")
]
Device = Annotated[Literal["auto", "cpu"] | None, typer.Option(help="Where to compute.  [default: auto]")]
ReportTo = Annotated[list[str] | None, typer.Option(help="A tracker that TRL knows; may be given several times.")]
Traces = Annotated[
    bool | None,
    typer.Option(
        "--traces/--no-traces", help="Record the episodes in the folder; see openenv traces.  [default: traces]"
    ),
]
TracesSample = Annotated[
    float | None, typer.Option(help="Share of the episodes to record.  [default: 0.25 for tiny, else 1]")
]
OutputDir = Annotated[Path | None, typer.Option(help="Where the run's folder is made.  [default: runs]")]
Name = Annotated[str | None, typer.Option(help="Name of the run's folder.  [default: from the time]")]
ConfigFile = Annotated[Path | None, typer.Option("--config", help="A YAML file of settings; options win over it.")]
View = Annotated[bool, typer.Option("--view", help="Serve the page of the run while it trains; see openenv view.")]
ViewHost = Annotated[
    str | None, typer.Option(help="Address that the page listens on.  [default: 127.0.0.1, this machine only]")
]
ViewPort = Annotated[int | None, typer.Option(min=0, max=65535, help="Its port.  [default: a free one]")]
Resume = Annotated[
    Path | None, typer.Option(metavar="RUN", help="Go on with this folder's run; --steps makes it longer.")
]


def train(  # one parameter for each option
    environment: Environment = None,
    model: Model = None,
    tasks: Tasks = None,
    eval_tasks: EvalTasks = None,
    reset: ResetParameters = None,
    sft: Sft = None,
    sft_min_reward: SftMinReward = None,
    grpo: Grpo = None,
    steps: Steps = None,
    rollouts: Rollouts = None,
    group_size: GroupSize = None,
    micro_batch: MicroBatch = None,
    learning_rate: LearningRate = None,
    temperature: Temperature = None,
    max_turns: MaxTurns = None,
    max_action_tokens: MaxActionTokens = None,
    max_context: MaxContext = None,
    reward_components: RewardComponents = None,
    illegal_penalty: IllegalPenalty = None,
    fallback: Fallback = None,
    thinking: Thinking = None,
    step_timeout_s: StepTimeoutS = None,
    seed: Seed = None,
    eval_episodes: EvalEpisodes = None,
    checkpoint_every: CheckpointEvery = None,
    device: Device = None,
    report_to: ReportTo = None,
    traces: Traces = None,
    traces_sample: TracesSample = None,
    traces_leave_out: TracesLeaveOut = None,
    output_dir: OutputDir = None,
    name: Name = None,
    config: ConfigFile = None,
    resume: Resume = None,
    view: View = False,
    view_host: ViewHost = None,
    view_port: ViewPort = None,
) -> None:
    """Train a language model on an environment: on examples if you like, then with GRPO."""
    options = {option: value for option, value in locals().items() if option not in NO_SETTINGS}
    given = {option: value for option, value in options.items() if value not in (None, [])}
    if environment is not None:
        given["environment"] = played_environment(environment, "train")
    if reset:
        given["reset"] = read_reset(reset)
    if reward_components:
        given["reward_components"] = read_weights(reward_components, "--reward-component")
    page = _page(view_host, view_port, view=view)
    console = Console()
    _check_installed()
    try:
        if resume is None:
            settings = load_config(config, **given)
            for part in settings.parts.values():
                if part.environment != given.get("environment"):
                    read_target(part.environment, "train")
            check_names(settings)
            check_examples_named(settings)
            result = _run_module(console).train(settings, console, page=page)
        else:
            _check_alone(given, config)
            check_run(resume)
            result = _run_module(console).resume(resume, console, steps=steps, page=page)
    except TrainingInterruptedError as error:
        raise typer.Exit(error.exit_status) from error
    _show_result(result, console)


def _page(host: str | None, port: int | None, *, view: bool) -> PageAddress | None:
    if not view and (host is not None or port is not None):
        raise typer.BadParameter("--view-host and --view-port say where --view serves the page; add --view.")
    return PageAddress(host or PageAddress.host, port or PageAddress.port) if view else None


def _check_installed() -> None:
    missing = [package for package in REQUIRED if find_spec(package) is None]
    if missing:
        raise ConfigurationError(f'Training needs {", ".join(missing)}: pip install "openenv-core[train]"')


def _run_module(console: Console) -> ModuleType:
    with console.status("Loading torch, transformers and TRL"):
        return import_module("openenv.train.run.training")


def _check_alone(given: Mapping[str, Any], config: Path | None) -> None:
    others = [*(name for name in given if name != "steps"), *(["config"] if config else [])]
    if others:
        raise typer.BadParameter(
            f"--resume takes its settings from the run's config.yaml, but for --steps; leave out {others[0]!r}."
        )


def _show_result(result: "TrainResult", console: Console) -> None:
    config = result.folder.load_config()
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(_evaluated(result, config), style="bold")
    table.add_column("mean reward", justify="right")
    for player, score in result.scores.items():
        table.add_row(figure_name(player), f"{score.mean_reward:+.3f}")
    console.print()
    console.print(table)
    if config.sampled_temperature:
        said = "\ngreedy: always the most likely token; sampled: at temperature"
        console.print(f"{said} {config.sampled_temperature:g}", highlight=False)
    for warning in result.warnings:
        console.print(f"\nwarning     {warning}", style="yellow", highlight=False, soft_wrap=True, markup=False)
    lines = [
        "",
        f"trained     {result.steps} steps in {result.seconds:.0f} s",
        f"curve       {result.folder.curve}",
        f"report      {result.folder.report}",
        f"model       {result.folder.model}",
        f"checkpoints {result.folder.checkpoints}",
        *([f"traces      {result.folder.traces}"] if result.folder.traces.is_file() else []),
        "",
        "Next:",
        *(f"  {command}" for command in _next_commands(config, result.folder.config)),
    ]
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)


def _evaluated(result: "TrainResult", config: TrainConfig) -> str:
    """Return what the players were compared on."""
    named = [part.evaluated_tasks for part in config.parts.values()]
    if any(named):
        counts = sorted({score.episodes for score in result.scores.values()})
        return f"{counts[-1] if counts else 0} tasks of {', '.join(name or 'seeds' for name in named)}"
    return f"{config.eval_episodes} fresh seeds"


def _next_commands(config: TrainConfig, file: Path) -> list[str]:
    train = _again(config, file)
    if config.environments:
        return [train, *(f"openenv play {quote(own.environment)}" for own in config.environments.values())]
    environment = quote(config.environment)
    return [
        train,
        f"openenv play {environment}",
        "openenv list" if Path("my_env").exists() else "openenv init my_env",
    ]


def _again(config: TrainConfig, file: Path) -> str:
    """Return the command for the same run with the next seed."""
    seed = config.seed + 1
    plain = load_config(environment=config.environment, model=config.model, seed=config.seed)
    if not config.environments and config.model_copy(update={"name": None}) == plain:
        return f"openenv train {quote(config.environment)} --model {quote(config.model)} --seed {seed}"
    # The name is the settings' too, and no run overwrites another.
    stem = None if config.name is None else config.name.removesuffix(f"-seed-{config.seed}")
    name = "" if stem is None else f" --name {quote(f'{stem}-seed-{seed}')}"
    return f"openenv train --config {quote(str(file))}{name} --seed {seed}"
