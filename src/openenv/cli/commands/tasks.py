"""``openenv tasks``: the splits of an environment's tasks, the tasks of a split, one task, and a file of them."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openenv.auto.dataset.opening import DatasetEnvironment, open_dataset
from openenv.auto.dataset.reference import split_of_tasks
from openenv.auto.discovery import find_environment
from openenv.auto.making import make
from openenv.auto.target import PACKAGED
from openenv.cli.options import AsJson, PlayedEnvironment
from openenv.cli.targets import read_target
from openenv.core.documents import draft_of
from openenv.core.exceptions import ConfigurationError
from openenv.core.tasks.task_set import task_set_of
from openenv.train.tasks.task_choice import named_tasks

Split = Annotated[
    str | None, typer.Option(metavar="NAME", help="Split whose tasks are listed; NAME?split=SPLIT of a dataset.")
]
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

    The columns of a task are shown where the environment has a TaskSet, and its class is on this machine. Splits of the
    datasets that its openenv.yaml names are NAME?split=SPLIT. A file that is written is for --tasks of `openenv eval`,
    `collect` and `train`, as are the names of splits.
    """
    if index is not None and split is None:
        raise ConfigurationError("Expected --split with --index: a task is the one at an index of a split.")
    if output is not None and (output.suffix != ".jsonl" or not output.absolute().parent.is_dir()):
        raise ConfigurationError(
            f"Expected --output as a file that ends in .jsonl, in a folder that is there: {output}."
        )
    with redirect_stdout(sys.stderr):  # environments print while they are imported
        target = read_target(environment, "tasks")
        package = find_environment(target) if target.kind in PACKAGED else None
        task_set = None if package is None else task_set_of(package.environment_class())
        if task_set is not None:
            task_set.read()  # so that a fault is shown without the log of a server that it ends
    task_sets = {} if package is None else package.task_sets
    rows = None if split is None else _dataset_of(split, task_sets)
    if index is not None and task_set is not None and rows is None:
        ref = task_set.choose_task(split, index, None)
        _print_json({"key": task_set.key(ref.split, ref.index), **task_set.arguments(ref)})
        return
    with make(target).sync() as client:
        if index is not None:
            schema = None if rows is None else client.schemas().get("reset")
            _print_json(client.task(split, index) if rows is None else rows[0].arguments(rows[1], index, schema))
            return
        counts = _counts(environment, client, task_sets) if split is None else {split: None}
        if output is not None:
            listed: Sequence[Mapping[str, Any]] = [task for each in counts for task in _listed(client, each, task_sets)]
        else:
            listed = [] if split is None else _listed(client, split, task_sets, limit)
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


def _dataset_of(split: str, task_sets: Mapping[str, str]) -> tuple[DatasetEnvironment, str] | None:
    """Return the dataset's environment of ``NAME?split=SPLIT``, and its split; ``None`` for the environment's own."""
    found = split_of_tasks(split)
    return None if found is None else (open_dataset(task_sets.get(found[0], found[0])), found[1])


def _listed(
    client: Any, split: str, task_sets: Mapping[str, str], limit: int | None = None
) -> Sequence[Mapping[str, Any]]:
    """Return what a reset is passed for the tasks of a split, at most so many."""
    if split_of_tasks(split) is not None:
        return named_tasks(split, client, task_sets)[:limit]
    listed: Sequence[Mapping[str, Any]] = client.tasks(split) if limit is None else client.task_range(split, 0, limit)
    return listed


def _counts(environment: str, client: Any, task_sets: Mapping[str, str]) -> dict[str, int | None]:
    """Count the tasks of each split; ``None`` for those that are not counted."""
    counts: dict[str, int | None] = {}
    for split in client.splits():
        try:
            counts[split] = client.num_tasks(split)
        except NotImplementedError:
            counts[split] = None
    for name, reference in task_sets.items():
        opened = open_dataset(reference)
        counts |= {f"{name}?split={split}": opened.tasks.num_tasks(split) for split in opened.splits()}
    if not counts:
        raise ConfigurationError(f"{environment} lists no tasks: each seed is one. See --tasks of `openenv eval`.")
    return counts


def _count_text(count: int | None) -> str:
    return "not counted" if count is None else str(count)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _print(value: Any, rows: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
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
