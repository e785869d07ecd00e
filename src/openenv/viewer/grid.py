"""Grid of tasks by runs: the rewards of each model, version or run of a server in each task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openenv.traces.episodes import Filter, Group
from openenv.traces.reading import TraceFile

_TASK = ("environment", "split", "index", "task_seed")
_MAX_CELLS = 5000
_MAX_COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Cell:
    """Episodes of one task in one run.

    Attributes:
        episodes: Number of episodes.
        failed: Number of those in which the environment failed.
        mean_reward: Mean of the others' rewards; ``None`` without any, as for the next two.
        min_reward: Lowest reward.
        max_reward: Highest reward.
    """

    episodes: int
    failed: int
    mean_reward: float | None
    min_reward: float | None
    max_reward: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """Task with its cells.

    Attributes:
        task: The task: ``environment``, ``split`` and ``index``, or ``seed`` where the task has no index; each may be
            ``None``.
        cells: A cell for each column; ``None`` where the task was not played.
    """

    task: Mapping[str, Any]
    cells: list[Cell | None]


@dataclass(frozen=True, slots=True)
class Grid:
    """Tasks by runs.

    Attributes:
        by: Name of the columns' values: ``model``, ``version``, ``run`` or ``ending``.
        columns: Values of the columns, those with the newest episodes last.
        rows: The tasks, those with the newest episodes first.
        complete: Whether all tasks and columns are there; otherwise those with the newest episodes.
    """

    by: str
    columns: Sequence[Any]
    rows: list[Row] = field(default_factory=list)
    complete: bool = True


def grid_of(traces: TraceFile, where: Filter, by: str) -> Grid:
    """Return the grid of the episodes that a filter lets through; ``by`` is a name of ``TraceFile.groups``.

    Raises:
        ConfigurationError: The file is damaged or locked.
    """
    groups = traces.groups(*_TASK, by, where=where, limit=_MAX_CELLS + 1)
    newest = list(dict.fromkeys(group.key[by] for group in groups[:_MAX_CELLS]))
    columns = newest[:_MAX_COLUMNS][::-1]
    positions = {value: position for position, value in enumerate(columns)}
    rows: dict[tuple[Any, ...], Row] = {}
    for group in groups[:_MAX_CELLS]:
        if group.key[by] in positions:
            row = rows.setdefault(tuple(group.key[name] for name in _TASK), _row_of(group, len(columns)))
            rewards = (group.mean_reward, group.min_reward, group.max_reward)
            row.cells[positions[group.key[by]]] = Cell(group.episodes, group.failed, *rewards)
    complete = len(groups) <= _MAX_CELLS and len(newest) <= _MAX_COLUMNS
    return Grid(by, columns, list(rows.values()), complete)


def _row_of(group: Group, columns: int) -> Row:
    key = group.key
    task = {"environment": key["environment"], "split": key["split"], "index": key["index"], "seed": key["task_seed"]}
    return Row(task, [None] * columns)
