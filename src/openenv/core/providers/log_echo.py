"""Shows on this process's standard error what a server writes into its log file."""

import codecs
import os
import sys
from contextlib import suppress
from threading import Event, Thread
from typing import BinaryIO

_EVERY_S = 0.1
_CHUNK = 65536


class LogEcho:
    """Copies a log file to ``sys.stderr`` as it grows, in a thread of its own.

    The file is read again and again, and no pipe stands in between: the server then waits for no reader, and
    goes on printing where this process has died.

    Args:
        log: The file, from whose beginning it is copied.
    """

    def __init__(self, log: BinaryIO) -> None:
        self._log = log
        self._position = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._ending = Event()
        self._thread = Thread(target=self._run, name="openenv-log-echo", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Copy what is left, and stop. The file can be closed then."""
        self._ending.set()
        self._thread.join()
        self._copy()

    def _run(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self._copy()

    def _copy(self) -> None:
        while chunk := os.pread(self._log.fileno(), _CHUNK, self._position):
            self._position += len(chunk)
            # There may be no standard error (any more), as in a program without a console.
            with suppress(AttributeError, OSError, ValueError):
                sys.stderr.write(self._decoder.decode(chunk))
                sys.stderr.flush()
