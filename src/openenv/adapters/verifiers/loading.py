"""Parts of an environment of verifiers: made by its ``load_environment``, its tasks and its rubric."""

import logging
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.core.rewards.verifiers_rubrics import VerifiersRubric
from openenv.core.tasks import TaskRef, TaskSource

__all__ = ["VerifiersTasks", "load_verifiers"]

logger = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class VerifiersTasks(TaskSource):
    """Rows of an environment's datasets: the split ``train`` has those to train on, ``eval`` those to evaluate on.

    Attributes:
        loaded: The environment, as ``load_environment`` returned it.
    """

    loaded: Any

    @property
    def rubric(self) -> VerifiersRubric:
        """The environment's rubric."""
        rubric: VerifiersRubric = self.loaded.rubric
        return rubric

    @cached_property
    def splits(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The rows of each split."""
        rows = {
            "train": _rows(self.loaded.get_dataset, "train"),
            "eval": _rows(self.loaded.get_eval_dataset, "eval"),
        }
        if rows["eval"] is rows["train"]:  # verifiers evaluates on these where there are no others
            del rows["eval"]
        return {split: found for split, found in rows.items() if found is not None}

    @property
    def task_counts(self) -> Mapping[str, int]:
        """Number of rows of each split."""
        return {split: len(rows) for split, rows in self.splits.items()}

    def row(self, task_ref: TaskRef) -> dict[str, Any]:
        """Return a row."""
        return dict(self.splits[task_ref.split][task_ref.index])


def load_verifiers(load_environment: Any, arguments: Mapping[str, Any]) -> VerifiersTasks:
    """Make an environment of verifiers. Call it where a module is imported: verifiers wants the main thread.

    Args:
        load_environment: The project's function.
        arguments: Its arguments.

    Raises:
        ConfigurationError: It can't be called so, or returns no environment with datasets and a rubric.
    """
    try:
        with _signals_kept():
            loaded = load_environment(**arguments)
    except TypeError as error:
        raise ConfigurationError(
            f"load_environment can't be called with {dict(arguments)}: {error}. Change ARGUMENTS in the environment's "
            "module."
        ) from error
    missing = [name for name in ("get_dataset", "get_eval_dataset", "rubric") if not hasattr(loaded, name)]
    if missing or not hasattr(loaded.rubric, "score_rollout"):
        raise ConfigurationError(
            f"Expected load_environment to return an environment of verifiers with {', '.join(missing) or 'a rubric'}, "
            f"got {loaded!r:.100}."
        )
    return VerifiersTasks(loaded)


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the handlers of signals, which verifiers replaces; those of a server would not run."""
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for each, handler in before.items():
                if handler is not None:
                    signal.signal(each, handler)


def _rows(read: Any, split: str) -> Sequence[Mapping[str, Any]] | None:
    try:
        rows: Sequence[Mapping[str, Any]] = read()
    except (AssertionError, ValueError):  # verifiers says so that there is no such dataset; a broken one may, too
        logger.warning("The split %s has no tasks: its dataset is missing or broken.", split, exc_info=True)
        return None
    return rows
