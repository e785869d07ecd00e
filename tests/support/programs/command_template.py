"""Runs programs in forks of itself, for tests/support/forked.py: what they import is loaded once, here.

The arguments are the number of a socket and modules to import. A request comes over the socket: a JSON object with the
words after ``python``, the folder and the variables, and with it the descriptors of the program's standard streams and
of a pipe. The program's process id and then its exit status are written to the pipe, a line each.
"""

import gc
import io
import json
import os
import runpy
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any


def serve(control: socket.socket) -> dict[str, Any]:
    """Fork for each request; return, in the fork alone, what it is to run."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            fork_and_report(*descriptors)
            return dict(json.loads(message))
        for descriptor in descriptors:
            os.close(descriptor)
        with suppress(ChildProcessError):  # there is none
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def fork_and_report(stdin: int, stdout: int, stderr: int, pipe: int) -> None:
    """Fork the program, and stay to tell how it ends, as only its parent can; returns in the program alone."""
    pid = os.fork()
    if pid == 0:
        os.close(pipe)
        for place, descriptor in enumerate((stdin, stdout, stderr)):
            os.dup2(descriptor, place)
            os.close(descriptor)
        return
    for descriptor in (0, 1, 2, stdin, stdout, stderr):  # who reads them is to see them end with the program
        os.close(descriptor)
    with suppress(BrokenPipeError):  # nobody asks any more
        os.write(pipe, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(pipe, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def become(words: list[str], folder: str, variables: dict[str, str], *, leads_session: bool) -> None:
    """Go on as Python would that had been started so, up to the program's first line."""
    if leads_session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    unbuffered = bool(variables.get("PYTHONUNBUFFERED"))
    output = open(1, "wb", 0 if unbuffered else -1, closefd=False)  # noqa: SIM115  # open to the end
    sys.stdout = io.TextIOWrapper(output, "utf-8", write_through=unbuffered)
    errors = open(2, "wb", closefd=False)  # noqa: SIM115  # open to the end
    sys.stderr = io.TextIOWrapper(errors, "utf-8", "backslashreplace", line_buffering=True)
    is_module = words[0] == "-m"
    sys.argv[:] = words[is_module:]
    first = folder if is_module else str(Path(words[0]).resolve().parent)
    paths = [path for path in variables.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path]
    sys.path[0:1] = [first, *paths]


if __name__ == "__main__":
    for module in sys.argv[2:]:
        import_module(module)
    gc.freeze()  # else each fork would look through all of it, and so copy it
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    become(asked["words"], asked["folder"], asked["variables"], leads_session=asked["leads_session"])
    if asked["words"][0] == "-m":
        runpy.run_module(asked["words"][1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(asked["words"][0], run_name="__main__")
