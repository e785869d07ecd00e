"""Watch what the model's processes do until they have done it, or have used more than they may."""

import os
import select
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from .processes import reap, usage
from .settings import Settings

_TICK_S = 0.1
_PIECE_BYTES = 65536


class Capture:
    """An output that is kept up to a length; what comes after is read and thrown away.

    Args:
        most_bytes: The length.
    """

    def __init__(self, most_bytes: int) -> None:
        self.data = bytearray()
        self.truncated = False
        self._most_bytes = most_bytes
        self.reader, self.writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.reader, False)

    def read(self) -> bool:
        """Take a piece of what is there. Returns whether there was anything."""
        try:
            piece = os.read(self.reader, _PIECE_BYTES)
        except BlockingIOError:
            return False
        room = self._most_bytes - len(self.data)
        self.data += piece[:room]
        self.truncated = self.truncated or len(piece) > room
        return bool(piece)

    def take(self) -> bytes:
        """Return what was kept, of what is in the pipe too, and begin again. No process may write any more."""
        while self.read():
            pass
        data = bytes(self.data)
        self.data.clear()
        return data

    def close(self) -> None:
        """Close both ends."""
        os.close(self.reader)
        os.close(self.writer)


class Feed:
    """Bytes on their way into a pipe or socket, as fast as the other side reads; then it is closed.

    Args:
        descriptor: Where to.
        data: What.
    """

    def __init__(self, descriptor: int, data: bytes) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._left = memoryview(data)

    def write(self) -> bool:
        """Write what goes in. Returns whether something is left."""
        try:
            written = os.write(self.descriptor, self._left[:_PIECE_BYTES]) if self._left else 0
        except BlockingIOError:
            return True
        except OSError:  # the other side has closed it, and wants no more
            written = len(self._left)
        self._left = self._left[written:]
        return bool(self._left)

    def close(self) -> None:
        """Close it; more than once does no harm."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class ServerGoneError(Exception):
    """The server has closed its end."""


def watch(
    control: int,
    done: Sequence[int],
    captures: Sequence[Capture],
    feed: Feed,
    settings: Settings,
    wall_s: float,
    keep: Collection[int],
) -> str:
    """Read outputs until a descriptor of ``done`` can be read, or a limit is reached.

    Args:
        control: The descriptor of the socket to the server, which says nothing meanwhile.
        done: Descriptors that can be read when the work is done.
        captures: The outputs.
        feed: What the processes are given to read.
        settings: The limits.
        wall_s: Seconds that it may take.
        keep: Children whose exit codes are still wanted.

    Returns:
        The limit that was reached, ``wall``, ``cpu``, ``memory`` or ``files``; empty if none was.

    Raises:
        ServerGoneError: Nobody waits for the result any more.
    """
    waiting = select.poll()
    readers = {capture.reader: capture for capture in captures}
    for descriptor in (control, *done, *readers):
        waiting.register(descriptor, select.POLLIN)
    waiting.register(feed.descriptor, select.POLLOUT)
    meter = _Meter(settings, wall_s, keep)
    while True:
        ready = {descriptor for descriptor, _ in waiting.poll(meter.next_look_ms())}
        if control in ready:
            raise ServerGoneError
        for descriptor in ready & readers.keys():
            readers[descriptor].read()
        if feed.descriptor in ready and not feed.write():
            waiting.unregister(feed.descriptor)
            feed.close()
        if not ready.isdisjoint(done):
            return meter.disk_exceeded()
        reached = meter.exceeded()
        if reached:
            return reached


class _Meter:
    """How much of its limits a call has used."""

    def __init__(self, settings: Settings, wall_s: float, keep: Collection[int]) -> None:
        self._settings = settings
        self._keep = keep
        self._end = time.monotonic() + wall_s
        self._next_look = time.monotonic() + _TICK_S
        self._cpu_before_s = usage().cpu_s

    def next_look_ms(self) -> float:
        return max(0.0, min(self._end, self._next_look) - time.monotonic()) * 1000

    def exceeded(self) -> str:
        now = time.monotonic()
        if now >= self._end:
            return "wall"
        if now < self._next_look:
            return ""
        self._next_look = now + _TICK_S
        reap(self._keep)
        used = usage()
        if used.cpu_s - self._cpu_before_s > self._settings.cpu_s:
            return "cpu"
        if used.memory_bytes > self._settings.memory_bytes:
            return "memory"
        return self.disk_exceeded()

    def disk_exceeded(self) -> str:
        return "files" if self._settings.confined and _files_used() > self._settings.disk_files else ""


_DISKS = ("/work", "/tmp", "/dev/shm")  # noqa: S108  # the sandbox's own


def _files_used() -> int:
    used = 0
    for disk in _DISKS:
        with suppress(OSError):
            status = os.statvfs(disk)
            used += status.f_files - status.f_ffree
    return used
