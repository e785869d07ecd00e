"""Keep the training libraries from talking over the progress display.

Each switch below is the library's own, or is of one message, beside the reason why it is of no use to a user.
Other warnings still come through.
"""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from datasets.utils import (  # type: ignore[import-untyped]
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from transformers.utils import logging as transformers_logging

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["quiet_about_tied_weights", "quiet_libraries"]


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Turn off the libraries' progress bars and the notices that a user can do nothing about."""
    had_progress_bars = transformers_logging.is_progress_bar_enabled()
    # TRL warns without this variable that rollout_func may change.
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    had_bars_of_datasets = not are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    disable_progress_bars()
    try:
        with (
            # Two checkpoints within a second are ordered by their numbers instead, which is as good.
            _without("transformers.trainer_utils", "mtime may not be reliable"),
            # An episode that failed has no reward on purpose, and is counted under the kind of its failure.
            _without("trl.trainer.grpo_trainer", "All reward functions returned None"),
            warnings.catch_warnings(),
        ):
            # TRL 1.16 uses names that transformers 5.23 has changed.
            warnings.filterwarnings("ignore", r"`(is_)?gradient_checkpointing\w*` is deprecated", FutureWarning)
            yield
    finally:
        if had_bars_of_datasets:
            enable_progress_bars()
        if had_progress_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def quiet_about_tied_weights(model: "PreTrainedModel") -> AbstractContextManager[None]:
    """Hide the notice that a checkpoint lacks a model's output layer, where that is its input embedding."""
    # It is saved once, and the same tensor after it is loaded. A model with an output layer of its own lacks it.
    if not model.config.tie_word_embeddings:
        return nullcontext()
    return _without("transformers.trainer", "missing keys in the checkpoint model loaded: ['lm_head.weight']")


@contextmanager
def _without(logger: str, notice: str) -> Iterator[None]:
    """Hide the messages of a library's logger that contain a notice."""
    without = _Without(notice)
    logging.getLogger(logger).addFilter(without)
    try:
        yield
    finally:
        logging.getLogger(logger).removeFilter(without)


class _Without(logging.Filter):
    def __init__(self, notice: str) -> None:
        super().__init__()
        self._notice = notice

    def filter(self, record: logging.LogRecord) -> bool:
        return self._notice not in record.getMessage()
