"""Folder of a training run: its files, written by the run, and read while it is written."""

import fcntl
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple
from zlib import crc32

from pydantic import BaseModel, NonNegativeFloat, TypeAdapter, ValidationError

from openenv.core.documents import draft_of, first_new_folder, read_json, read_yaml, write_json
from openenv.core.exceptions import ConfigurationError
from openenv.records.lines import StepIndex, append_object, keep_objects, objects_of, read_objects
from openenv.records.run_start import RunStart
from openenv.records.run_times import RunTimes
from openenv.records.scores import AFTER, Score, evaluation_metric, sampled, score_name
from openenv.traces.episodes import Count

__all__ = ["MetricsPage", "RunFolder", "State", "is_run", "rollouts_of", "step_of"]

State = Literal["running", "ended", "interrupted"]

# Bytes of metrics that a page of them has.
_MAX_PAGE_BYTES = 4 * 1024 * 1024
# Bytes before an offset that its mark is made from: a line, which has times of the step and so is that of no other run.
_MARKED_BYTES = 1024
_SCORE = TypeAdapter(Score)
_START = TypeAdapter(RunStart)
_SECONDS = TypeAdapter(dict[str, NonNegativeFloat])


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


def is_run(folder: Path) -> bool:
    """Return whether a path is the folder of a training run."""
    return (folder / "config.yaml").is_file() and (folder / "starts.jsonl").is_file()


