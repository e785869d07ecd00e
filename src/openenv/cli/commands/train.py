"""``openenv train``: examples, then GRPO on an environment, from a command line, a YAML file, or both."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from openenv.cli.options import PLAYED_TEXT, environment_argument
from openenv.cli.setting_options import options_of, with_settings
from openenv.cli.targets import played_environment, read_target, refusing
from openenv.records.run_times import RunTimes
from openenv.records.scores import AFTER, BEFORE, figure_name, side_by_side
from openenv.train.checks import check_resumed, check_training
from openenv.train.run.interruption import TrainingInterruptedError
from openenv.train.settings.config import TrainConfig, described_settings, load_config
from openenv.viewer.run_page import PageAddress

if TYPE_CHECKING:
    from openenv.records.run_folder import RunFolder
    from openenv.train.run.training import TrainResult

page_option = partial(typer.Option, rich_help_panel="Page")


@with_settings(options_of(TrainConfig, described_settings()))
def train(
    settings: dict[str, Any],
    environment: Annotated[str | None, environment_argument(PLAYED_TEXT)] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML file of settings; options win over it.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Folder of a run to continue; --steps makes it longer.")
    ] = None,
    view: Annotated[
        bool, page_option("--view", help="Serve the page of the run while it trains; see openenv view.")
    ] = False,
    view_host: Annotated[
        str | None,
        page_option(
            metavar="ADDRESS", help="Address that the page listens on.  [default: 127.0.0.1, this machine only]"
        ),
    ] = None,
    view_port: Annotated[
        int | None, page_option(min=0, max=65535, help="Port that the page listens on.  [default: a free one]")
    ] = None,
) -> None:
    """Train a language model on an environment: on examples if you like, then with GRPO."""
    given = dict(settings)
    if environment is not None:
        given["environment"] = played_environment(environment, "train")
    page = _page(view_host, view_port, view=view)
    console = Console()
    try:
        if resume is None:
            run_config = load_config(config, **given)
            for part in run_config.parts.values():
                if part.environment != given.get("environment"):
                    read_target(part.environment, "train")
            with refusing():
                check_training(run_config)
            result = _run_module(console).train(run_config, console, page=page)
        else:
            _check_alone(given, config)
            with refusing():
                check_resumed(resume)
            result = _run_module(console).resume(resume, console, steps=settings.get("steps"), page=page)
    except TrainingInterruptedError as error:
        raise typer.Exit(error.exit_status) from error
    _show_result(result, console)


def _page(host: str | None, port: int | None, *, view: bool) -> PageAddress | None:
    if not view and (host is not None or port is not None):
        raise typer.BadParameter("--view-host and --view-port are the address of the page of --view; add --view.")
    return PageAddress(host or PageAddress.host, port or PageAddress.port) if view else None


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
    config = load_config(result.folder.config)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(_evaluated(result, config), style="bold")
    table.add_column("mean reward", justify="right")
    table.add_column("legal answers", justify="right")
    for player, score in result.scores.items():
        table.add_row(figure_name(player), f"{score.mean_reward:+.3f}", score.legal)
    console.print()
    console.print(table)
    if config.sampled_temperature:
        legend = "\ngreedy: always the most likely token; sampled: at temperature"
        console.print(f"{legend} {config.sampled_temperature:g}", highlight=False)
    _show_answers(result, config, console)
    for warning in result.warnings:
        console.print(f"\nwarning     {warning}", style="yellow", highlight=False, soft_wrap=True, markup=False)
    lines = [
        "",
        f"trained     {result.steps} steps in {result.seconds:.0f} s",
        *_time_lines(result.folder.run_times()),
        f"curve       {result.folder.curve}",
        f"report      {result.folder.report}",
        f"model       {result.folder.model}",
        *_best_lines(result.folder),
        f"checkpoints {result.folder.checkpoints}",
        *([f"traces      {result.folder.traces}"] if result.folder.traces.is_file() else []),
        "",
        "Next:",
        *(f"  {command}" for command in _next_commands(config, result.folder)),
    ]
    console.print("\n".join(lines), highlight=False, soft_wrap=True, markup=False)


def _time_lines(times: RunTimes) -> list[str]:
    """Return what the time of the run went to, with that of starts before, as lines."""
    shares = ", ".join(f"{activity} {share:.0%}" for activity, share in times.shares.items())
    return [f"time        {times.total:.0f} s: {shares}", *([f"speed       {times.speeds}"] if times.speeds else [])]


def _best_lines(folder: "RunFolder") -> list[str]:
    """Return the line of the best model in evaluations in training; none without any."""
    best = folder.best_model()
    if best is None:
        return []
    reward = folder.best_reward()
    figure = "" if reward is None else f", mean reward {reward:+.3f} in an evaluation in training, greedy"
    return [f"best        {best}{figure}"]


def _show_answers(result: "TrainResult", config: TrainConfig, console: Console) -> None:
    """Show what a pretrained model answered before and after, to the same tasks; the tiny policy knows few words."""
    if config.is_tiny or not {BEFORE, AFTER} <= result.scores.keys():
        return
    table = Table(title="The same tasks before and after, greedy", title_justify="left", show_lines=True)
    for name in ("shown first", "answers before", "reward", "answers after", "reward"):
        table.add_column(name, overflow="fold")
    for shown, first, reward, second, later in side_by_side(result.scores[BEFORE], result.scores[AFTER]):
        table.add_row(*map(escape, (shown, first, f"{reward:+.2f}", second, f"{later:+.2f}")))
    console.print()
    console.print(table)


def _evaluated(result: "TrainResult", config: TrainConfig) -> str:
    """Return the tasks on which the players were compared, as text."""
    named = [part.evaluated_tasks for part in config.parts.values()]
    if any(named):
        counts = sorted({score.episodes for score in result.scores.values()})
        return f"{counts[-1] if counts else 0} tasks of {', '.join(name or 'seeds' for name in named)}"
    return f"{config.eval_episodes} fresh seeds"


def _next_commands(config: TrainConfig, folder: "RunFolder") -> list[str]:
    first = [f"openenv view {quote(str(folder.path))}", _again(config, folder.config)]
    if config.environments:
        return [*first, *(f"openenv play {quote(each.environment)}" for each in config.environments.values())]
    environment = quote(config.environment)
    return [
        *first,
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
