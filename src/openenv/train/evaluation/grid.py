"""Grid of evaluations: several players in several environments, each an evaluation in a folder of its own."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.records.evaluation_grid import GridCell, write_grid
from openenv.train.evaluation.evaluating import evaluate
from openenv.train.settings.play_settings import PlaySettings

__all__ = ["evaluate_grid", "grid_cells"]


def grid_cells(settings: Sequence[PlaySettings]) -> list[GridCell]:
    """Return the cells of a grid, none of which is played yet, with the names of their folders.

    Raises:
        ConfigurationError: Two of them are the same player in the same environment.
    """
    cells: list[GridCell] = []
    for each in settings:
        cell = GridCell(each.name, each.who, re.sub(r"[^\w.-]+", "-", f"{each.name}-{each.who}").strip("-."))
        if any(cell.folder == other.folder for other in cells):
            raise ConfigurationError(
                f"{cell.player} on {cell.environment} would be evaluated twice in the folder {cell.folder}; name it "
                "once, or evaluate the two of them one by one."
            )
        cells.append(cell)
    return cells


def evaluate_grid(
    settings: Sequence[PlaySettings], output: Path, *, console: Console | None = None, **options: Any
) -> list[GridCell]:
    """Evaluate each of several players and environments, one after the other.

    A cell that fails has its error, and the others are played. The report is written after each of them, and a grid
    that was stopped continues with the same settings and the same folder.

    Args:
        settings: What is played in each cell.
        output: The folder of the grid, in which each evaluation has a folder of its own.
        console: Where progress is shown; by default the terminal.
        **options: Those of `evaluate`, for each cell: ``num_tasks``, ``samples``, ``ks``, ``success_reward``,
            ``sessions``.

    Returns:
        The cells with their evaluations or errors.

    Raises:
        ConfigurationError: Two cells are the same player in the same environment.

    Example::

        players = [PlaySettings(environment="catch", player=name) for name in ("random", "scripted")]
        for cell in evaluate_grid(players, Path("evals/catch"), num_tasks=50):
            print(cell.row)
    """
    console = console or Console()
    cells = grid_cells(settings)
    write_grid(output, cells)
    for number, played in enumerate(settings):
        cell = cells[number]
        title = f"{number + 1}/{len(cells)}  {cell.player} on {cell.environment}"
        console.print(title, highlight=False, markup=False, soft_wrap=True)
        try:
            evaluation = evaluate(played, output / cell.folder, console=console, **options)
            cells[number] = replace(cell, evaluation=evaluation)
        except OpenEnvError as error:
            cells[number] = replace(cell, problem=str(error))
            console.print(f"failed: {error}", style="red", highlight=False, markup=False, soft_wrap=True)
        write_grid(output, cells)
    return cells
