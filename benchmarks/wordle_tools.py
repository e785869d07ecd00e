"""``python -m benchmarks.wordle_tools``: ``examples/wordle.py`` with several seeds in both of TRL's ways, as a picture.

Runs that were measured before, in the same folder, are not run again.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
WAYS = {"environment_factory": "#2457d6", "rollout_func": "#b4541a"}
LINES = ("-", "--", ":", "-.")
MEAN_OF = 10
WON = "rewards/correct/mean"


class Run:
    """The metrics of one run.

    Args:
        file: Where ``examples/wordle.py --metrics`` has written them.

    Attributes:
        won: The share of games won in each optimiser step.
        before: The share in the evaluation before GRPO.
        after: The share in the evaluation after it.
    """

    def __init__(self, file: Path) -> None:
        entries = json.loads(file.read_text(encoding="utf-8"))
        self.won = [entry[WON] for entry in entries if WON in entry]
        evaluations = [entry[f"eval_{WON}"] for entry in entries if f"eval_{WON}" in entry]
        self.before, self.after = evaluations[0], evaluations[-1]


def measured(way: str, seed: int, folder: Path, more: Sequence[str]) -> Run:
    """Run the example, unless its metrics are there."""
    file = folder / f"{way}-{seed}.json"
    if not file.exists():
        command = [sys.executable, str(ROOT / "examples" / "wordle.py"), "--way", way, "--seed", str(seed)]
        subprocess.run([*command, "--metrics", str(file), *more], check=True)
    return Run(file)


def main(
    more: Annotated[list[str] | None, typer.Argument(help="Further options of the example, after --.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 1 on.")] = 3,
    folder: Annotated[Path, typer.Option(help="Where the metrics are written.")] = ROOT / ".cache" / "wordle-tools",
    picture: Annotated[Path, typer.Option(help="The picture.")] = ROOT / "docs" / "_static" / "wordle-tools.png",
) -> None:
    """Measure, print a table and draw the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(1, seeds + 1)
    runs = {way: [measured(way, seed, folder, more or ()) for seed in numbers] for way in WAYS}
    table = Table("way", *(f"seed {seed}" for seed in numbers), "mean")
    for way, each in runs.items():
        mean = [sum(run.before for run in each) / seeds, sum(run.after for run in each) / seeds]
        table.add_row(way, *(_change(run.before, run.after) for run in each), _change(*mean))
    Console().print(table)
    _draw(runs).savefig(picture)


def _change(before: float, after: float) -> str:
    return f"{before:.2f} → {after:.2f}"


def _draw(runs: dict[str, list[Run]]) -> Figure:
    figure = Figure(figsize=(9, 4.6), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (way, each) in zip(figure.subplots(1, len(runs), sharey=True), runs.items(), strict=True):
        _draw_way(axes, way, each)
    figure.suptitle("Wordle by tool calls: games won during GRPO", x=0.01, ha="left", fontweight="bold")
    return figure


def _draw_way(axes: Axes, way: str, runs: Sequence[Run]) -> None:
    for number, run in enumerate(runs):
        steps = range(1, len(run.won) + 1)
        axes.plot(steps, _means(run.won), LINES[number % len(LINES)], color=WAYS[way], label=f"seed {number + 1}")
        axes.plot([0, len(run.won)], [run.before, run.after], "o", color=WAYS[way], markerfacecolor="white", zorder=3)
    axes.set_title(way, loc="left")
    axes.set_xlabel("optimiser step")
    axes.set_ylabel("games won (mean of ten steps; dots: evaluation)")
    axes.label_outer()
    axes.set_ylim(0, 1)
    axes.grid(color="#e4e7ee")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False)


def _means(values: Sequence[float]) -> list[float]:
    windows = (values[max(0, end - MEAN_OF) : end] for end in range(1, len(values) + 1))
    return [sum(window) / len(window) for window in windows]


if __name__ == "__main__":
    typer.run(main)
