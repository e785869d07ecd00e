"""The interpreter that keeps variables, as init sees it: checks its word, and replaces it if need be."""

import os
import select
import signal
from contextlib import suppress

from .call_result import CallResult, exit_code_at, exit_code_of
from .metering import Capture, Feed, watch
from .processes import end_others, find
from .settings import Settings
from .spawn import spawn
from .worker import REPLY, REQUEST, run_interpreter

_END_TIMEOUT_S = 0.5
_CHANGED = os.WSTOPPED | os.WCONTINUED | os.WEXITED | os.WNOWAIT


class Python:
    """A process of the model's, with an interpreter. Between two pieces of code it is stopped.

    Args:
        settings: The limits.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pid = 0
        self._rests = False
        self._begin()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._pid

    def run(self, code: bytes, echo: bool, wall_s: float, control: int) -> CallResult:
        """Run a piece of code.

        Args:
            code: The code.
            echo: Whether to print the value of an expression at its end.
            wall_s: Seconds that it may take.
            control: The descriptor of the socket to the server.

        Raises:
            ServerGoneError: Nobody waits for the result any more.
        """
        self._number += 1
        feed = Feed(os.dup(self._requests), REQUEST.pack(self._number, echo, len(code)) + code)
        ended = os.pidfd_open(self._pid)
        try:
            self._wake()
            done = [self._replies, ended]
            stopped = watch(control, done, self._captures, feed, self._settings, wall_s, [self._pid])
            if stopped:
                return self._replaced(exit_code_at(stopped), stopped)
            return self._finished(ended)
        finally:
            os.close(ended)
            feed.close()

    def after(self, result: CallResult) -> CallResult:
        """Replace the interpreter if a command has ended it; stop it again if a command has woken it.

        Args:
            result: What the command gave.

        Returns:
            The same, and whether the interpreter is a new one.
        """
        # One that was killed may not have ended yet. Woken it does; any other waits for code, and is stopped at once.
        self._wake()
        self.rest()
        exit_code = exit_code_of(self._pid)
        if exit_code is None:
            return result
        self._replaced(exit_code, "ended")
        return result._replace(stopped=result.stopped or "ended", interpreter_lost=True)

    def rest(self) -> None:
        """Stop the interpreter until its next code, and wait until it has stopped."""
        if self._rests:
            return
        os.kill(self._pid, signal.SIGSTOP)
        self._forget(os.WCONTINUED)  # of the interpreter before
        change = os.waitid(os.P_PID, self._pid, _CHANGED)
        if change is not None and change.si_code == os.CLD_STOPPED:
            self._forget(os.WSTOPPED)
            self._rests = True
        else:
            self._end()

    def end_if_awake(self) -> None:
        """End an interpreter that something woke while it was to rest, a timer for one. The next call tells of it."""
        if self._rests and self._has_changed():
            self._end()

    def _has_changed(self) -> bool:
        return os.waitid(os.P_PID, self._pid, _CHANGED | os.WNOHANG) is not None

    def _wake(self) -> None:
        self._rests = False
        os.kill(self._pid, signal.SIGCONT)
        self._forget(os.WCONTINUED)  # that was us

    def _end(self) -> None:
        """End it, and what it has started, but leave it to be found."""
        self._rests = False
        os.kill(self._pid, signal.SIGKILL)
        end_others([self._pid])

    def _forget(self, change: int) -> None:
        """Take note of a change, so that it is not reported again."""
        with suppress(ChildProcessError):  # it has ended, which is still to be reported
            os.waitid(os.P_PID, self._pid, change | os.WNOHANG)

    def _finished(self, ended: int) -> CallResult:
        try:
            exit_code, self._pid = self._reply()
        except EOFError:
            select.select([ended], [], [], _END_TIMEOUT_S)  # its pipes are closed a moment before it has ended
            status = exit_code_of(self._pid)
            return self._replaced(1, "broken") if status is None else self._replaced(status, "ended")
        except ValueError:
            return self._replaced(1, "broken")
        end_others([self._pid])
        process = find(self._pid)
        if process is None or process.parent != os.getpid() or process.state == "Z":
            return self._replaced(exit_code, "broken")
        if process.threads > 1:
            return self._replaced(exit_code, "threads")
        return self._result(exit_code, "", lost=False)

    def _reply(self) -> tuple[int, int]:
        """Read the exit code and the id of the process that goes on.

        Raises:
            EOFError: There is none, because the interpreter has ended.
            ValueError: Something else was written.
        """
        try:
            data = os.read(self._replies, REPLY.size + 1)
        except BlockingIOError:
            data = b""
        if not data:
            raise EOFError
        if len(data) != REPLY.size:
            raise ValueError("this is no reply")
        number, exit_code, pid = REPLY.unpack(data)
        if number != self._number:
            raise ValueError("this is the reply to another request")
        return exit_code & 0xFF, pid

    def _replaced(self, exit_code: int, stopped: str) -> CallResult:
        end_others()
        result = self._result(exit_code, stopped, lost=True)
        os.close(self._requests)
        os.close(self._replies)
        for capture in self._captures:
            capture.close()
        self._begin()
        return result

    def _result(self, exit_code: int, stopped: str, lost: bool) -> CallResult:
        stdout, stderr = (capture.take() for capture in self._captures)
        truncated = False
        for capture in self._captures:
            truncated, capture.truncated = truncated or capture.truncated, False
        return CallResult(stdout, stderr, exit_code, truncated, stopped, lost)

    def _begin(self) -> None:
        self._number = 0
        self._rests = False
        self._captures = [Capture(self._settings.output_bytes) for _ in range(2)]
        requests, self._requests = os.pipe2(os.O_CLOEXEC)
        self._replies, replies = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._replies, False)
        stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        descriptors = [stdin, *(capture.writer for capture in self._captures), requests, replies]
        self._pid = spawn(self._settings, descriptors, run_interpreter)
        for descriptor in (stdin, requests, replies):
            os.close(descriptor)
