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


_USELESS_NOTICES = {
    # Two checkpoints within a second are ordered by their numbers instead, which is as good.
    "transformers.trainer_utils": "mtime may not be reliable",
    # Of a model whose output layer is its input embedding: saved once, and the same tensor after it is loaded.
    "transformers.trainer": "missing keys in the checkpoint model loaded: ['lm_head.weight']",
}
"""What of a library's logger is kept back, by the logger's name."""


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Turn off the libraries' progress bars and the notices that a user can do nothing about."""
    had_progress_bars = transformers_logging.is_progress_bar_enabled()
    filters = {name: _Without(notice) for name, notice in _USELESS_NOTICES.items()}
    # TRL asks for this variable from those who know that rollout_func may change.
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    had_bars_of_datasets = not are_progress_bars_disabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    disable_progress_bars()
    for name, without in filters.items():
        logging.getLogger(name).addFilter(without)
    try:
        with warnings.catch_warnings():
            # TRL 1.16 uses names that transformers 5.23 has changed.
            warnings.filterwarnings("ignore", r"`(is_)?gradient_checkpointing\w*` is deprecated", FutureWarning)
            yield
    finally:
        for name, without in filters.items():
            logging.getLogger(name).removeFilter(without)
        if had_bars_of_datasets:
            enable_progress_bars()
        if had_progress_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]


class _Without(logging.Filter):
    def __init__(self, notice: str) -> None:
        super().__init__()
        self._notice = notice

    def filter(self, record: logging.LogRecord) -> bool:
        return self._notice not in record.getMessage()
