"""Ctrl-C and SIGTERM during a training: the optimiser step is finished and kept, then the process ends."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interruption", "TrainingInterruptedError"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2


class TrainingInterruptedError(KeyboardInterrupt):
    """A signal has ended a training; ``exit_status`` is what a process that ends by it returns to a shell."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number
        self.exit_status = 128 + number


class Interruption:
    """Ends a training by a signal: within `steps` after the step under way, elsewhere or a second time at once."""

    def __init__(self) -> None:
        # The signal that came within `steps`; ``None`` as long as there was none.
        self.received: int | None = None
        # Within `steps`.
        self._in_steps = False
        # The handlers that were there, for `__exit__`.
        self._before: dict[signal.Signals, Any] = {}

    @contextmanager
    def steps(self) -> Iterator[None]:
        """Let a signal wait for the end of the optimiser step, as long as this context lasts."""
        self._in_steps = True
        try:
            yield
        finally:
            self._in_steps = False

    def raise_if_received(self) -> None:
        """Raise `TrainingInterruptedError` if a signal came within `steps`."""
        if self.received is not None:
            raise TrainingInterruptedError(self.received)

    def __enter__(self) -> Self:
        """Install the handlers."""
        # Python has no signals in other threads, where this does nothing.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._receive) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Restore the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if not self._in_steps or self.received is not None:
            raise TrainingInterruptedError(number)
        self.received = number
        # Past Python's buffers, whose locks the interrupted code may hold.
        os.write(_STDERR, b"\nInterrupted: this step is finished and kept. Once more ends the training at once.\n")
