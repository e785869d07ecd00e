"""Programs of Python in processes of their own, without the second of the processor that each start costs.

They are forked from one process that has imported what the commands import, or whatever a test names, and differ from
started ones in nothing else: variables, folder, streams, signals and exit status are theirs. What a program imports
itself is read in its own process. A test of how Python starts, or of what is imported then, starts it itself.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

PROGRAM = Path(__file__).parent / "programs" / "command_template.py"


@dataclass(frozen=True)
class Template:
    """A process to fork programs from.

    Attributes:
        python: Its interpreter.
        modules: What it has imported.
    """

    python: Path
    modules: tuple[str, ...]


_COMMANDS = ("collect", "doctor", "eval", "info", "init", "list", "mcp", "play", "serve", "traces", "validate")
COMMANDS = Template(Path(sys.executable), tuple(f"openenv.cli.commands.{command}" for command in _COMMANDS))
"""Has the commands that tests start most often."""


@cache
def _started(template: Template) -> socket.socket:
    """Start the process to fork from; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [str(template.python), str(PROGRAM), str(theirs.fileno()), *template.modules]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(_end, process, ours)
    return ours


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.close()
    process.wait()


class ForkedProgram:
    """A running program, with what tests use of ``subprocess.Popen``.

    Args:
        words: What would follow ``python``: a file or ``-m`` and a module, then arguments.
        cwd: Its folder.
        env: Its variables.
        stdin: Its standard input, as for ``subprocess.Popen``: a descriptor, ``PIPE``, ``DEVNULL``, or this process's.
        stdout: Its standard output.
        stderr: Its standard error; with ``STDOUT`` it goes where standard output goes.
        start_new_session: Whether it leads a session and a process group of its own.
        template: What it is forked from.
    """

    def __init__(
        self,
        words: list[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        start_new_session: bool = False,
        template: Template = COMMANDS,
    ) -> None:
        self.args = words
        self.returncode: int | None = None
        request = {"words": words, "folder": str(cwd), "variables": dict(env), "leads_session": start_new_session}
        told, tells = os.pipe()
        self._told = os.fdopen(told, "rb", buffering=0)
        with ExitStack() as its:
            its.callback(os.close, tells)
            theirs_in, ours_in = _stream(stdin, 0, its)
            theirs_out, ours_out = _stream(stdout, 1, its)
            theirs_err, ours_err = _stream(theirs_out if stderr == subprocess.STDOUT else stderr, 2, its)
            streams = [theirs_in, theirs_out, theirs_err]
            socket.send_fds(_started(template), [json.dumps(request).encode()], [*streams, tells])
        self.stdin = None if ours_in is None else os.fdopen(ours_in, "w", encoding="utf-8")
        self.stdout = None if ours_out is None else os.fdopen(ours_out, encoding="utf-8")
        self.stderr = None if ours_err is None else os.fdopen(ours_err, encoding="utf-8")
        self.pid = int(self._told.readline())

    def poll(self) -> int | None:
        """The exit status, negative for a signal; ``None`` while it runs."""
        if self.returncode is None and select.select([self._told], [], [], 0)[0]:
            self.returncode = int(self._told.readline())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; return the exit status."""
        if self.returncode is None and not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        status = self.poll()
        assert status is not None
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and its exit status is on the way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()
        self._told.close()


def _stream(given: int | None, number: int, its: ExitStack) -> tuple[int, int | None]:
    """Return the descriptor that the program gets, closed here with ``its``, and this process's end of a pipe."""
    if given is None:
        return number, None
    if given == subprocess.DEVNULL:
        null = os.open(os.devnull, os.O_RDWR)
        its.callback(os.close, null)
        return null, None
    if given != subprocess.PIPE:
        return given, None
    reading, writing = os.pipe()
    theirs, ours = (reading, writing) if number == 0 else (writing, reading)
    its.callback(os.close, theirs)
    return theirs, ours


def run_forked(
    words: list[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    typed: str = "",
    timeout: float,
    merged: bool = False,
    template: Template = COMMANDS,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as ``subprocess.run`` does.

    Args:
        words: What would follow ``python``.
        cwd: Its folder.
        env: Its variables.
        typed: What its standard input holds.
        timeout: Seconds until it is killed.
        merged: Whether standard error goes where standard output goes.
        template: What it is forked from.

    Returns:
        How it ended, and what it wrote.

    Raises:
        subprocess.TimeoutExpired: It took longer.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        files: Any = {"stdout": output.fileno(), "stderr": (output if merged else errors).fileno()}
        with ForkedProgram(words, cwd=cwd, env=env, stdin=subprocess.PIPE, template=template, **files) as process:
            try:
                assert process.stdin is not None
                with suppress(BrokenPipeError):  # it ended without reading
                    process.stdin.write(typed)  # no more than the pipe holds
                    process.stdin.close()
                status = process.wait(timeout)
            finally:
                process.kill()
        return subprocess.CompletedProcess(words, status, _text_of(output), _text_of(errors))


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
