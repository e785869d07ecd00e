"""The first process of a sandbox: takes requests from the server, and runs what they hold in processes of their own.

It never runs the model's code itself. Those processes run as the same user, so it keeps them from its memory and its
descriptors; being process 1 of the sandbox, it can't be killed from there. When the server goes, it ends, and the
kernel ends all others with it.
"""

import gc
import os
import select
import signal
from contextlib import suppress

from . import files
from .commands import Command, run_command, run_program
from .frames import Frame, pack, read_frame
from .kernel import adopt_orphans, die_with_parent, drop_capabilities, hide_memory
from .metering import ServerGoneError
from .processes import end_others
from .python import Python
from .settings import Settings
from .shell import Shell
from .worker import compile_only

_MOST_BODY_BYTES = 2**30
_LOOK_S = 0.2


class Init:
    """Answers the server's requests, one after another.

    Args:
        control: The descriptor of the socket to the server.
        settings: Limits, and where files are.
    """

    def __init__(self, control: int, settings: Settings) -> None:
        self._control = control
        self._settings = settings
        self._shell = Shell(settings.work)
        self._python = Python(settings)

    def serve(self) -> None:
        """Answer until the server goes."""
        with suppress(EOFError, ServerGoneError, ConnectionError):
            _send(self._control, pack({"ready": True}))
            while True:
                self._wait()
                request = receive_frame(self._control)
                _send(self._control, self._answer(request))
        end_others()

    def _wait(self) -> None:
        """Wait for a request, while none of the model's processes runs."""
        self._python.rest()
        while not select.select([self._control], [], [], _LOOK_S)[0]:
            self._python.end_if_awake()

    def _answer(self, request: Frame) -> bytes:
        head, body = request
        try:
            match head["operation"]:
                case "run":
                    folder = f"{self._settings.work}/{head['folder']}"
                    command = Command(head["argv"], os.environ | head["environment"], folder, body, head["wall_s"])
                    result = run_command(command, self._control, self._settings, [self._python.pid])
                    return self._python.after(result).pack()
                case "shell":
                    arguments = (head["wall_s"], self._control, self._settings, [self._python.pid])
                    return self._python.after(self._shell.run(body.decode(), *arguments)).pack()
                case "python":
                    return self._python.run(body, head["echo"], head["wall_s"], self._control).pack()
                case "compile":
                    keep = [self._python.pid]
                    return run_program(compile_only, body, head["wall_s"], self._control, self._settings, keep).pack()
                case "write":
                    files.write_file(self._settings.work, head["path"], body)
                    return pack({"done": True})
                case _:
                    return pack({"done": True}, files.read_file(self._settings.work, head["path"], head["most_bytes"]))
        except OSError as error:
            return pack({"refused": error.strerror or str(error)})
        except ValueError as error:
            return pack({"refused": str(error)})


def receive_frame(control: int) -> Frame:
    """Wait for a request.

    Raises:
        EOFError: The server has gone.
    """

    def receive(count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = os.read(control, min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    return read_frame(receive, _MOST_BODY_BYTES)


def main() -> None:
    """Run init; descriptor 0 is the socket to the server."""
    control = _take_socket()
    settings = Settings(**receive_frame(control).head)
    if settings.user is not None:
        _become(settings.user)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # which process 1 does not die of, while Python's handler would raise
    if settings.confined:
        die_with_parent()  # which is bubblewrap's process outside
    hide_memory(True)
    adopt_orphans()
    os.umask(0o022)
    gc.freeze()
    Init(control, settings).serve()


def _send(control: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(control, left) :]


def _take_socket() -> int:
    """Move the socket from 0, where the model's processes would expect their input."""
    control = os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.close(null)
    return control


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    drop_capabilities()
