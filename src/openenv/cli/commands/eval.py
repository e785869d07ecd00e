"""``openenv eval``: mean reward and pass@k of a model or a player, with confidence intervals."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from openenv.auto.target import Target, TargetKind
from openenv.cli.model_address import model_address
from openenv.cli.options import (
    AsJson,
    LLMPort,
    PlayedEnvironments,
    Sessions,
    TrustRemoteCode,
    episodes_option,
    folder_option,
    player_option,
)
from openenv.cli.play_settings import play_options, play_settings
from openenv.cli.setting_options import with_settings
from openenv.cli.targets import dataset_environment, played_environment, refusing
from openenv.core.exceptions import ConfigurationError
from openenv.core.reset_check import listed_task
from openenv.records.failures import failures_text
from openenv.train.checks import check_play

if TYPE_CHECKING:
    from openenv.records.evaluation import Comparison, Estimate, Evaluation, TaskResult
    from openenv.records.evaluation_grid import GridCell
    from openenv.train.settings.play_settings import PlaySettings

SHOWN_TASKS = 10
_SHOWN_OF_GRID = ("environment", "player", "reward", "pass@1", "price, $")


class PlayerName(StrEnum):
    """Player without a model."""

    SCRIPTED = "scripted"
    RANDOM = "random"


Players = Annotated[
    list[PlayerName] | None,
    player_option(
        "--player",
        help="Player without a model: the one that the environment brings along, or a random one; may be given "
        "again.  [default: scripted, without a model]",
    ),
]
Models = Annotated[
    list[str] | None,
    player_option(
        "--model",
        help="Name of a model at --llm-endpoint; or a run's folder, one of its checkpoints, a model's folder, or a "
        "model of the Hub; may be given again.",
    ),
]
_REPEATED = ("player", "model")
SETTINGS = [
    option
    for option in play_options(
        {
            "tasks": "number of seeds, split of the environment's tasks, file of them, or REF?split=NAME of a dataset; "
            "default: as the run has it, else 100",
        },
    )
    if option.field not in _REPEATED
]

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
    environments: PlayedEnvironments,
    players: Players = None,
    models: Models = None,
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

    Several environments, models and players are a grid: each of them in each environment, in a folder of its own.
    For an environment that a dataset declares (hf://datasets/ORG/REPO/ENV@REVISION, FOLDER/ENV) --split has its tasks.
    """
    tasks = settings.get("tasks")
    if tasks is not None and tasks.isdecimal():
        num_tasks = min(int(settings.pop("tasks")), num_tasks or int(tasks))
    with_tasks = [_with_tasks(name, split, settings, trusted=trust_remote_code) for name in environments]
    played = _played(
        with_tasks, players or (), models or (), model_address(None, settings.get("llm_endpoint"), llm_port)
    )
    options = {
        "num_tasks": num_tasks,
        "samples": samples,
        "ks": k or (),
        "success_reward": success_reward,
        "sessions": sessions,
    }
    console = Console(stderr=as_json)
    folder = output or _new_folder(played)
    try:
        if len(played) == 1:
            _evaluate_one(played[0], folder, compare, options, console, as_json=as_json)
        elif compare is None:
            _evaluate_all(played, folder, options, console, as_json=as_json)
        else:
            raise ConfigurationError(f"--compare is for one evaluation, and there are {len(played)}; leave it out.")
    except KeyboardInterrupt:
        console.print(f"Interrupted. To continue: the same command with --output {quote(str(folder))}", soft_wrap=True)
        raise


def _with_tasks(environment: str, split: str | None, settings: Mapping[str, Any], *, trusted: bool) -> dict[str, Any]:
    """Return the settings for an environment; those of a dataset's environment have what runs it, and its tasks."""
    with refusing():
        kind = Target.of(environment).kind
    if kind is TargetKind.DATASET:
        runs, tasks = dataset_environment(environment, split, trusted=trusted, base_url=settings.get("base_url"))
        return {**settings, "environment": runs, "tasks": tasks}
    if split is not None:
        raise ConfigurationError(f"Expected --split with an environment of a dataset, got {environment}: use --tasks.")
    return {"environment": environment, **settings}


def _played(
    environments: Sequence[Mapping[str, Any]], players: Sequence[PlayerName], models: Sequence[str], address: str | None
) -> list["PlaySettings"]:
    """Return the settings of each player in each environment, all of them checked before the first one plays."""
    base_url = environments[0].get("base_url")
    if len(environments) > 1 and base_url is not None:
        raise ConfigurationError("--base-url is the address of one environment's server, and there are several.")
    agents: list[dict[str, Any]] = [{"model": model, "llm_endpoint": address} for model in models]
    agents += [{"player": player.value, "llm_endpoint": None if models else address} for player in players]
    agents = agents or [{"llm_endpoint": address}]
    played = [play_settings(**{**settings, **agent}) for settings in environments for agent in agents]
    with refusing():
        for each in played:
            check_play(each)
    targets = {name: played_environment(name, "eval", base_url) for name in {each.environment for each in played}}
    return [each.model_copy(update={"environment": targets[each.environment]}) for each in played]


