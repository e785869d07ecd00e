"""Stored episodes of an evaluation, scored anew by the rubric that the environment has now."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from openenv.auto.package import EnvironmentPackage
from openenv.core.documents import read_json
from openenv.core.exceptions import FailureKind
from openenv.core.wire.results import component_totals
from openenv.records.collection import Collection

__all__ = ["Rescored", "RescoringError", "rescored_lines"]

_PROCESS = "openenv.train.evaluation.rescoring_process"
_TIMEOUT_S = 3600
# Failures that another rubric may not have.
_OF_THE_RUBRIC = (FailureKind.RUBRIC, FailureKind.JUDGE, FailureKind.NO_REWARD, FailureKind.INVALID_REWARD)
_DIFFERENT = "the rubric that they were played with does not score what is on record of them as it did"


class RescoringError(Exception):
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

    Raises:
        RescoringError: There are no traces, the rubric has a judge, or the environment can't be made.
    """
    if not collection.traces.is_file():
        raise RescoringError("their traces are not on record")
    with TemporaryDirectory() as folder:
        before = Path(folder, package.folder.name)
        _copy(package.folder, before, earlier)
        then = _scores(before, collection.traces, Path(folder))
        now = _scores(package.folder, collection.traces, Path(folder), "--keep")
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
        raise RescoringError(f"scoring them took more than {_TIMEOUT_S} s") from None
    if ended.returncode:
        reason = ended.stderr.strip().rpartition("\n")[2] or f"status {ended.returncode}"
        raise RescoringError(f"they can't be scored here ({reason})")
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
