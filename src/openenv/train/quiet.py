"""Keep the training libraries from talking over the progress display.

Each switch below is the library's own, or names one message and says why it is of no use to who runs a training.
Other warnings still come through.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging as transformers_logging

__all__ = ["quiet_libraries"]


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Turn off the libraries' progress bars and the notices that a user can do nothing about."""
    had_progress_bars = transformers_logging.is_progress_bar_enabled()
    # TRL asks for this variable from those who know that rollout_func may change.
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with warnings.catch_warnings():
            # TRL 1.16 uses a name that transformers 5.23 renamed.
            warnings.filterwarnings("ignore", r"`is_gradient_checkpointing` is deprecated", FutureWarning)
            yield
    finally:
        if had_progress_bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