def _evaluate_one(
    played: "PlaySettings",
    folder: Path,
    compare: Path | None,
    options: Mapping[str, Any],
    console: Console,
    *,
    as_json: bool,
) -> None:
    compared = None
    if compare is not None:
        with refusing():
            compared = import_module("openenv.train.evaluation.comparison").earlier_evaluation(compare)
    evaluate_in = import_module("openenv.train.evaluation.evaluating").evaluate
    evaluation = evaluate_in(played, folder, compared=compared, console=console, **options)
    if as_json:
        typer.echo((folder / "results.json").read_text("utf-8"))
    else:
        _show(evaluation, folder, console)


def _evaluate_all(
    played: Sequence["PlaySettings"], folder: Path, options: Mapping[str, Any], console: Console, *, as_json: bool
) -> None:
    """Evaluate a grid, and end with status 1 if one of its cells failed."""
    evaluate_grid = import_module("openenv.train.evaluation.grid").evaluate_grid
    cells = evaluate_grid(played, folder, console=console, **options)
    if as_json:
        typer.echo((folder / "grid.json").read_text("utf-8"))
    else:
        _show_grid(cells, folder, console)
    if any(cell.problem is not None for cell in cells):
        raise typer.Exit(1)


def _show_grid(cells: Sequence["GridCell"], folder: Path, console: Console) -> None:
    rows = [cell.row for cell in cells]
    shown = [name for name in _SHOWN_OF_GRID if any(row[name] for row in rows)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in shown:
        table.add_column(name, style="bold" if name == "environment" else None)
    for row in rows:
        table.add_row(*(escape(row[name]) for name in shown))
    console.print()
    console.print(table)
    lines = [f"{row['player']} on {row['environment']}: {row['note']}" for row in rows if row["note"]]
    for line in ["", *lines, f"report {folder / 'report.md'}", f"page   {folder / 'report.html'}"]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _new_folder(played: Sequence["PlaySettings"]) -> Path:
    who = Path(played[0].who).name if len(played) == 1 else "grid"
    label = f"{Path(played[0].name).name}-{who}-{datetime.now():%Y%m%d-%H%M%S}"
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
    for row in [*_answer_rows(evaluation), *_limit_rows(evaluation), *_spending_rows(evaluation)]:
        table.add_row(*row)
    console.print(f"\n{evaluation.player} on {evaluation.environment}", highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    for name, usage in evaluation.participants.items():
        console.print(f"\n{name}: {usage}", highlight=False, markup=False, soft_wrap=True)
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
    if evaluation.failures:
        count = evaluation.failed
        failed = "1 episode failed and counts" if count == 1 else f"{count} episodes failed and count"
        kinds = failures_text(evaluation.failures)
        console.print(f"{failed} for nothing: {kinds}.", style="yellow", highlight=False, markup=False, soft_wrap=True)
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
        lines += [f"{name:<10} {_task_text(task)}" for task in tasks[:SHOWN_TASKS]]
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


def _limit_rows(evaluation: "Evaluation") -> list[tuple[str, str, str]]:
    """Return a row for each limit that has ended episodes."""
    return [(f"ended by {name}", f"{count}", f"of {evaluation.episodes}") for name, count in evaluation.limits.items()]


def _spending_rows(evaluation: "Evaluation") -> list[tuple[str, str, str]]:
    """Return rows of the tokens, the time and the price of an episode and of all, as far as they are known."""
    spending = evaluation.spending
    if spending is None:
        return []
    rows = []
    for name, total in (("tokens read", spending.input_tokens), ("tokens written", spending.output_tokens)):
        if total is not None:
            rows.append((name, f"{total / spending.episodes:,.1f}", f"{total:,} in all"))
    if spending.seconds is not None:
        rows.append(("seconds", f"{spending.seconds / spending.episodes:,.2f}", f"{spending.seconds:,.1f} in all"))
        if spending.cpu_s is not None:
            rows.append(("CPU seconds", f"{spending.cpu_s / spending.episodes:,.3f}", f"{spending.cpu_s:,.2f} in all"))
        if spending.price_usd is None:
            rows.append(("price, $", "not known", ""))
    if spending.price_usd is not None:
        rows.append(("price, $", f"{spending.price_of_one:,.6f}", f"{spending.price_usd:,.4f} in all"))
    return rows


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
        table.add_row(_task_text(task.task), f"{task.mean:+.3f}", f"{task.successes} of {len(task.rewards)}")
    console.print()
    console.print(table)


def _task_text(task: Mapping[str, Any]) -> str:
    """Return the beginning of a task; of one that the environment lists, what finds it in `openenv tasks`."""
    shown = {name: task[name] for name in ("split", "index", "id") if name in task} if listed_task(task) else task
    return f"{json.dumps(shown, ensure_ascii=False):.80}"


def _mean_reward(task: "TaskResult") -> float:
    return task.mean
