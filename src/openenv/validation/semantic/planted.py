"""Failures and other machines, planted under an environment's code in this process: programs, files, network, folder.

A patch acts only where a file of the environment is on the stack of the call, so that the server and the validation
itself keep working.
"""

import builtins
import errno
import io
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

Action = dict[str, Any]
_LOCAL = ("127.0.0.1", "localhost", "::1")
_SHORTEST, _LONGEST_PATH, _MAX_FILES, _MAX_BYTES = 8, 1024, 50, 100_000


class _Planted:
    """A failure for calls from an environment's code.

    Args:
        code: Files and folders of the environment.

    Attributes:
        count: Number of the calls that failed.
    """

    def __init__(self, code: Sequence[str]) -> None:
        self._code = tuple(code)
        self.count = 0

    def strikes(self) -> bool:
        """Return whether a file of the environment is on the stack, and count the call."""
        frame: FrameType | None = sys._getframe(2)  # the only way to a caller
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._code):
                self.count += 1
                return True
            frame = frame.f_back
        return False


Condition = Callable[[Sequence[str], Sequence[Action]], Any]


@contextmanager
def _programs_fail(code: Sequence[str], actions: Sequence[Action]) -> Iterator[Callable[[], int]]:
    """Programs can't be started, as on a machine without memory for another process."""
    planted, start = _Planted(code), subprocess.Popen.__init__

    def failing(self: Any, args: Any, *more: Any, **named: Any) -> None:
        if planted.strikes():
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        start(self, args, *more, **named)

    with patch.object(subprocess.Popen, "__init__", failing):
        yield lambda: planted.count


@contextmanager
def _programs_hang(code: Sequence[str], actions: Sequence[Action]) -> Iterator[Callable[[], int]]:
    """Programs of the verifier run out of their time."""
    planted, communicate, wait = _Planted(code), subprocess.Popen.communicate, subprocess.Popen.wait
    start = subprocess.Popen.__init__

    def starting(self: Any, args: Any, *more: Any, **named: Any) -> None:
        self.is_agents = _is_agents(args, None, named.get("cwd"), actions)
        start(self, args, *more, **named)

    def hanging(self: Any, input: Any = None, timeout: float | None = None) -> Any:  # noqa: A002  # its name
        if timeout is not None and not _writes(input, actions) and not self.is_agents and planted.strikes():
            self.kill()
            communicate(self)
            raise subprocess.TimeoutExpired(self.args, timeout)
        return communicate(self, input, timeout)

    def waiting(self: Any, timeout: float | None = None) -> int:
        if timeout is not None and not self.is_agents and planted.strikes():
            self.kill()
            wait(self)
            raise subprocess.TimeoutExpired(self.args, timeout)
        return wait(self, timeout)

    with (
        patch.object(subprocess.Popen, "__init__", starting),
        patch.object(subprocess.Popen, "communicate", hanging),
        patch.object(subprocess.Popen, "wait", waiting),
    ):
        yield lambda: planted.count


@contextmanager
def _programs_killed(code: Sequence[str], actions: Sequence[Action]) -> Iterator[Callable[[], int]]:
    """Programs of the verifier are killed, as where memory runs out."""
    planted, start = _Planted(code), subprocess.Popen.__init__

    def killed(self: Any, args: Any, *more: Any, **named: Any) -> None:
        if not _is_agents(args, None, named.get("cwd"), actions) and planted.strikes():
            named |= {"shell": False}
            args = ["/bin/sh", "-c", "kill -9 $$"]
        start(self, args, *more, **named)

    with patch.object(subprocess.Popen, "__init__", killed):
        yield lambda: planted.count


@contextmanager
def _files_unreadable(code: Sequence[str], actions: Sequence[Action]) -> Iterator[Callable[[], int]]:
    """Files can't be read, as on a disk that has failed."""
    planted, opened = _Planted(code), io.open

    def failing(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        if "r" in mode and "+" not in mode and isinstance(file, str | os.PathLike) and planted.strikes():
            raise OSError(errno.EIO, "Input/output error", os.fspath(file))
        return opened(file, mode, *more, **named)

    with patch.object(builtins, "open", failing), patch.object(io, "open", failing):
        yield lambda: planted.count


@contextmanager
def _no_network(code: Sequence[str], actions: Sequence[Action]) -> Iterator[Callable[[], int]]:
    """No other machine can be reached."""
    planted, resolve, connect = _Planted(code), socket.getaddrinfo, socket.socket.connect

    def resolving(host: Any, *more: Any, **named: Any) -> Any:
        if host not in _LOCAL and planted.strikes():
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return resolve(host, *more, **named)

    class Socket(socket.socket):
        def connect(self, address: Any) -> None:
            if self.family != socket.AF_UNIX and planted.strikes():
                raise OSError(errno.ENETUNREACH, "Network is unreachable")
            connect(self, address)

    with patch.object(socket, "getaddrinfo", resolving), patch.object(socket, "socket", Socket):
        yield lambda: planted.count


@contextmanager
def _other_folder(code: Sequence[str], actions: Sequence[Action]) -> Iterator[Callable[[], int]]:
    """The working folder is another one."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield lambda: 1
        finally:
            os.chdir(before)


@contextmanager
def _other_time_zone(code: Sequence[str], actions: Sequence[Action]) -> Iterator[Callable[[], int]]:
    """The time zone is another one, and so is the home folder."""
    with ExitStack() as exits:
        exits.callback(time.tzset)
        exits.enter_context(patch.dict(os.environ, {"TZ": "Etc/GMT-14", "HOME": "/nonexistent"}))
        time.tzset()
        yield lambda: 1


def _is_agents(args: Any, given: Any, folder: Any, actions: Sequence[Action]) -> bool:
    """Return whether a program is the agent's: its text is in the command line, or in a file that is there or named."""
    words = [args] if isinstance(args, str | bytes) else list(args)
    texts = [os.fsdecode(each) for each in words if isinstance(each, str | bytes | os.PathLike)]
    files = [Path(text) for text in texts if len(text) < _LONGEST_PATH and "\n" not in text]
    if folder is not None:
        files += list(Path(os.fsdecode(folder)).glob("*"))[:_MAX_FILES]
    texts += filter(None, map(_content, files))
    return any(_writes(text, actions) for text in texts) or _writes(given, actions)


def _writes(given: Any, actions: Sequence[Action]) -> bool:
    """Return whether a text holds what an agent has written."""
    if given is None:
        return False
    text = given.decode(errors="replace") if isinstance(given, bytes) else str(given)
    written = (value.strip() for action in actions for value in _texts(action))
    return any(value in text for value in written if len(value) >= _SHORTEST)


def _content(path: Path) -> str | None:
    """Return the text of a small file; ``None`` for anything else."""
    with suppress(OSError, ValueError):
        if path.is_file() and path.stat().st_size <= _MAX_BYTES:
            return path.read_bytes().decode(errors="replace")
    return None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)


FAILURES: dict[str, Condition] = {
    "a program that can't be started": _programs_fail,
    "a program of the verifier that runs out of its time": _programs_hang,
    "a program of the verifier that is killed": _programs_killed,
    "a file that can't be read": _files_unreadable,
    "a machine that can't be reached": _no_network,
}
ELSEWHERE: dict[str, Condition] = {
    "no network": _no_network,
    "another working folder": _other_folder,
    "another time zone and home folder": _other_time_zone,
}
