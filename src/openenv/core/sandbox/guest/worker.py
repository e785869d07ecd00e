"""The interpreter in which the model's code runs, and which keeps its variables.

It shares its process with that code, so nothing that it says is believed beyond its own session.
"""

import _ast
import json
import linecache
import os
import signal
import struct
import sys
import traceback
from contextlib import suppress
from types import CodeType, ModuleType

REQUEST = struct.Struct("!I?I")
"""Number of the execution, whether to show the last value, and length of the code that follows."""

REPLY = struct.Struct("!IiI")
"""Number of the execution, exit code, and id of the process that goes on as the interpreter."""

# Their descriptors, from and to init.
_REQUESTS, _REPLIES = 3, 4


class Interpreter:
    """Runs pieces of code in one namespace."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._streams = [os.dup(number) for number in range(3)]
        self._module = ModuleType("__main__")
        for name in [name for name in sys.modules if name.partition(".")[0] == __package__]:
            del sys.modules[name]
        sys.modules["__main__"] = self._module
        sys.path[0] = ""
        sys.argv[:] = [""]
        sys.dont_write_bytecode = True
        _open_streams()

    def serve(self) -> None:
        """Run what comes, until init goes or something else than a request is read."""
        while True:
            number, echo, length = REQUEST.unpack(_receive(REQUEST.size))
            source = _receive(length).decode(errors="replace")
            self._restore_streams()
            exit_code = self._run(source, f"<step {number}>", echo)
            if os.getpid() != self._pid:
                os._exit(exit_code & 0xFF)  # the code has forked, and this is the child
            _stop_timers()
            with suppress(OSError, ValueError):
                sys.stdout.flush()
            with suppress(OSError, ValueError):
                sys.stderr.flush()
            self._leave_others()
            os.write(_REPLIES, REPLY.pack(number, exit_code, self._pid))

    def _restore_streams(self) -> None:
        """The code may have closed or replaced 0, 1 and 2."""
        for number, stream in enumerate(self._streams):
            os.dup2(stream, number)
        if sys.stdout is None or sys.stderr is None or sys.stdout.closed or sys.stderr.closed:
            _open_streams()

    def _run(self, source: str, name: str, echo: bool) -> int:
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            parts = _compiled(source, name, echo)
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            traceback.print_exception(error.with_traceback(None))
            return 1
        return self._execute(parts)

    def _execute(self, parts: list[CodeType]) -> int:
        try:
            for part in parts:
                # What was compiled for its statements has the value None.
                _show(eval(part, vars(self._module)))  # noqa: S307  # what this process is for
        except SystemExit as end:
            return _exit_code(end)
        except BaseException as error:  # noqa: BLE001  # KeyboardInterrupt too is the code's own
            inner = None if error.__traceback__ is None else error.__traceback__.tb_next
            traceback.print_exception(error.with_traceback(inner))
            return 1
        return 0

    def _leave_others(self) -> None:
        """Go on without the threads and children that the code has left behind, in a fork, which has neither."""
        if _is_alone():
            return
        if os.fork() != 0:
            while True:  # init ends this process once the other one has replied
                signal.pause()
        self._pid = os.getpid()


def _is_alone() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        with suppress(OSError):  # as many files as may be are open
            return len(os.listdir("/proc/self/task")) == 1
    return False


def _stop_timers() -> None:
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0)


def _compiled(source: str, name: str, echo: bool) -> list[CodeType]:
    """Compile code; with ``echo``, an expression at its end apart, for its value."""
    if not echo:
        return [compile(source, name, "exec")]
    tree = compile(source, name, "exec", _ast.PyCF_ONLY_AST)
    assert isinstance(tree, _ast.Module)
    if not tree.body or not isinstance(last := tree.body[-1], _ast.Expr):
        return [compile(tree, name, "exec")]
    del tree.body[-1]
    return [compile(tree, name, "exec"), compile(_ast.Expression(last.value), name, "eval")]


def _show(value: object) -> None:
    if value is None:
        return
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    sys.stdout.write(text + "\n")


def _receive(count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = os.read(_REQUESTS, count - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data


def _open_streams() -> None:
    # Line by line: what was printed before a timeout is then not lost with the process.
    sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def _exit_code(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code & 0xFF
    sys.stderr.write(f"{end.code}\n")
    return 1


def compile_only() -> None:
    """Compile what comes on standard input, and end with status 0 if that succeeds, else 1; nothing of it runs."""
    source = b""
    while piece := os.read(0, 1 << 20):
        source += piece
    try:
        compile(source.decode(errors="replace"), "<step>", "exec")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        os._exit(1)
    os._exit(0)


def run_interpreter() -> None:
    """Be the interpreter, in a process that was just forked."""
    os.chdir(os.environ["HOME"])
    Interpreter().serve()
