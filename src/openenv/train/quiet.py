"""Keep the training libraries from talking over the progress display.

Each switch below is the library's own, or names one message and says why it is of no use to who runs a training.
Other warnings still come through.
"""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from datasets.utils import (  # type: ignore[import-untyped]
    are_progress_bars_disabled,
    disable_progress_bars,
    enable_progress_bars,
)
from transformers.utils import logging as transformers_logging

__all__ = ["quiet_libraries"]


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Turn off the libraries' progress bars and the notices that a user can do nothing about."""
    had_progress_bars = transformers_logging.is_progress_bar_enabled()
    checkpoints = logging.getLogger("transformers.trainer_utils")
    # TRL asks for this variable from those who know that rollout_func may change.
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    had_bars_of_datasets = not are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    disable_progress_bars()
    checkpoints.addFilter(_is_no_notice_of_checkpoints)
    try:
        with warnings.catch_warnings():
            # TRL 1.16 uses names that transformers 5.23 has changed.
            warnings.filterwarnings("ignore", r"`(is_)?gradient_checkpointing\w*` is deprecated", FutureWarning)
            yield
    finally:
        checkpoints.removeFilter(_is_no_notice_of_checkpoints)
        if had_bars_of_datasets:
            enable_progress_bars()
        if had_progress_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _is_no_notice_of_checkpoints(record: logging.LogRecord) -> bool:
    # Two checkpoints within a second are ordered by their numbers instead, which is as good.
    return "mtime may not be reliable" not in record.getMessage()
