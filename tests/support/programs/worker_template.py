"""Forks worker processes for pytest-xdist, for tests/support/workers.py: what tests import is loaded once, here.

The arguments are the path of a socket to listen on, and what to collect, as for pytest. A line on standard output says
when it listens. It ends when its standard input does.
"""

import contextlib
import io
import os
import select
import signal
import socket
import sys
from pathlib import Path
from types import ModuleType

import pytest

_BOOTSTRAP = "import sys; exec(eval(sys.stdin.readline()))"
"""What execnet has ``python -c`` run in a process that it starts."""


def collect(arguments: list[str]) -> None:
    """Import all tests, and leave nothing else changed. What is wrong with a test is for the workers to say."""
    folder, variables, paths = Path.cwd(), dict(os.environ), list(sys.path)
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", *arguments])
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[:] = paths


def serve(listener: socket.socket) -> None:
    """Fork a worker for each connection; return in a worker alone."""
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _, streams, _, _ = socket.recv_fds(connection, 1, 3)
            for place, descriptor in enumerate(streams):
                os.dup2(descriptor, place)
                os.close(descriptor)
            connection.detach()  # stays open as long as this process is there
            return
        connection.close()


def work() -> None:
    """Go on as the process would that execnet starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv[:] = ["-c"]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # open to the end
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(_BOOTSTRAP, vars(main))


if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as listener:
        collect(sys.argv[2:])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the workers
        listener.bind(sys.argv[1])
        listener.listen()
        os.write(1, b"listens\n")
        serve(listener)
    work()
