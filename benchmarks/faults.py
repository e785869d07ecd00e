"""``python -m benchmarks.faults``: the learning curve of the tiny policy where faults strike 30% of episodes.

Each seed is trained three times with the same settings: undisturbed, struck, and undisturbed with groups of six
episodes instead of eight, about as many as the faults leave. A curve is the mean reward of the last steps in training;
its end is the score after training, which is played on the same server, faults included: on fresh tasks, or on those of
the training where the policy learns a few by heart.
"""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from shutil import copytree
from statistics import fmean
from string import Template
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from tests.support.imported_modules import forget_modules_of

from openenv.auto import find_environment
from openenv.records.failures import failures_in, kind_text
from openenv.records.scores import AFTER
from openenv.train.evaluation.intervals import mean_estimate
from openenv.train.run.training import train
from openenv.train.settings.config import TrainConfig

ROOT = Path(__file__).parents[1]
# The run of docs/rewards.md: four secret words, and parts of the reward, without which few steps see any.
SETTINGS: dict[str, dict[str, Any]] = {
    "catch": {},
    "wordle": {
        "max_turns": 6,
        "max_action_tokens": 1,
        "reward_components": {"solved": 1.0, "greens": 0.5, "yellows": 0.1},
    },
}
TASKS = {"wordle": [{"seed": seed} for seed in range(1, 5)]}
APPLICATION = Template('''"""An environment that faults strike, on record in a file."""

import json
import threading
from pathlib import Path

from openenv.core.env_server import create_app
from openenv.testing import Faults, with_faults

from .$module import $name

LOCK = threading.Lock()


class Struck(with_faults($name, Faults(share=$share, seed=$seed))):
    def close(self):
        super().close()
        with LOCK:
            Path($file).write_text(json.dumps(self.strikes.kinds()))


app = create_app(Struck, env_name="$environment", max_concurrent_envs=$sessions)
''')
SHARES = {"undisturbed": 0.0, "struck": 0.3, "smaller groups": 0.0}
GROUP_SIZES = {"undisturbed": 8, "struck": 8, "smaller groups": 6}
GROUPS = {"catch": 16, "wordle": 4}
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


def struck_folder(environment: str, share: float, seed: int, strikes: Path) -> Path:
    """Copy an environment's folder beside the file ``strikes``, with a share of the episodes struck."""
    package = find_environment(environment)
    copied = Path(copytree(package.folder, strikes.with_name(f"struck_{environment}")))
    module, name = str(package.manifest.environment).removeprefix("server.").split(":")
    names = {"module": module, "name": name, "environment": environment, "file": repr(str(strikes))}
    application = APPLICATION.substitute(names, share=share, seed=seed, sessions=SESSIONS)
    Path(copied, "server", "app.py").write_text(application, encoding="utf-8")
    return copied


def trained(environment: str, name: str, seed: int, settings: dict[str, Any]) -> Run:
    """Train with the share of episodes struck, and the size of groups, that go by a name."""
    share, size = SHARES[name], GROUP_SIZES[name]
    settings = {**SETTINGS[environment], "group_size": size, "rollouts": size * GROUPS[environment], **settings}
    with TemporaryDirectory() as folder:
        strikes, tasks = Path(folder, "strikes.json"), Path(folder, "tasks.jsonl")
        if environment in TASKS:
            tasks.write_text("".join(f"{json.dumps(task)}\n" for task in TASKS[environment]), encoding="utf-8")
            settings["tasks"] = str(tasks)
        struck = struck_folder(environment, share, seed, strikes)
        output = Path(folder, "runs")
        config = TrainConfig(environment=str(struck), seed=seed, output_dir=output, traces=False, **settings)
        result = train(config, Console(file=StringIO()))
        forget_modules_of(struck)  # the next training has a folder of its own
        rows, scores = result.folder.read_metrics(), result.scores
        played = [result.folder.rollouts_at(row["step"])[1][0]["episodes"] for row in rows]
        struck_kinds = json.loads(strikes.read_text(encoding="utf-8"))
    wrong = sum(_is_wrong(row, notes) for row, notes in zip(rows, played, strict=True))
    failed = sum("error" in note for notes in played for note in notes)
    rewards = [row["episode/reward"] for row in rows if "episode/reward" in row]
    size = max(1, len(rewards) // POINTS)
    curve = [fmean(rewards[start : start + size]) for start in range(0, size * POINTS, size) if rewards[start:]]
    counted = Counter(failures_in(rows))
    for score in scores.values():
        counted.update(score.failures)
    return Run(curve, scores[AFTER].mean_reward, struck_kinds, dict(counted), failed, wrong)


def _is_wrong(row: Mapping[str, Any], notes: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a step's mean reward is another than that of its episodes without a failure."""
    rewards = [note["reward"] for note in notes if "error" not in note]
    return abs(float(row.get("episode/reward", 0.0)) - (fmean(rewards) if rewards else 0.0)) > ROUNDING


def measured(environment: str, name: str, seed: int, settings: dict[str, Any], folder: Path) -> Run:
    """Return the run of a seed, which is trained unless its file is there."""
    file = folder / f"{environment}-{name.replace(' ', '-')}-{seed}.json"
    if not file.exists():
        run = trained(environment, name, seed, settings)
        file.write_text(json.dumps(asdict(run)), encoding="utf-8")
    return Run(**json.loads(file.read_text(encoding="utf-8")))


def main(
    environment: Annotated[str, typer.Option(help=f"One of {', '.join(SETTINGS)}.")] = "catch",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 1 on.")] = 5,
    steps: Annotated[int | None, typer.Option(min=POINTS, help="Optimiser steps.  [default: the run's own]")] = None,
    eval_episodes: Annotated[int, typer.Option(min=1, help="Episodes of each evaluation.")] = 100,
    folder: Annotated[Path, typer.Option(help="Folder of the runs, which are not trained again.")] = ROOT
    / ".cache"
    / "faults",
) -> None:
    """Train, and print the curves and the kinds of failures."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("OPENENV_LOG_LEVEL", "critical")  # servers log each fault with its traceback
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
