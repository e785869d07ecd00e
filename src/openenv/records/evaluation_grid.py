"""Folder of a grid of evaluations: players by environments, one evaluation in each cell, and their report."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from pydantic import TypeAdapter, ValidationError

from openenv.core.documents import draft_of, read_json, write_json
from openenv.core.exceptions import ConfigurationError
from openenv.records.evaluation import Evaluation, read_evaluation

__all__ = ["COLUMNS", "GridCell", "read_grid", "write_grid"]

COLUMNS = ("environment", "player", "tasks", "reward", "pass@1", "actions", "price, $", "note")
"""Columns of the table of a grid."""

_GRID, _MARKDOWN, _PAGE = "grid.json", "report.md", "report.html"
_TEMPLATE = Path(__file__).with_name("evaluation_grid.html")


@dataclass(frozen=True)
class GridCell:
    """One player in one environment.

    Attributes:
        environment: Name of the environment.
        player: Player, in words.
        folder: Name of the evaluation's folder in that of the grid.
        problem: Error that ended the evaluation; ``None`` without one.
        evaluation: Results; ``None`` where there are none yet.
    """

    environment: str
    player: str
    folder: str
    problem: str | None = None
    evaluation: Evaluation | None = None

    @property
    def row(self) -> dict[str, str]:
        """The texts of its row in the table, by `COLUMNS`; empty where there is nothing to show."""
        row = dict.fromkeys(COLUMNS, "") | {"environment": self.environment, "player": self.player}
        found = self.evaluation
        if found is None:
            return row | {"note": "not played yet" if self.problem is None else f"failed: {self.problem}"}
        price = None if found.spending is None else found.spending.price_usd
        return row | {
            "tasks": str(len(found.tasks)),
            "reward": found.mean_reward.text("+"),
            "pass@1": str(found.pass_at.get(1, "")),
            "actions": f"{found.mean_length:.1f}",
            "price, $": "" if price is None else f"{price:,.4f}",
            "note": _note(found),
        }


_CELLS = TypeAdapter(list[GridCell])


def write_grid(folder: Path, cells: Sequence[GridCell]) -> None:
    """Write ``grid.json``, ``report.md`` and ``report.html`` of a grid, each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / _GRID, list(map(_named, cells)))
    for name, text in ((_MARKDOWN, _markdown(cells)), (_PAGE, _page(cells))):
        with draft_of(folder / name) as draft:
            draft.write_text(text, "utf-8")


def read_grid(folder: Path) -> list[GridCell]:
    """Read the cells of a grid with the results that there are.

    Raises:
        ConfigurationError: The folder has no grid, or it can't be read.
    """
    file = folder / _GRID
    try:
        cells = _CELLS.validate_python(read_json(file))
    except ValidationError as error:
        raise ConfigurationError(f"{file}: expected the cells of a grid of openenv eval: {error}.") from error
    return [
        GridCell(each.environment, each.player, each.folder, each.problem, read_evaluation(folder / each.folder)[0])
        for each in cells
    ]


def _named(cell: GridCell) -> dict[str, str]:
    """Return a cell without its evaluation, which its own folder has."""
    problem = {} if cell.problem is None else {"problem": cell.problem}
    return {"environment": cell.environment, "player": cell.player, "folder": cell.folder, **problem}


def _note(evaluation: Evaluation) -> str:
    failed = [f"{evaluation.failed} failed"] if evaluation.failed else []
    return ", ".join([*failed, *(f"{count} ended by {name}" for name, count in evaluation.limits.items())])


def _title(cells: Sequence[GridCell]) -> str:
    players, environments = ({getattr(each, name) for each in cells} for name in ("player", "environment"))
    return f"Evaluation of {_counted(len(players), 'player')} in {_counted(len(environments), 'environment')}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _markdown(cells: Sequence[GridCell]) -> str:
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(tuple(each.row.values()) for each in cells)]
    lines = ["| " + " | ".join(_one_line(value).replace("|", "\\|") for value in row) + " |" for row in rows]
    warned = [
        f"\n## {each.player} on {each.environment}\n\nFolder: `{each.folder}`\n\n"
        + "".join(f"- {_one_line(text)}\n" for text in _warnings(each))
        for each in cells
    ]
    table = "\n".join(lines)
    return f"# {_title(cells)}\n\nMeans over tasks, with 95% intervals.\n\n{table}\n{''.join(warned)}"


def _page(cells: Sequence[GridCell]) -> str:
    head = "".join(f"<th>{html.escape(name)}" for name in COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(value)}" for value in each.row.values()) + "</tr>" for each in cells
    )
    warned = "".join(
        f"<h2>{html.escape(f'{each.player} on {each.environment}')}</h2><p>Folder: <code>{html.escape(each.folder)}"
        f"</code></p><ul>{''.join(f'<li>{html.escape(text)}</li>' for text in _warnings(each))}</ul>"
        for each in cells
    )
    parts = {"title": html.escape(_title(cells)), "head": head, "rows": rows, "warned": warned}
    return Template(_TEMPLATE.read_text("utf-8")).substitute(parts)


def _warnings(cell: GridCell) -> list[str]:
    return [] if cell.evaluation is None else list(cell.evaluation.warnings.values())


def _one_line(text: str) -> str:
    return " ".join(text.split())
