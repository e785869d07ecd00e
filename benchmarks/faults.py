"""``python -m benchmarks.faults``: the learning curve of the tiny policy where faults strike 30% of episodes.

Each seed is trained twice, undisturbed and struck, with the same settings. A curve is the mean reward of the last steps
in training; its end is the score after training on fresh tasks, which are played on the same server, faults included.
"""

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from io import StringIO
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tests.support.servers import RunningServer

from openenv.core.env_server.app import create_app
from openenv.records.failures import failures_in, kind_text
from openenv.records.scores import AFTER
from openenv.testing import Faults, with_faults
from openenv.train.evaluation.intervals import mean_estimate
from openenv.train.run.training import train
from openenv.train.settings.config import TrainConfig

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = {
    "catch": ("catch_env.server.catch_environment", "CatchEnvironment"),
    "wordle": ("wordle_env.server.wordle_environment", "WordleEnvironment"),
}
SHARES = {"undisturbed": 0.0, "struck": 0.3}
ROUNDING = 1e-6
SESSIONS = 256
"""Sessions of the server: those of a step, and of the step before that are still being closed."""
POINTS = 5
"""Points of a curve, each the mean over as many steps."""


@dataclass(frozen=True)
class Run:
    """Training of one seed.

    Attributes:
        curve: Mean rewards of episodes in training, each over the same number of steps.
        after: Mean reward after training, greedy.
        struck: Numbers of faults that struck in the whole run, evaluations included, by kind.
        counted: Numbers of failures in its metrics and scores, by kind; those of the episodes before, whose words are
            the policy's vocabulary, are in none of these.
        failed: Episodes of the training that failed.
        wrong_means: Steps whose mean reward is another than that of the episodes without a failure.
    """

    curve: list[float]
    after: float
    struck: dict[str, int] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    failed: int = 0
    wrong_means: int = 0


def trained(environment: str, share: float, seed: int, settings: dict[str, Any]) -> Run:
    """Train with a share of the episodes struck, on a server in this process."""
    module, name = ENVIRONMENTS[environment]
    struck = with_faults(getattr(import_module(module), name), Faults(share=share, seed=seed))
    app = create_app(struck, env_name=environment, max_concurrent_envs=SESSIONS)
    with TemporaryDirectory() as folder, RunningServer(app) as server:
        config = TrainConfig(environment=server.url, seed=seed, output_dir=Path(folder), traces=False, **settings)
        result = train(config, Console(file=StringIO()))
        rows, scores = result.folder.read_metrics(), result.scores
        played = [result.folder.rollouts_at(row["step"])[1][0]["episodes"] for row in rows]
    wrong = sum(_is_wrong(row, notes) for row, notes in zip(rows, played, strict=True))
    failed = sum("error" in note for notes in played for note in notes)
    rewards = [row["episode/reward"] for row in rows if "episode/reward" in row]
    size = max(1, len(rewards) // POINTS)
    curve = [fmean(rewards[start : start + size]) for start in range(0, size * POINTS, size) if rewards[start:]]
    counted = Counter(failures_in(rows))
    for score in scores.values():
        counted.update(score.failures)
    return Run(curve, scores[AFTER].mean_reward, struck.strikes.kinds(), dict(counted), failed, wrong)


def _is_wrong(row: Mapping[str, Any], notes: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a step's mean reward is another than that of its episodes without a failure."""
    rewards = [note["reward"] for note in notes if "error" not in note]
    return abs(float(row.get("episode/reward", 0.0)) - (fmean(rewards) if rewards else 0.0)) > ROUNDING


def measured(environment: str, name: str, seed: int, settings: dict[str, Any], folder: Path) -> Run:
    """Return the run of a seed, which is trained unless its file is there."""
    file = folder / f"{environment}-{name}-{seed}.json"
    if not file.exists():
        run = trained(environment, SHARES[name], seed, settings)
        file.write_text(json.dumps(asdict(run)), encoding="utf-8")
    return Run(**json.loads(file.read_text(encoding="utf-8")))


def main(
    environment: Annotated[str, typer.Option(help=f"One of {', '.join(ENVIRONMENTS)}.")] = "catch",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 1 on.")] = 5,
    steps: Annotated[int | None, typer.Option(min=POINTS, help="Optimiser steps.  [default: the run's own]")] = None,
    eval_episodes: Annotated[int, typer.Option(min=1, help="Episodes of each evaluation.")] = 100,
    folder: Annotated[Path, typer.Option(help="Folder of the runs, which are not trained again.")] = ROOT
    / ".cache"
    / "faults",
) -> None:
    """Train, and print the curves and the kinds of failures."""
    folder.mkdir(parents=True, exist_ok=True)
    logging.getLogger("openenv").setLevel(logging.CRITICAL)  # each fault is logged with its traceback
    settings: dict[str, Any] = {"eval_episodes": eval_episodes, **({} if steps is None else {"steps": steps})}
    runs = {
        name: [measured(environment, name, seed, settings, folder) for seed in range(1, seeds + 1)] for name in SHARES
    }
    console = Console(width=120)
    console.print(_curves(environment, runs))
    console.print(_kinds(runs["struck"]))
    failed, wrong = (sum(getattr(run, name) for run in runs["struck"]) for name in ("failed", "wrong_means"))
    console.print(f"{failed} episodes of the struck trainings failed; {wrong} steps have a mean with a failure in it.")


def _curves(environment: str, runs: dict[str, list[Run]]) -> Table:
    table = Table(environment, *(f"part {number} of {POINTS}" for number in range(1, POINTS + 1)), "after, greedy")
    for name, own in runs.items():
        points = [str(mean_estimate(values)) for values in zip(*(run.curve for run in own), strict=True)]
        table.add_row(name, *points, str(mean_estimate([run.after for run in own])))
    return table


def _kinds(runs: list[Run]) -> Table:
    """Return how often each kind struck, in the episodes of the vocabulary too, and how often it was counted."""
    table = Table("kind", "failure", "struck", "counted under its kind")
    struck, counted = Counter[str](), Counter[str]()
    for run in runs:
        struck.update(run.struck)
        counted.update(run.counted)
    for kind, count in sorted(struck.items()):
        table.add_row(kind, kind_text(kind), str(count), str(counted[kind]))
    return table


if __name__ == "__main__":
    typer.run(main)
