"""Which process a container belongs to, and whether that process is still there."""

import os
import socket
from dataclasses import astuple, dataclass
from pathlib import Path

_PROCESSES = Path("/proc")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")
_START_TIME_FIELD = 19  # counted from what follows the program's name


@dataclass(frozen=True)
class Owner:
    """A process, with what distinguishes it from any other that has had or will have its number.

    Attributes:
        host: Name of its machine.
        boot: Which start of that machine; empty where that is unknown.
        namespace: Which of the machine's process namespaces; empty where that is unknown.
        pid: Its number there.
        started: When it started, in the system's own units; empty where that is unknown.

    Example:
        >>> owner = Owner.this_process()
        >>> Owner.parse(str(owner)) == owner, owner.is_gone()
        (True, False)
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str

    @staticmethod
    def this_process() -> "Owner":
        """Return this process."""
        pid = os.getpid()
        return Owner(socket.gethostname(), _boot(), _pid_namespace(), pid, _started(pid) or "")

    @staticmethod
    def parse(text: str) -> "Owner | None":
        """Return the owner that ``str`` made a text of; ``None`` for any other text."""
        parts = text.split("/")
        if len(parts) != 5 or not parts[3].isascii() or not parts[3].isdecimal():
            return None
        host, boot, namespace, pid, started = parts
        return Owner(host, boot, namespace, int(pid), started)

    def __str__(self) -> str:
        return "/".join(map(str, astuple(self)))

    def is_gone(self) -> bool:
        """Say whether the process has ended for sure; of a process elsewhere that is unknown, so it has not."""
        if self.host != socket.gethostname():
            return False
        if self.boot != _boot():
            return True
        if self.namespace != _pid_namespace():
            return False
        started = _started(self.pid)
        return started is None or started not in ("", self.started)


def _boot() -> str:
    return _BOOT_ID.read_text("ascii").strip() if _BOOT_ID.exists() else ""


def _pid_namespace() -> str:
    return str(_PID_NAMESPACE.readlink()) if _PID_NAMESPACE.is_symlink() else ""


def _started(pid: int) -> str | None:
    """Return when a process started, empty where the system does not say; ``None`` if there is no such process."""
    try:
        stat = (_PROCESSES / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:  # there is none, or the system has no such files, or hides those of other users
        return "" if _exists(pid) else None
    # The program's name is in parentheses and may hold any character.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[_START_TIME_FIELD]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
