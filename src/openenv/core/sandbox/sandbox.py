"""A sandbox as environments use it: commands, a shell, an interpreter, files."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError, SandboxFileError
from openenv.core.sandbox.execution import Execution
from openenv.core.sandbox.guest.frames import MOST_HEAD_BYTES, Frame
from openenv.core.sandbox.limits import SandboxLimits
from openenv.core.sandbox.link import LinkBrokenError
from openenv.core.sandbox.process import Kind, SandboxProcess

# What the first process gets beyond a call's own time, to end what the code has left behind and to answer.
_GRACE_S = 5.0
_FILE_TIMEOUT_S = 10.0
_GONE_EXIT_CODE = 137

_STOPPED = {
    "wall": "The code was ended after {wall_s:g} s, the longest that it may take.",
    "cpu": "The code was ended: it used more than {cpu_s:g} s of CPU.",
    "memory": "The code was ended: it used more than {memory_bytes} bytes of memory.",
    "files": "The code was ended: there were more than {disk_files} files and folders.",
    "ended": "The interpreter has ended itself.",
    "threads": "The interpreter was ended, because threads that the code had started could not be.",
    "broken": "The interpreter was ended, because it no longer answered.",
}
_FRESH = " Variables are lost: the next code runs in a fresh interpreter."
_TOO_LONG = "the call has {length} bytes of arguments, of which {most} fit; put longer input into a file"
_REPLACED = "The sandbox was replaced, because the code had left it unusable. Variables and files are lost."


class Sandbox:
    """A place of its own for code that a model wrote, with a disk, a shell and an interpreter. Calls block.

    What one call starts, processes and threads, ends with the call; files, the shell's folder and exported variables,
    and the interpreter's variables stay for the next. It is for one thread at a time.

    Args:
        limits: What code in it may use.
        kind: How it is kept in: ``auto`` takes bubblewrap and fails where it is missing; ``none`` keeps nothing in.
        packages: Names of installed distributions that its Python may import, with what they require; beyond these
            there is the standard library only.

    Raises:
        ConfigurationError: There is no such kind, or a package is not installed.
        SandboxUnavailableError: None can be had here, and why.

    Example::

        with Sandbox() as sandbox:
            sandbox.python("x = 6 * 7")
            print(sandbox.python("print(x)").stdout)
            sandbox.write_file("notes/a.txt", "hello")
            print(sandbox.shell("cd notes && cat a.txt").stdout)
    """

    def __init__(self, limits: SandboxLimits | None = None, kind: Kind = "auto", packages: Sequence[str] = ()) -> None:
        self._limits = limits or SandboxLimits()
        self._kind = kind
        self._packages = tuple(packages)
        self._process: SandboxProcess | None = SandboxProcess(self._limits, kind, self._packages)
        self._closed = False

    @property
    def limits(self) -> SandboxLimits:
        """What code in it may use."""
        return self._limits

    @property
    def alive(self) -> bool:
        """Whether it runs. One that has broken down is replaced at the next call."""
        return self._process is not None and self._process.alive

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes | str = b"",
        folder: str = "",
        environment: Mapping[str, str] | None = None,
        wall_s: float | None = None,
    ) -> Execution:
        """Run a command.

        Args:
            argv: The command and its arguments; no shell reads them.
            stdin: What it may read.
            folder: Where it runs, from the work folder on.
            environment: Variables that it has besides ``PATH``, ``HOME`` and the like.
            wall_s: Seconds that it may take, if less than the limit.

        Returns:
            What it gave.

        Raises:
            ConfigurationError: There is no command, or the sandbox is closed.
        """
        if not argv:
            raise ConfigurationError("There is no command to run; expected at least the name of a program.")
        head = {"operation": "run", "argv": list(argv), "folder": folder, "environment": dict(environment or {})}
        return self._execute(head, stdin, wall_s)

    def shell(self, command: str, *, wall_s: float | None = None) -> Execution:
        """Run a command of a shell, in the folder and with the exported variables that the last one has left.

        Args:
            command: In the language of bash, of which the machine's shell is used if it is another.
            wall_s: Seconds that it may take, if less than the limit.

        Returns:
            What it gave.
        """
        return self._execute({"operation": "shell"}, command, wall_s)

    def python(self, code: str, *, echo: bool = False, wall_s: float | None = None) -> Execution:
        """Run code in the interpreter, which keeps its variables for the next.

        Args:
            code: Python.
            echo: Whether to print the value of an expression at its end, unless that is ``None``: as JSON, or its
                ``repr``.
            wall_s: Seconds that it may take, if less than the limit.

        Returns:
            What it printed; ``exit_code`` is 1 where it raised, and the traceback is in ``stderr``.
        """
        return self._execute({"operation": "python", "echo": echo}, code, wall_s)

    def compiles(self, code: str) -> bool:
        """Return whether Python compiles code, by a fresh process that has run none; nothing of the code runs.

        Args:
            code: Python.
        """
        return self._execute({"operation": "compile"}, code, None).exit_code == 0

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file, and make the folders above it. Links are not followed.

        Args:
            path: From the work folder on, such as ``notes/a.txt``.
            data: Its contents; text is written as UTF-8.

        Raises:
            SandboxFileError: It can't be written, and why.
        """
        self._file({"operation": "write", "path": path}, _encoded(data), 0)

    def read_file(self, path: str, most_bytes: int = 2**20) -> bytes:
        """Read a file. Links are not followed.

        Args:
            path: From the work folder on, such as ``notes/a.txt``.
            most_bytes: A longer file is refused.

        Returns:
            Its contents.

        Raises:
            SandboxFileError: It can't be read, and why.
        """
        return self._file({"operation": "read", "path": path, "most_bytes": most_bytes}, b"", most_bytes).body

    def close(self) -> None:
        """End all that runs in it, and forget its files; more than once does no harm."""
        self._closed = True
        self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _execute(self, head: dict[str, Any], body: bytes | str, wall_s: float | None) -> Execution:
        self._opened()
        wall_s = self._limits.wall_s if wall_s is None else min(wall_s, self._limits.wall_s)
        started = time.monotonic()
        try:
            frame = self._ask(
                {**head, "wall_s": wall_s}, _encoded(body), 2 * self._limits.output_bytes, wall_s + _GRACE_S
            )
            return self._read(frame, wall_s, started)
        except (LinkBrokenError, ArithmeticError, KeyError, TypeError, ValueError):  # what came is no result
            self._discard()
            took_s = time.monotonic() - started
            return Execution(
                "",
                "",
                _GONE_EXIT_CODE,
                stopped=_REPLACED,
                timed_out=took_s >= wall_s,
                interpreter_lost=True,
                files_lost=True,
                duration_s=took_s,
            )

    def _read(self, frame: Frame, wall_s: float, started: float) -> Execution:
        head, body = frame
        if "refused" in head:
            return Execution("", str(head["refused"]) + "\n", 126, duration_s=time.monotonic() - started)
        limit, lost = str(head["stopped"]), bool(head["interpreter_lost"])
        stopped = ""
        if limit:
            values = {name: getattr(self._limits, name) for name in ("cpu_s", "memory_bytes", "disk_files")}
            stopped = _STOPPED[limit].format(wall_s=wall_s, **values) + (_FRESH if lost else "")
        if limit == "files":  # of which the disk is still full
            self._discard()
        return Execution(
            body[: int(head["stdout"])].decode(errors="replace"),
            body[int(head["stdout"]) :].decode(errors="replace"),
            int(head["exit_code"]) & 0xFF,
            truncated=bool(head["truncated"]),
            stopped=stopped,
            timed_out=limit == "wall",
            interpreter_lost=lost or limit == "files",
            files_lost=limit == "files",
            duration_s=time.monotonic() - started,
        )

    def _file(self, head: dict[str, Any], body: bytes, most_body_bytes: int) -> Frame:
        try:
            frame = self._ask(head, body, most_body_bytes, _FILE_TIMEOUT_S)
        except LinkBrokenError as error:
            self._discard()
            raise SandboxFileError(
                str(head["path"]), "the sandbox had to be replaced, and its files are lost"
            ) from error
        if "refused" in frame.head:
            raise SandboxFileError(str(head["path"]), str(frame.head["refused"]))
        return frame

    def _ask(self, head: dict[str, Any], body: bytes, most_body_bytes: int, timeout_s: float) -> Frame:
        length = len(json.dumps(head))
        if length > MOST_HEAD_BYTES:
            return Frame({"refused": _TOO_LONG.format(length=length, most=MOST_HEAD_BYTES)}, b"")
        return self._opened().request(head, body, most_body_bytes, timeout_s)

    def _opened(self) -> SandboxProcess:
        """Return the running sandbox, a new one where the last has broken down."""
        if self._closed:
            raise ConfigurationError("The sandbox is closed; open another one.")
        if self._process is None:
            self._process = SandboxProcess(self._limits, self._kind, self._packages)
        return self._process

    def _discard(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def _encoded(text: bytes | str) -> bytes:
    return text.encode(errors="replace") if isinstance(text, str) else text
