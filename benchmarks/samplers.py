"""``python -m benchmarks.samplers``: a tiny policy learns tasks from trivial to impossible, by two samplers.

The tasks are doors, of which four in ten are opened by any of eight keys, two by one of them, and four by none; no
door says anything of another. Either sampler trains the same policy with the same settings; by a warm-up it knows what
is a key. The episodes and tokens of training are counted until the policy, evaluated greedily on all doors that can be
opened, opens all but one. Runs that were measured before, in the same folder, are not run again.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from openenv.train.evaluation.intervals import mean_estimate

Curve = list[dict[str, float]]
"""The counts of a sampler, and the mean reward, of each evaluation during a training."""

ROOT = Path(__file__).parents[1]
KINDS = {"uniform": "#b4541a", "curriculum": "#2457d6"}
LINES: tuple[Any, ...] = ("-", "--", "-.", (0, (5, 1)), (0, (1, 1)))
LOWEST = 0.65
"""Lower end of the picture: two thirds of the doors that can be opened are opened by any key."""
REACHED = 0.97
"""Mean reward that ends a training: all doors that can be opened but one are."""
COUNTS = {"episodes": "episodes of training", "cost": "tokens written", "signal_groups": "groups with a signal"}


def measured(kind: str, seed: int, steps: int, folder: Path) -> Curve:
    """Train with a sampler, unless its curve is there, and return the curve."""
    file = folder / f"{kind}-{seed}.json"
    if not file.exists():
        command = [sys.executable, "-m", "benchmarks.programs.train_locks", kind, str(file)]
        subprocess.run([*command, "--seed", str(seed), "--steps", str(steps)], check=True, cwd=ROOT)
    curve: Curve = json.loads(file.read_text(encoding="utf-8"))
    return curve


def main(
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 1 on.")] = 5,
    steps: Annotated[int, typer.Option(min=5, help="Optimiser steps of a run at most.")] = 1000,
    folder: Annotated[Path, typer.Option(help="Where the curves are written.")] = ROOT / ".cache" / "samplers",
    picture: Annotated[Path, typer.Option(help="The picture.")] = ROOT / "docs" / "_static" / "samplers.png",
) -> None:
    """Measure, print a table and draw the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(width=120)
    curves: dict[str, list[Curve]] = {kind: [] for kind in KINDS}
    for seed in range(1, seeds + 1):
        for kind, own in curves.items():
            own.append(measured(kind, seed, steps, folder))
            console.print(f"seed {seed}, {kind}: {_shown(own[-1])}", highlight=False)
    console.print(_table(curves))
    _draw(curves).savefig(picture)


def _shown(curve: Curve) -> str:
    last = curve[-1]
    end = "" if last["reward"] >= REACHED else f", below {REACHED}, so that more were needed"
    return f"mean reward {last['reward']:.2f} after {last['episodes']:,.0f} episodes, {last['cost']:,.0f} tokens{end}"


def _table(curves: dict[str, list[Curve]]) -> Table:
    """Return the counts at the end of each run, and the curriculum's share of uniform's, seed by seed."""
    table = Table("", *(f"{kind}, mean" for kind in KINDS), "curriculum over uniform, by seeds, with 95%")
    for count, text in COUNTS.items():
        ends = {kind: [curve[-1][count] for curve in own] for kind, own in curves.items()}
        shares = [one / other for one, other in zip(ends["curriculum"], ends["uniform"], strict=True)]
        means = [f"{sum(values) / len(values):,.0f}" for values in ends.values()]
        table.add_row(text, *means, str(mean_estimate(shares)))
    return table


def _draw(curves: dict[str, list[Curve]]) -> Figure:
    figure = Figure(figsize=(9, 4.6), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for kind, own in curves.items():
        for number, curve in enumerate(own):
            counts, rewards = [point["episodes"] for point in curve], [point["reward"] for point in curve]
            label = f"{kind}, seed {number + 1}"
            axes.plot(counts, rewards, linestyle=LINES[number % len(LINES)], color=KINDS[kind], label=label)
    axes.axhline(REACHED, color="#8a8f98", linewidth=1, linestyle=":")
    axes.set_xlabel(f"{COUNTS['episodes']}, of a token each")
    axes.set_ylabel("mean reward of what can be solved, greedy")
    axes.set_ylim(LOWEST, 1.02)
    axes.grid(color="#e4e7ee")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", frameon=False, fontsize="small", ncols=len(KINDS))
    figure.suptitle("Tasks from trivial to impossible, by two samplers", x=0.01, ha="left", fontweight="bold")
    return figure


if __name__ == "__main__":
    typer.run(main)
