"""The folder of a training run: what lies where, and that no run overwrites another."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from openenv.core.documents import DocumentError, parse_json, read_json
from openenv.core.exceptions import ConfigurationError
from openenv.train.episodes.scores import AFTER, Score, sampled, score_name
from openenv.train.settings.config import TrainConfig, load_config
from openenv.train.settings.run_start import RunStart

__all__ = ["RunFolder", "read_lines", "step_of"]


class RunFolder:
    """Where a run keeps its files.

    ::

        runs/catch-tiny-20260301-120000/
          config.yaml     the settings; `openenv train --config` takes it
          starts.jsonl    when it was started and gone on with, by which command, with which versions
          metrics.jsonl   one line for each optimiser step
          rollouts.jsonl  the episodes of each optimiser step: task, reward and length
          traces.db       the same episodes and those of evaluations, by requests and tokens; see openenv.traces
          warm_up/        the model after the examples, if there are any, and warm_up/metrics.jsonl
          scores.json     mean rewards before and after, and of the other players
          checkpoints/    checkpoint-100/ and so on, to resume from
          model/          the trained model and its tokenizer
          curve.png
          report.html     written last, and by a run that is interrupted

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.starts = path / "starts.jsonl"
        self.metrics = path / "metrics.jsonl"
        self.rollouts = path / "rollouts.jsonl"
        self.traces = path / "traces.db"
        self.scores = path / "scores.json"
        self.warm_up = path / "warm_up"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.curve = path / "curve.png"
        self.report = path / "report.html"

    @classmethod
    def create(cls, config: TrainConfig, environment: str) -> "RunFolder":
        """Make the folder of a new run.

        Args:
            config: The run's settings; they are written into the folder.
            environment: Short name of the environment.

        Returns:
            The folder.

        Raises:
            ConfigurationError: The settings name a folder that is there already.
        """
        label = f"{environment}-{Path(config.model).name}"
        stem = re.sub(r"[^\w.-]+", "-", config.name or f"{label}-{datetime.now():%Y%m%d-%H%M%S}")
        path = config.output_dir / stem
        number = 1
        while not _made(path):
            if config.name:
                raise ConfigurationError(
                    f"{path} is there already, and a run never overwrites another. Choose another --name, "
                    f"or go on with that run by --resume {path}."
                )
            number += 1
            path = config.output_dir / f"{stem}-{number}"
        folder = cls(path)
        config.save(folder.config)
        return folder

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

    def has_ended(self, config: TrainConfig) -> bool:
        """Whether the run came to its end; an interrupted one may have a report, too.

        Args:
            config: The run's settings.
        """
        return self.report.exists() and self.is_scored(config)

    def is_scored(self, config: TrainConfig) -> bool:
        """Whether the trained model was evaluated.

        Args:
            config: The run's settings.
        """
        scores = self.read_scores()
        return all(score_name(AFTER, name) in scores for name in config.parts)

    def begin_again(self, config: TrainConfig) -> None:
        """Take up a run that is gone on with: a longer one has no end yet.

        Args:
            config: The run's settings, maybe with more steps.
        """
        self.report.unlink(missing_ok=True)
        if config == self.load_config():
            return
        ends = tuple(score_name(name, part) for name in (AFTER, sampled(AFTER)) for part in config.parts)
        self.write_scores({name: score for name, score in self.read_scores().items() if name not in ends})
        config.save(self.config)

    def load_config(self) -> TrainConfig:
        """Read the settings."""
        return load_config(self.config)

    def last_checkpoint(self) -> Path | None:
        """Return the newest complete checkpoint, or ``None``."""
        complete = [path for path in self.checkpoints.glob("checkpoint-*") if _is_complete(path)]
        return max(complete, key=step_of, default=None)

    def forget_after(self, checkpoint: Path | None) -> None:
        """Drop what a killed run did after a checkpoint, since it is going to be done again.

        Args:
            checkpoint: The checkpoint to go on from; ``None`` for the very beginning.
        """
        step = 0 if checkpoint is None else step_of(checkpoint)
        for later in self.checkpoints.glob("checkpoint-*"):
            if step_of(later) > step:
                shutil.rmtree(later)
        for file in (self.metrics, self.rollouts):
            if file.is_file():
                _keep_steps(file, step)

    def add_start(self, start: RunStart) -> None:
        """Append a start of the run."""
        _append(self.starts, json.dumps(start.as_json()))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a lock on the file of starts for the block, by which others see that the run is under way.

        The lock ends with the process, whatever ends it. A file system without locks shows no run as under way.
        """
        with self.starts.open("a") as file:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def read_starts(self) -> list[RunStart]:
        """Return the starts of the run, the first one first."""
        return [RunStart(**fields) for fields in read_lines(self.starts)]

    def add_metrics(self, row: dict[str, Any]) -> None:
        """Append a line of metrics."""
        _append(self.metrics, json.dumps(row))

    def add_rollouts(self, row: dict[str, Any]) -> None:
        """Append the episodes of an optimiser step."""
        _append(self.rollouts, json.dumps(row, default=str))

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics, without those that were cut off."""
        return read_lines(self.metrics)

    def read_scores(self) -> dict[str, Score]:
        """Return the scores so far, by the player's name."""
        if not self.scores.is_file():
            return {}
        return {name: Score(**fields) for name, fields in read_json(self.scores).items()}

    def write_scores(self, scores: dict[str, Score]) -> None:
        """Write the scores, whole or not at all."""
        draft = self.scores.with_suffix(".draft")
        draft.write_text(json.dumps({name: asdict(score) for name, score in scores.items()}, indent=1))
        draft.replace(self.scores)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one in each line, without lines that were cut off; none if there is no file."""
    if not file.is_file():
        return []
    with file.open() as lines:
        return [row for _, row in _rows(lines)]


def _rows(lines: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each whole line with its object."""
    for line in lines:
        # The last line may be cut off by a kill, one further up by a full disk.
        with suppress(DocumentError):
            yield line, parse_json(line)


def _append(file: Path, line: str) -> None:
    """Append a line, after the end of one that was cut off."""
    with file.open("a+b") as lines:
        if lines.seek(0, os.SEEK_END):
            lines.seek(-1, os.SEEK_END)
            if lines.read() != b"\n":
                lines.write(b"\n")
        lines.write(f"{line}\n".encode())


def _keep_steps(file: Path, step: int) -> None:
    """Drop the lines of later steps than one, all of them or, where the file can't be written, none."""
    draft = file.with_suffix(".draft")
    with file.open() as lines, draft.open("w") as kept:
        kept.writelines(line for line, row in _rows(lines) if row["step"] <= step)
    draft.replace(file)


def _made(path: Path) -> bool:
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def step_of(checkpoint: Path) -> int:
    """Return the number of optimiser steps that were done when a checkpoint was written."""
    return int(checkpoint.name.removeprefix("checkpoint-"))


def _is_complete(checkpoint: Path) -> bool:
    # The trainer writes this file last.
    try:
        return "global_step" in read_json(checkpoint / "trainer_state.json")
    except ConfigurationError:
        return False
