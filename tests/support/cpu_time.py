"""The CPU time of this process and of all that descend from it."""

import os
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_time() -> float:
    """Return seconds of CPU: this process, the children that it has waited for, and every descendant that runs.

    Where the kernel does not list a process's children (macOS), running descendants count once they were waited for.
    """
    times = os.times()
    ours = times.user + times.system + times.children_user + times.children_system
    return ours + sum(_used(child) for child in _descendants(os.getpid()))


def _descendants(process: int) -> Iterator[int]:
    for child in _children(process):
        yield child
        yield from _descendants(child)


def _children(process: int) -> list[int]:
    """List the children of every thread of a process, none where it has just ended."""
    children: list[int] = []
    try:
        for task in os.scandir(_PROCESSES / str(process) / "task"):
            children += map(int, Path(task.path, "children").read_bytes().split())
    except (FileNotFoundError, ProcessLookupError):
        pass
    return children


def _used(process: int) -> float:
    """Seconds that a process and the children that it has waited for have used; 0 where it has just ended."""
    try:
        stat = (_PROCESSES / str(process) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    # The name, in brackets, may hold anything; behind it the times are the 12th to the 15th field.
    return sum(map(int, stat.rpartition(b")")[2].split()[11:15])) / _TICKS
