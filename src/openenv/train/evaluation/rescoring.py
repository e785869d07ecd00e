"""Stored episodes of an evaluation, scored anew by the rubric that the environment has now.

As a program, with an environment's folder, a file of traces and a file to write, it scores the traces by the
environment's rubric, and writes the scores as JSON; with ``--keep`` they are stored beside the episodes, too, as by
``openenv traces rescore``.
"""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from openenv.auto.package import EnvironmentPackage
from openenv.core.documents import read_json, write_json
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.exceptions import FailureKind, IncompleteTraceError
from openenv.core.rubrics import Rubric, TrajectoryRubric
from openenv.core.rubrics.judge import Judge
from openenv.core.wire.results import component_totals
from openenv.records.collection import Collection
from openenv.traces.episodes import EpisodeRecord
from openenv.traces.reading import TraceFile
from openenv.traces.rescoring import score_of, scored_steps

__all__ = ["rescored_lines"]

_PROCESS = "openenv.train.evaluation.rescoring"
# Of the scores in the traces.
_NAME = "rubric"
_TIMEOUT_S = 3600
# Failures that another rubric may not have.
_OF_THE_RUBRIC = (FailureKind.RUBRIC, FailureKind.JUDGE, FailureKind.NO_REWARD, FailureKind.INVALID_REWARD)
_DIFFERENT = "the rubric that they were played with does not score what is on record of them as it did"


class _RescoringError(Exception):
    """Episodes can't be scored anew, and why."""


@dataclass(frozen=True)
class Rescored:
    """Stored episodes by what becomes of them.

    Attributes:
        scored: Lines of those that are scored anew.
        kept: Lines of those that failed by no fault of the rubric, and stay as they are.
        lost: Numbers of those that have to be played again.
        reason: Reason for that, in words.
    """

    scored: list[dict[str, Any]]
    kept: list[dict[str, Any]]
    lost: set[int]
    reason: str = _DIFFERENT


def rescored_lines(collection: Collection, package: EnvironmentPackage, earlier: Mapping[str, str]) -> Rescored:
    """Score the episodes of a folder anew, those that the earlier rubric scores as it did when they were played.

    So nothing is scored of which something is not on record, or whose rewards are not the rubric's alone.

    Args:
        collection: The folder, with its traces.
        package: The environment.
        earlier: Texts of the files of the rubric as they were, by their paths in the environment's folder.

    Returns:
        The lines; none that is scored where there are no traces, the rubric has a judge, or the environment can't be
        made.
    """
    try:
        then, now = _scores_then_and_now(collection.traces, package.folder, earlier)
    except _RescoringError as error:
        return Rescored([], [], collection.indexes(), str(error))
    scored, lost = [], set()
    for line in collection.read():
        number = str(line["index"])
        if number in now and number in then and _same(then[number]["rewards"], line["rewards"]):
            scored.append(_with_scores(line, now[number]))
        else:
            lost.add(line["index"])
    left_out = collection.read_left_out()
    lost |= {line["index"] for line in left_out if line.get("failure") in _OF_THE_RUBRIC}
    return Rescored(scored, [line for line in left_out if line["index"] not in lost], lost)


def _scores_then_and_now(
    traces: Path, environment: Path, earlier: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    if not traces.is_file():
        raise _RescoringError("their traces are not on record")
    with TemporaryDirectory() as folder:
        before = Path(folder, environment.name)
        _copy(environment, before, earlier)
        return _scores(before, traces, Path(folder)), _scores(environment, traces, Path(folder), "--keep")


def _copy(folder: Path, copy: Path, earlier: Mapping[str, str]) -> None:
    """Make a folder like an environment's, with files as they were."""
    shutil.copytree(folder, copy, copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__", ".git"))
    for path, text in earlier.items():
        (copy / path).unlink(missing_ok=True)
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        (copy / path).write_text(text, "utf-8")


def _scores(environment: Path, traces: Path, folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    """Return the scores of the episodes on record, in a process of its own: this one may have imported other files."""
    output = folder / "scores.json"
    command = [sys.executable, "-m", _PROCESS, str(environment), str(traces), str(output), *options]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise _RescoringError(f"scoring them took more than {_TIMEOUT_S} s") from None
    if ended.returncode:
        reason = ended.stderr.strip().rpartition("\n")[2] or f"status {ended.returncode}"
        raise _RescoringError(f"they can't be scored here ({reason})")
    found: dict[str, dict[str, Any]] = read_json(output)
    return found


def _same(rewards: list[float], played: list[float]) -> bool:
    return len(rewards) == len(played) and all(map(isclose, rewards, played))


def _with_scores(line: Mapping[str, Any], scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line of an episode with other rewards."""
    rewards, components = scores["rewards"], scores["components"]
    changed = {**line, "reward": sum(rewards), "rewards": rewards}
    for name in ("reward_components", "components", "step_rewards"):
        changed.pop(name, None)
    if totals := component_totals(components):
        changed |= {"reward_components": totals, "components": components}
    return changed if scores["step_rewards"] is None else {**changed, "step_rewards": scores["step_rewards"]}


def main(folder: str, traces: str, output: str, *options: str) -> None:
    """Score the newest episode on record of each number in an evaluation."""
    package = EnvironmentPackage.from_folder(Path(folder))
    rubric = _rubric_of(package)
    scores: dict[str, dict[str, Any]] = {}
    with TraceFile(traces) as file:
        for number, record in _newest(file):
            steps = asyncio.run(scored_steps(record, rubric, package, with_rewards=False))
            scores[str(number)] = {
                "rewards": [step.reward for step in steps],
                "components": [dict(step.components) for step in steps],
                "step_rewards": _step_rewards(rubric, record),
            }
            if "--keep" in options:
                file.add_score(record.episode.id, score_of(_NAME, steps))
    write_json(Path(output), scores)


def _rubric_of(package: EnvironmentPackage) -> Rubric:
    environment = EnvironmentFactory(package.environment_class()).make()
    rubric = getattr(environment, "rubric", None)
    if not isinstance(rubric, Rubric):
        sys.exit("the environment has no rubric")
    if any(isinstance(each, Judge) for each in (rubric, *rubric.rubrics())):
        sys.exit("its rubric has a judge, whose verdicts are others each time")
    return rubric


def _newest(file: TraceFile) -> Iterator[tuple[int, EpisodeRecord]]:
    seen: set[int] = set()
    for episode in list(file.episodes()):
        conversations = file.conversations(episode.id)
        number = conversations[-1].extra.get("index") if conversations else None
        if number is None or number in seen:
            continue
        seen.add(number)
        try:
            yield number, file.record(episode.id)
        except IncompleteTraceError:
            continue


def _step_rewards(rubric: Rubric, record: EpisodeRecord) -> list[float] | None:
    """Return the credit of each step, where the rubric gives it and the episode has ended."""
    is_over = bool(record.steps) and record.steps[-1].answer.get("done") is True
    return rubric.compute_step_rewards() if isinstance(rubric, TrajectoryRubric) and is_over else None


if __name__ == "__main__":
    main(*sys.argv[1:])
