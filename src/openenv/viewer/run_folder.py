"""Folder of a training run, read while the run writes it: settings, state, metrics from an offset on, and rollouts."""

import fcntl
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple
from zlib import crc32

from pydantic import BaseModel, ValidationError

from openenv.core.documents import read_json, read_yaml
from openenv.core.exceptions import ConfigurationError
from openenv.traces.episodes import Count
from openenv.viewer.growing_file import objects_of
from openenv.viewer.step_index import StepIndex

State = Literal["running", "ended", "interrupted"]

# Name of the trained model's score, behind the environment's where there are several.
_AFTER = "after training"
# Bytes of metrics that one answer has.
_MOST_BYTES = 4 * 1024 * 1024
# Bytes before an offset that its mark is made from: a line, which has times of the step and so is that of no other run.
_MARKED_BYTES = 1024


def is_run(folder: Path) -> bool:
    """Return whether a path is the folder of a training run."""
    return (folder / "config.yaml").is_file() and (folder / "starts.jsonl").is_file()


class MetricsPage(NamedTuple):
    """Lines of metrics after an offset.

    Attributes:
        start: Offset in bytes that the lines begin at.
        rows: The lines.
        offset: Offset to read on from.
        mark: Mark of what comes before that offset.
    """

    start: int
    rows: list[dict[str, Any]]
    offset: int
    mark: str


class TrainingRun:
    """Folder of a training run, as ``openenv.train`` lays it out.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._metrics = folder / "metrics.jsonl"
        self._rollouts = StepIndex(folder / "rollouts.jsonl")

    @property
    def state(self) -> State:
        """Whether the run is under way, has come to its end, or was stopped before it."""
        if self._is_held():
            return "running"
        return "ended" if (self.folder / "report.html").exists() and self._is_scored() else "interrupted"

    def settings(self) -> dict[str, Any]:
        """Return the settings.

        Raises:
            ConfigurationError: They can't be read.
        """
        settings = read_yaml(self.folder / "config.yaml")
        if not isinstance(settings, dict):
            raise ConfigurationError(f"Expected a mapping of settings in {self.folder / 'config.yaml'}.")
        return settings

    def starts(self) -> list[dict[str, Any]]:
        """Return when the run was started and gone on with, the first one first."""
        with (self.folder / "starts.jsonl").open("rb") as file:
            return objects_of(file.read(_MOST_BYTES).splitlines())

    def scores(self, *, with_rewards: bool = False) -> dict[str, Any]:
        """Return the mean rewards of the players so far, with their standard errors and numbers of episodes.

        Args:
            with_rewards: Whether to return the reward of each episode, too.
        """
        try:
            scores = read_json(self.folder / "scores.json")
        except ConfigurationError:  # there are none yet
            return {}
        if not isinstance(scores, dict):
            return {}
        shown = ["mean_reward", "standard_error", "episodes", *(["rewards"] if with_rewards else [])]
        return {
            name: {field: score.get(field) for field in shown}
            for name, score in scores.items()
            if isinstance(score, dict) and isinstance(score.get("mean_reward"), float | int)
        }

    def metrics(self, offset: int, mark: str = "") -> MetricsPage:
        """Return the lines of metrics after an offset.

        Args:
            offset: Bytes that were read before.
            mark: Their mark. Where the file does not have them any more, as after a resumption, it is read anew.
        """
        if not self._metrics.is_file():
            return MetricsPage(0, [], 0, "")
        with self._metrics.open("rb") as file:
            start = offset if _mark(file, offset) == mark else 0
            file.seek(start)
            content = file.read(_MOST_BYTES)
            whole = content[: content.rfind(b"\n") + 1]
            end = start + len(whole)
            return MetricsPage(start, objects_of(whole.splitlines()), end, _mark(file, end))

    def rollouts(self, step: int | None) -> tuple[int | None, list[dict[str, Any]]]:
        """Return the episodes of an optimiser step.

        Args:
            step: The step; ``None`` for the last one.

        Returns:
            The step, ``None`` where there is none; and its lines in ``rollouts.jsonl``, one for each environment.
        """
        lines = rollouts_of(self._rollouts.lines(step))
        return (lines[0]["step"], lines) if lines else (None, [])

    def _is_scored(self) -> bool:
        """Return whether the trained model was evaluated on each environment; an interrupted run has a report, too."""
        try:
            environments = self.settings().get("environments")
        except ConfigurationError:
            return False
        names = environments if isinstance(environments, dict) else {}
        expected = {f"{name}: {_AFTER}" for name in names} or {_AFTER}
        return self.scores().keys() >= expected

    def _is_held(self) -> bool:
        """Return whether a process runs the training: it holds a lock on the file of starts, whatever ends it."""
        with (self.folder / "starts.jsonl").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError:  # a file system without locks
                return False
        return False


def rollouts_of(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the lines of ``rollouts.jsonl`` that have episodes, whatever has written the others.

    Args:
        lines: The lines.
    """
    found = []
    for line in objects_of(lines):
        with suppress(ValidationError):
            _Rollouts.model_validate(line)
            found.append(line)
    return found


class _Note(BaseModel):
    """Episode of a step, as far as it is read."""

    group: int
    task: dict[str, Any]
    reward: float
    episode_id: str = ""


class _Rollouts(BaseModel):
    """Line of ``rollouts.jsonl``, as far as it is read."""

    step: Count
    environment: str | None = None
    episodes: list[_Note]


def _mark(file: BinaryIO, offset: int) -> str:
    """Return a short text that differs where the bytes before an offset do; no text at the file's beginning."""
    start = max(0, offset - _MARKED_BYTES)
    file.seek(start)
    before = file.read(offset - start)
    return f"{len(before)}-{crc32(before):x}" if before else ""
