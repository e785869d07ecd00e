"""``openenv tasks``: the splits of an environment's tasks, the tasks of a split, one task, and a file of them."""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openenv.auto.discovery import find_environment
from openenv.auto.making import make
from openenv.auto.target import PACKAGED
from openenv.cli.options import AsJson, PlayedEnvironment
from openenv.cli.targets import read_target
from openenv.core.documents import draft_of
from openenv.core.exceptions import ConfigurationError
from openenv.core.tasks.task_set import task_set_of

Split = Annotated[str | None, typer.Option(metavar="NAME", help="Split whose tasks are listed.")]
Index = Annotated[int | None, typer.Option(min=0, help="Task of the split that is shown with all its columns.")]
Limit = Annotated[int, typer.Option(min=1, help="Tasks at most that are listed.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="JSON Lines to write all tasks into, of the split or of all splits."
    ),
]


def tasks(
    environment: PlayedEnvironment = ".",
    split: Split = None,
    index: Index = None,
    limit: Limit = 20,
    output: Output = None,
    as_json: AsJson = False,
) -> None:
    """List the splits of an environment's tasks, and with --split the tasks: what a reset is passed for each.

    The columns of a task are shown where the environment has a TaskSet, and its class is on this machine. A file that
    is written is for --tasks of `openenv eval`, `collect` and `train`.
    """
    if index is not None and split is None:
        raise ConfigurationError("Expected --split with --index: a task is the one at an index of a split.")
    with redirect_stdout(sys.stderr):  # environments print while they are imported
        target = read_target(environment, "tasks")
        task_set = task_set_of(find_environment(target).environment_class()) if target.kind in PACKAGED else None
    if index is not None and task_set is not None:
        ref = task_set.choose_task(split, index, None)
        _print_json({"key": task_set.key(ref.split, ref.index), **task_set.arguments(ref)})
        return
    with make(target).sync() as client:
        if index is not None:
            _print_json(client.task(split, index))
            return
        counts = _counts(environment, client) if split is None else {split: None}
        if output is not None:
            listed = [task for each in counts for task in client.tasks(each)]
        else:
            listed = [] if split is None else client.task_range(split, 0, limit)
    if output is not None:
        with draft_of(output) as draft:
            draft.write_text("".join(json.dumps(task, ensure_ascii=False) + "\n" for task in listed), encoding="utf-8")
        typer.echo(f"{len(listed)} tasks written to {output}")
    elif split is None:
        _print(
            counts, [{"split": each, "tasks": _count_text(count)} for each, count in counts.items()], as_json=as_json
        )
    else:
        _print(listed, listed, as_json=as_json)


def _counts(environment: str, client: Any) -> dict[str, int | None]:
    """Count the tasks of each split; ``None`` for those that are not counted."""
    counts: dict[str, int | None] = {}
    for split in client.splits():
        try:
            counts[split] = client.num_tasks(split)
        except NotImplementedError:
            counts[split] = None
    if not counts:
        raise ConfigurationError(f"{environment} lists no tasks: each seed is one. See --tasks of `openenv eval`.")
    return counts


def _count_text(count: int | None) -> str:
    return "not counted" if count is None else str(count)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _print(value: Any, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        _print_json(value)
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if row.get(name) is None else str(row[name])) for name in columns))
    Console(highlight=False).print(table)
