"""``python -m benchmarks.demo_llm``: ``make demo-llm`` with several seeds, as a table of Markdown with intervals.

Runs that were measured before, in the same folder, are not run again.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from openenv.records.run_folder import RunFolder
from openenv.records.scores import AFTER, BEFORE, sampled
from openenv.train.evaluation.intervals import mean_estimate

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "one_word.py"
FIGURES = (BEFORE, AFTER, sampled(BEFORE), sampled(AFTER))
HEADINGS = ("greedy before", "after", "sampled before", "after", "minutes")


def measured(seed: int, folder: Path, more: Sequence[str]) -> list[float]:
    """Train with a seed, unless that was done, and return the figures of the run and its minutes."""
    file = folder / f"seed-{seed}.json"
    if not file.exists():
        command = [
            sys.executable,
            "-m",
            "openenv.cli",
            "train",
            str(EXAMPLE),
            "--config",
            str(EXAMPLE.with_suffix(".yaml")),
        ]
        own = ["--seed", str(seed), "--output-dir", str(folder), "--name", f"seed-{seed}-{time.time_ns()}"]
        began = time.monotonic()
        subprocess.run([*command, *own, *more], check=True)
        minutes = (time.monotonic() - began) / 60
        scores = RunFolder(folder / own[-1]).read_scores()
        figures: list[Any] = [*(scores[name].mean_reward for name in FIGURES), minutes]
        file.write_text(json.dumps(figures), "utf-8")
    return [float(figure) for figure in json.loads(file.read_text("utf-8"))]


def table(rows: Sequence[Sequence[float]]) -> str:
    """Return a table of Markdown with a row for each seed, and the means with their 95% intervals below.

    Example:
        >>> print(table([[0.0, 1.0, 0.1, 0.9, 7.0], [0.0, 1.0, 0.1, 0.9, 7.0]]).splitlines()[-1])
        | mean | 0.000 [0.000, 0.000] | 1.000 [1.000, 1.000] | 0.100 [0.100, 0.100] | 0.900 [0.900, 0.900] | 7.0 |
    """
    lines = [("seed", *HEADINGS), ("---", *("---:" for _ in HEADINGS))]
    for seed, (*rewards, minutes) in enumerate(rows, 1):
        lines.append((str(seed), *(f"{reward:.3f}" for reward in rewards), f"{minutes:.1f}"))
    *columns, minutes_of_all = zip(*rows, strict=True)
    means = (str(mean_estimate(column, (0.0, 1.0))) for column in columns)
    lines.append(("mean", *means, f"{sum(minutes_of_all) / len(rows):.1f}"))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(
    more: Annotated[list[str] | None, typer.Argument(help="Further options of openenv train, after --.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 1 on.")] = 5,
    folder: Annotated[Path, typer.Option(help="Where the runs and the table are written.")] = ROOT
    / ".cache"
    / "demo-llm",
) -> None:
    """Measure, and write and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    written = table([measured(seed, folder, more or ()) for seed in range(1, seeds + 1)])
    (folder / "table.md").write_text(f"{written}\n", "utf-8")
    typer.echo(f"{written}\n\n{folder / 'table.md'}")


if __name__ == "__main__":
    typer.run(main)
