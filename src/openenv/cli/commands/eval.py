"""``openenv eval``: mean reward and pass@k of a model or a player, with confidence intervals."""

import json
import re
from datetime import datetime
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from openenv.auto.target import Target, TargetKind
from openenv.cli.model_address import model_address
from openenv.cli.options import (
    AsJson,
    LLMPort,
    PlayedEnvironment,
    Sessions,
    TrustRemoteCode,
    episodes_option,
    folder_option,
)
from openenv.cli.play_settings import play_options, play_settings
from openenv.cli.setting_options import with_settings
from openenv.cli.targets import dataset_environment, played_environment, refusing
from openenv.core.exceptions import ConfigurationError
from openenv.train.checks import check_play

if TYPE_CHECKING:
    from openenv.records.evaluation import Comparison, Estimate, Evaluation, TaskResult
    from openenv.train.settings.play_settings import PlaySettings

SHOWN_TASKS = 10

SETTINGS = play_options(
    {
        "model": "name of a model at --llm-endpoint; or a run's folder, one of its checkpoints, a model's folder, or a "
        "model of the Hub",
        "tasks": "number of seeds, split of the environment's tasks, file of them, or REF?split=NAME of a dataset; "
        "default: as the run has it, else 100",
    },
)

Split = Annotated[
    str | None, episodes_option(metavar="NAME", help="Split of a dataset's environment.  [default: its first one]")
]
NumTasks = Annotated[int | None, episodes_option(min=1, help="Play only the first of these tasks.")]
Samples = Annotated[int, episodes_option(min=1, help="Attempts at each task.")]
PassAtK = Annotated[
    list[int] | None,
    typer.Option("--k", help="Number k of pass@k; may be given again.  [default: 1 and --samples]"),
]
SuccessReward = Annotated[float, typer.Option(help="Reward with which an attempt is a success.")]
Compare = Annotated[
    Path | None,
    folder_option(
        metavar="FOLDER", help="Folder of an earlier evaluation; its tasks that are solved or missed now are shown."
    ),
]
Output = Annotated[
    Path | None,
    folder_option(
        metavar="FOLDER",
        help="Folder for episodes and results; attempts that it has are not played again.  [default: new]",
    ),
]


