"""End of a command whose standard input is closed: the program that started it has ended."""

import os
import signal
import threading
import time

_GRACE_S = 10.0


def watch_stdin() -> None:
    """End this process, and those that it started, when its standard input is closed: in order, else by force."""
    threading.Thread(target=_stop_on_eof, name="stop-on-eof", daemon=True).start()


def _stop_on_eof() -> None:
    # Not sys.stdin: Python could not end while this thread holds its lock.
    while os.read(0, 1024):
        pass
    _signal_all(signal.SIGTERM)
    time.sleep(_GRACE_S)
    _signal_all(signal.SIGKILL)


def _signal_all(number: int) -> None:
    """Signal this process and, where it leads a process group, that group."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), number)
    else:
        os.kill(os.getpid(), number)