class RunFolder:
    """Folder in which a run keeps its files. Threads may read it.

    ::

        runs/catch-tiny-20260301-120000/
          config.yaml     the settings; `openenv train --config` takes it
          starts.jsonl    when it was started and resumed, by which command, with which versions
          metrics.jsonl   one line for each optimiser step
          rollouts.jsonl  the episodes of each optimiser step: task, reward and length
          traces.db       the same episodes and those of evaluations, by requests and tokens; see openenv.traces
          warm_up/        the model after the examples, if there are any, and warm_up/metrics.jsonl
          times.json      seconds by what they went to, of those that no step has
          scores.json     mean rewards before and after, and of the other players
          warnings.json   what keeps the model from learning, and what makes a figure doubtful, a sentence each
          checkpoints/    checkpoint-100/ and so on, to resume from
          best/           checkpoint-150/, the model that was best in an evaluation in training, if there are any
          model/          the trained model and its tokenizer
          curve.png
          report.html     written last, and by a run that is interrupted
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.starts = path / "starts.jsonl"
        self.metrics = path / "metrics.jsonl"
        self.rollouts = path / "rollouts.jsonl"
        self.traces = path / "traces.db"
        self.times = path / "times.json"
        self.scores = path / "scores.json"
        self.warnings = path / "warnings.json"
        self.warm_up = path / "warm_up"
        self.checkpoints = path / "checkpoints"
        self.best = path / "best"
        self.model = path / "model"
        self.curve = path / "curve.png"
        self.report = path / "report.html"
        self._steps = StepIndex(self.rollouts)

    @classmethod
    def create(cls, parent: Path, label: str, name: str | None = None) -> "RunFolder":
        """Make the folder of a new run.

        Raises:
            ConfigurationError: The folder of that name is there already.
        """
        stem = re.sub(r"[^\w.-]+", "-", name or f"{label}-{datetime.now():%Y%m%d-%H%M%S}")
        others = () if name else (parent / f"{stem}-{number}" for number in count(2))
        try:
            return cls(first_new_folder(chain([parent / stem], others)))
        except FileExistsError as error:
            path = parent / stem
            raise ConfigurationError(
                f"{path} is there already, and a run never overwrites another. Choose another --name, "
                f"or continue that run with --resume {path}."
            ) from error

    @classmethod
    def reopen(cls, path: Path) -> "RunFolder":
        """Open the folder of a run that was begun.

        Raises:
            ConfigurationError: It is no run's folder.
        """
        folder = cls(path)
        if not folder.config.is_file():
            raise ConfigurationError(f"{path} is no run's folder: there is no config.yaml in it.")
        return folder

    @classmethod
    def of_model(cls, model: Path) -> "RunFolder":
        """Return the folder of the run that a model is of: a run's own, one of its checkpoints, or its best one."""
        has_run = model.parent.name in ("checkpoints", "best") and (model.parent.parent / "config.yaml").is_file()
        return cls(model.parent.parent if has_run else model)

    def weights_of(self, model: Path) -> tuple[Path, str]:
        """Return the folder of a model of the run, at the end, a checkpoint or the best, and its step in words.

        Raises:
            ConfigurationError: The run has not ended, or the checkpoint is not whole.
        """
        if model == self.path:
            if not self.model.is_dir():
                raise ConfigurationError(f"The run in {self.path} has not ended, so there is no model in it yet.")
            return self.model, f"step {self.read_settings()['steps']}"
        if not (model.is_dir() if model.parent == self.best else _is_complete(model)):
            raise ConfigurationError(f"{model} is no whole checkpoint of the run in {self.path}.")
        return model, f"step {step_of(model)}"

    @property
    def state(self) -> State:
        """State of the run: under way, ended, or stopped before its end."""
        if self._is_held():
            return "running"
        return "ended" if self.has_ended else "interrupted"

    @property
    def has_ended(self) -> bool:
        """True if the run came to its end; an interrupted run may have a report, too."""
        return self.report.exists() and self.is_scored

    @property
    def is_scored(self) -> bool:
        """True if the trained model was evaluated on each environment."""
        try:
            expected = {score_name(AFTER, name) for name in self._environments()}
        except ConfigurationError:
            return False
        return self.read_scores().keys() >= expected

    def read_settings(self) -> dict[str, Any]:
        """Return the settings.

        Raises:
            ConfigurationError: They can't be read.
        """
        settings = read_yaml(self.config)
        if not isinstance(settings, dict):
            raise ConfigurationError(f"Expected a mapping of settings in {self.config}.")
        return settings

    def forget_end(self) -> None:
        """Drop the scores of the trained model, which is going to be trained further."""
        ends = {score_name(name, part) for name in (AFTER, sampled(AFTER)) for part in self._environments()}
        self.write_scores({name: score for name, score in self.read_scores().items() if name not in ends})

    def last_checkpoint(self) -> Path | None:
        """Return the newest complete checkpoint, or ``None``."""
        complete = [path for path in self.checkpoints.glob("checkpoint-*") if _is_complete(path)]
        return max(complete, key=step_of, default=None)

    def keep_checkpoints(self, max_bytes: float) -> None:
        """Delete the oldest checkpoints until those that are left have so many bytes at most; the newest stays."""
        left = max_bytes
        for number, checkpoint in enumerate(sorted(self.checkpoints.glob("checkpoint-*"), key=step_of, reverse=True)):
            left -= sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
            if number and left < 0:
                shutil.rmtree(checkpoint)

    def best_model(self) -> Path | None:
        """Return the folder of the model that was best in an evaluation in training; ``None`` if there is none."""
        return max(self.best.glob("checkpoint-*"), key=step_of, default=None)

    def best_reward(self) -> float | None:
        """Return the mean reward of that model in its evaluation; ``None`` if there is none."""
        best = self.best_model()
        if best is None:
            return None
        rewards = {row["step"]: row.get(evaluation_metric("")) for row in self.read_metrics()}
        return rewards.get(step_of(best))

    @contextmanager
    def new_best(self, step: int) -> Iterator[Path]:
        """Yield a path for the model of an optimiser step, which replaces the best one before when it is written."""
        self.best.mkdir(exist_ok=True)
        before = list(self.best.glob("checkpoint-*"))
        with draft_of(self.best / f"checkpoint-{step}") as draft:
            yield draft
        for other in before:
            shutil.rmtree(other)

    def forget_after(self, checkpoint: Path | None) -> None:
        """Drop what a killed run did after a checkpoint, or from the beginning, since it is going to be done again."""
        step = 0 if checkpoint is None else step_of(checkpoint)
        for later in [*self.checkpoints.glob("checkpoint-*"), *self.best.glob("checkpoint-*")]:
            if step_of(later) > step:
                shutil.rmtree(later)
        self.warnings.unlink(missing_ok=True)
        for file in (self.metrics, self.rollouts):
            if file.is_file():
                keep_objects(file, lambda row: bool(row["step"] <= step))

    def add_start(self, start: RunStart) -> None:
        """Append a start of the run."""
        append_object(self.starts, start.as_json())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a lock on the file of starts for the block, by which others see that the run is under way.

        The lock ends with the process, whatever ends it. A file system without locks shows no run as under way.
        """
        with self.starts.open("a", encoding="utf-8") as file:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def read_starts(self) -> list[RunStart]:
        """Return the starts of the run, the first one first."""
        return list(_starts_of(read_objects(self.starts)))

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Append a line of metrics."""
        append_object(self.metrics, row)

    def add_rollouts(self, row: dict[str, Any]) -> None:
        """Append the episodes of an optimiser step."""
        append_object(self.rollouts, row)

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics, without those that were cut off."""
        return read_objects(self.metrics)

    def metrics_after(self, offset: int, mark: str = "") -> MetricsPage:
        """Return the lines of metrics after an offset.

        Args:
            offset: Bytes that were read before.
            mark: Their mark. Where the file does not have them any more, as after a resumption, it is read anew.
        """
        if not self.metrics.is_file():
            return MetricsPage(0, [], 0, "")
        with self.metrics.open("rb") as file:
            start = offset if _mark(file, offset) == mark else 0
            file.seek(start)
            content = file.read(_MAX_PAGE_BYTES)
            whole = content[: content.rfind(b"\n") + 1]
            end = start + len(whole)
            return MetricsPage(start, objects_of(whole.splitlines()), end, _mark(file, end))

    def rollouts_at(self, step: int | None) -> tuple[int | None, list[dict[str, Any]]]:
        """Return the lines of an optimiser step in ``rollouts.jsonl``, by default of the last one, and its number."""
        lines = rollouts_of(self._steps.lines(step))
        return (lines[0]["step"], lines) if lines else (None, [])

    def add_times(self, seconds: Mapping[str, float]) -> None:
        """Add seconds by what they went to, which no step has, whole or not at all."""
        known = self.read_times()
        write_json(self.times, {name: known.get(name, 0.0) + seconds.get(name, 0.0) for name in {**known, **seconds}})

    def read_times(self) -> dict[str, float]:
        """Return the seconds that no step has, by what they went to."""
        with suppress(ConfigurationError, ValidationError):  # there are none yet, or another program's
            return _SECONDS.validate_python(read_json(self.times))
        return {}

    def run_times(self) -> RunTimes:
        """Return the time of the run so far, by what it went to."""
        return RunTimes.of(self.read_metrics(), self.read_times())

    def read_scores(self) -> dict[str, Score]:
        """Return the scores so far, by the player's name, without what is no score."""
        try:
            scores = read_json(self.scores)
        except ConfigurationError:  # there are none yet
            return {}
        return dict(_scores_of(scores)) if isinstance(scores, dict) else {}

    def write_scores(self, scores: dict[str, Score]) -> None:
        """Write the scores, whole or not at all."""
        write_json(self.scores, {name: asdict(score) for name, score in scores.items()})

    def read_warnings(self) -> list[str]:
        """Return the warnings so far; none where an earlier version has written none."""
        try:
            warnings = read_json(self.warnings)
        except ConfigurationError:
            return []
        return [str(warning) for warning in warnings] if isinstance(warnings, list) else []

    def write_warnings(self, warnings: Sequence[str]) -> None:
        """Write the warnings, whole or not at all."""
        write_json(self.warnings, list(warnings))

    def last_rollouts(self, steps: int) -> list[dict[str, Any]]:
        """Return the lines of the last optimiser steps in ``rollouts.jsonl``."""
        last, lines = self.rollouts_at(None)
        if last is None:
            return []
        before = (self.rollouts_at(step)[1] for step in range(max(1, last - steps + 1), last))
        return [*(line for each in before for line in each), *lines]

    def _environments(self) -> list[str]:
        """Return the names of several environments; of one, an empty name."""
        environments = self.read_settings().get("environments")
        return list(environments) if isinstance(environments, dict) and environments else [""]

    def _is_held(self) -> bool:
        """Return whether a process runs the training: it holds a lock on the file of starts, whatever ends it."""
        with self.starts.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            except OSError:  # a file system without locks
                return False
        return False


def rollouts_of(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the lines of ``rollouts.jsonl`` that have episodes, whatever has written the others."""
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


def _scores_of(scores: Mapping[str, Any]) -> Iterator[tuple[str, Score]]:
    for name, fields in scores.items():
        with suppress(ValidationError):
            yield name, _SCORE.validate_python(fields)


def _starts_of(lines: Iterable[Mapping[str, Any]]) -> Iterator[RunStart]:
    for fields in lines:
        with suppress(ValidationError):
            yield _START.validate_python(fields)


def _mark(file: BinaryIO, offset: int) -> str:
    """Return a short text that differs where the bytes before an offset do; no text at the file's beginning."""
    start = max(0, offset - _MARKED_BYTES)
    file.seek(start)
    before = file.read(offset - start)
    return f"{len(before)}-{crc32(before):x}" if before else ""


def step_of(checkpoint: Path) -> int:
    """Return the number of optimiser steps that were done when a checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _is_complete(checkpoint: Path) -> bool:
    # The trainer writes this file last.
    try:
        return "global_step" in read_json(checkpoint / "trainer_state.json")
    except ConfigurationError:
        return False
