"""``python -m benchmarks.demo_llm``: the trainings of a real model on a CPU with several seeds, as a table of Markdown.

Runs that were measured before, in the same folder, are not run again.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from openenv.records.run_folder import RunFolder
from openenv.records.scores import AFTER, BEFORE, WARMED_UP, Score, sampled
from openenv.train.evaluation.intervals import mean_estimate

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Example:
    """Training of an example.

    Attributes:
        environment: The environment, as ``openenv train`` takes it.
        config: File of the settings.
        headings: Of its figures, by the stages of the model.
        calls: Whether its answers are calls of tools, which have to be legal.
    """

    environment: str
    config: Path
    headings: Mapping[str, str]
    calls: bool = False

    @property
    def columns(self) -> list[str]:
        """Headings of all figures, without those of the times."""
        kinds = ("greedy", "sampled", *(["legal calls"] if self.calls else []))
        return [f"{kind} {heading}" for kind in kinds for heading in self.headings.values()]

    def figures(self, scores: Mapping[str, Score]) -> list[Any]:
        """Return the mean rewards and shares of legal calls of a run."""
        drawn = [scores[sampled(stage)] for stage in self.headings]
        rewards = [*(scores[stage].mean_reward for stage in self.headings), *(score.mean_reward for score in drawn)]
        return [*rewards, *(score.legal_answers for score in drawn if self.calls)]


EXAMPLES = {
    "one_word": Example(
        str(ROOT / "examples" / "one_word.py"),
        ROOT / "examples" / "one_word.yaml",
        {BEFORE: "before", AFTER: "after"},
    ),
    "name_tools": Example(
        "reasoning_gym",
        ROOT / "examples" / "name_tools.yaml",
        {BEFORE: "before", WARMED_UP: "warmed up", AFTER: "after"},
        calls=True,
    ),
}
TIMES = ("minutes", "CPU minutes")


def measured(example: Example, seed: int, folder: Path, more: Sequence[str]) -> list[float]:
    """Train with a seed, unless that was done, and return the figures of the run and its minutes."""
    file = folder / f"seed-{seed}.json"
    if not file.exists():
        command = [
            sys.executable,
            "-m",
            "openenv.cli",
            "train",
            example.environment,
            "--config",
            str(example.config),
        ]
        own = ["--seed", str(seed), "--output-dir", str(folder), "--name", f"seed-{seed}-{time.time_ns()}"]
        began, used = time.monotonic(), _cpu_seconds()
        subprocess.run([*command, *own, *more], check=True)
        minutes = [(time.monotonic() - began) / 60, (_cpu_seconds() - used) / 60]
        figures = [*example.figures(RunFolder(folder / own[-1]).read_scores()), *minutes]
        file.write_text(json.dumps(figures), "utf-8")
    return [float(figure) for figure in json.loads(file.read_text("utf-8"))]


def _cpu_seconds() -> float:
    """Return the CPU time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(columns: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Return a table of Markdown with a row for each seed, and the means with their 95% intervals below.

    Example:
        >>> print(table(["before", "after"], [[0.0, 1.0, 7.0, 6.5], [0.0, 1.0, 7.0, 6.5]]).splitlines()[-1])
        | mean | 0.000 [0.000, 0.000] | 1.000 [1.000, 1.000] | 7.0 | 6.5 |
    """
    # Rows that were measured by an earlier version have no CPU time.
    times = min(map(len, rows)) - len(columns)
    headings = ("seed", *columns, *TIMES[:times])
    lines: list[Sequence[str]] = [headings, ("---", *("---:" for _ in headings[1:]))]
    for seed, row in enumerate(rows, 1):
        figures, minutes = row[: len(columns)], row[len(columns) : len(columns) + times]
        lines.append((str(seed), *(f"{figure:.3f}" for figure in figures), *(f"{each:.1f}" for each in minutes)))
    by_column = list(zip(*rows, strict=False))[: len(columns) + times]
    means = (str(mean_estimate(column, (0.0, 1.0))) for column in by_column[: len(columns)])
    lines.append(("mean", *means, *(f"{sum(each) / len(rows):.1f}" for each in by_column[len(columns) :])))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(
    more: Annotated[list[str] | None, typer.Argument(help="Further options of openenv train, after --.")] = None,
    example: Annotated[str, typer.Option(help=f"Which example: {' or '.join(EXAMPLES)}.")] = "one_word",
    seeds: Annotated[int, typer.Option(help="How many seeds, from 1 on.")] = 5,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the runs and the table are written.  [default: a folder of the example in .cache]"),
    ] = None,
) -> None:
    """Measure, and write and print the table."""
    if example not in EXAMPLES:
        raise typer.BadParameter(f"expected {' or '.join(EXAMPLES)}, got {example!r}", param_hint="--example")
    folder = folder or ROOT / ".cache" / {"one_word": "demo-llm"}.get(example, example)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = EXAMPLES[example]
    written = table(chosen.columns, [measured(chosen, seed, folder, more or ()) for seed in range(1, seeds + 1)])
    (folder / "table.md").write_text(f"{written}\n", "utf-8")
    typer.echo(f"{written}\n\n{folder / 'table.md'}")


if __name__ == "__main__":
    typer.run(main)