@with_settings(SETTINGS)
def evaluate(
    settings: dict[str, Any],
    environment: PlayedEnvironment,
    split: Split = None,
    trust_remote_code: TrustRemoteCode = False,
    llm_port: LLMPort = None,
    num_tasks: NumTasks = None,
    samples: Samples = 1,
    k: PassAtK = None,
    success_reward: SuccessReward = 1.0,
    sessions: Sessions = 16,
    compare: Compare = None,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well a model or a player does: mean reward and pass@k over tasks, with 95% confidence intervals.

    For an environment that a dataset declares (hf://datasets/ORG/REPO/ENV@REVISION, FOLDER/ENV) --split has its tasks.
    """
    with refusing():
        kind = Target.of(environment).kind
    if kind is TargetKind.DATASET:
        environment, settings["tasks"] = dataset_environment(environment, split, trusted=trust_remote_code)
    elif split is not None:
        raise ConfigurationError(f"Expected --split with an environment of a dataset, got {environment}: use --tasks.")
    tasks = settings.get("tasks")
    if tasks is not None and tasks.isdecimal():
        num_tasks = min(int(settings.pop("tasks")), num_tasks or int(tasks))
    address = model_address(None, settings.get("llm_endpoint"), llm_port)
    played = play_settings(**{"environment": environment, **settings, "llm_endpoint": address})
    with refusing():
        check_play(played)
        compared = None
        if compare is not None:
            compared = import_module("openenv.train.evaluation.comparison").earlier_evaluation(compare)
    played = played.model_copy(update={"environment": played_environment(environment, "eval", played.base_url)})
    folder = output or _new_folder(played)
    console = Console(stderr=as_json)
    try:
        evaluation = import_module("openenv.train.evaluation.evaluating").evaluate(
            played,
            folder,
            num_tasks=num_tasks,
            samples=samples,
            ks=k or (),
            success_reward=success_reward,
            sessions=sessions,
            compared=compared,
            console=console,
        )
    except KeyboardInterrupt:
        console.print(f"Interrupted. To continue: the same command with --output {quote(str(folder))}", soft_wrap=True)
        raise
    if as_json:
        typer.echo((folder / "results.json").read_text("utf-8"))
    else:
        _show(evaluation, folder, console)


def _new_folder(settings: "PlaySettings") -> Path:
    label = f"{Path(settings.name).name}-{Path(settings.who).name}-{datetime.now():%Y%m%d-%H%M%S}"
    return Path("evals") / re.sub(r"[^\w.-]+", "-", label)


def _show(evaluation: "Evaluation", folder: Path, console: Console) -> None:
    attempts = f", {evaluation.samples} attempts at each" if evaluation.samples > 1 else ""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(f"{len(evaluation.tasks)} tasks{attempts}", style="bold")
    table.add_column("mean", justify="right")
    table.add_column("95% interval", justify="right")
    table.add_row(evaluation.reward_name, *_cells(evaluation.mean_reward, sign="+"))
    if evaluation.greedy is not None:
        table.add_row(evaluation.greedy.reward_name, *_cells(evaluation.greedy.mean_reward, sign="+"))
    for name, estimate in evaluation.reward_components.items():
        table.add_row(f"  {name}", *_cells(estimate, sign="+"), style="dim")
    for kind, name, estimate in [*evaluation.chance_rows(), *evaluation.legal_rows(), *evaluation.group_rows()]:
        table.add_row(name, *_cells(estimate, sign="+" if kind == "reward" else ""))
    table.add_row("actions", f"{evaluation.mean_length:.1f}", "")
    for row in _answer_rows(evaluation):
        table.add_row(*row)
    console.print(f"\n{evaluation.player} on {evaluation.environment}", highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    if evaluation.rule is not None:
        console.print(f"\nillegal answers: {evaluation.rule}", highlight=False, markup=False, soft_wrap=True)
    for warning in evaluation.warnings.values():
        console.print(f"warning: {warning}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    _show_tasks(evaluation, console)
    _show_failures(evaluation, console)
    if evaluation.comparison is not None:
        _show_comparison(evaluation.comparison, console)
    console.print(f"\nresults  {folder / 'results.json'}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"episodes {folder / 'episodes.jsonl'}", highlight=False, markup=False, soft_wrap=True)
    if (traces := folder / "traces.db").exists():
        console.print(f"traces   {traces}", highlight=False, markup=False, soft_wrap=True)


def _show_failures(evaluation: "Evaluation", console: Console) -> None:
    for kind, count in evaluation.failures.items():
        episodes = "1 episode, which counts" if count == 1 else f"{count} episodes, which count"
        console.print(f"{kind.capitalize()} in {episodes} for nothing.", style="yellow", highlight=False, markup=False)
    if evaluation.failures:
        first = f"The first time: {evaluation.first_failure}"
        console.print(first, style="yellow", highlight=False, markup=False)


def _show_comparison(comparison: "Comparison", console: Console) -> None:
    left_out = f"; {comparison.other} in only one of them" if comparison.other else ""
    lines = [
        f"\ncompared with {comparison.before}, {comparison.common} tasks in common{left_out}",
        f"reward     {_difference_text(comparison.reward_difference)}",
        f"solved     {len(comparison.fixed)} fixed, {len(comparison.regressed)} regressed; "
        f"by chance with probability {comparison.chance:.2g}",
        *(f"{name:<10} {before} before, {after} now" for name, (before, after) in comparison.settings.items()),
    ]
    for name, tasks in (("fixed", comparison.fixed), ("regressed", comparison.regressed)):
        lines += [f"{name:<10} {json.dumps(task, ensure_ascii=False):.80}" for task in tasks[:SHOWN_TASKS]]
        if len(tasks) > SHOWN_TASKS:
            lines.append(f"{name:<10} ... and {len(tasks) - SHOWN_TASKS} more, see results.json")
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _difference_text(difference: "Estimate | None") -> str:
    return "no task counts in both" if difference is None else " ".join(_cells(difference, sign="+"))


def _answer_rows(evaluation: "Evaluation") -> list[tuple[str, str, str]]:
    """Return the rows of illegal answers, and of each rarer kind that there is, with its share."""
    rows = [("illegal actions", f"{evaluation.illegal_actions:.2f}", "")]
    answers = evaluation.answers
    if answers is None:
        return rows
    if answers.illegal:
        share, legal = answers.share(answers.illegal), answers.episodes - answers.illegal_episodes
        rows = [
            ("illegal actions", f"{evaluation.illegal_actions:.2f}", f"{share:.0%} of answers"),
            ("episodes without one", f"{legal}", f"of {answers.episodes}"),
        ]
    rarer = [
        ("answers cut off", answers.cut, answers.share(answers.cut)),
        ("answers without a call", answers.without_call, answers.share(answers.without_call)),
        ("episodes without a call", answers.no_calls, answers.no_calls / answers.episodes),
    ]
    return [*rows, *((name, f"{share:.0%}", f"{count}") for name, count, share in rarer if count)]


def _cells(estimate: Any, sign: str = "") -> tuple[str, str]:
    mean = format(estimate.value, f"{sign}.3f")
    if estimate.low is None:
        return mean, "needs more than one task"
    return mean, f"{estimate.low:{sign}.3f} to {estimate.high:{sign}.3f}"


def _show_tasks(evaluation: "Evaluation", console: Console) -> None:
    """Show the tasks with the lowest rewards."""
    worst = sorted((task for task in evaluation.tasks if task.rewards), key=_mean_reward)[:SHOWN_TASKS]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("task" if len(worst) == len(evaluation.tasks) else f"the {len(worst)} worst tasks", style="bold")
    table.add_column("reward", justify="right")
    table.add_column("successes", justify="right")
    for task in worst:
        named = json.dumps(task.task, ensure_ascii=False)
        table.add_row(f"{named:.80}", f"{task.mean:+.3f}", f"{task.successes} of {len(task.rewards)}")
    console.print()
    console.print(table)


def _mean_reward(task: "TaskResult") -> float:
    return task.mean
