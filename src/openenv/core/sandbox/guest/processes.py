"""The processes of a sandbox: count what they use, stop them, end them."""

import os
import resource
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_ROUNDS = 100


class Process(NamedTuple):
    """A line of ``/proc/PID/stat``.

    Attributes:
        pid: Its id.
        state: ``Z`` for a zombie, ``T`` for a stopped one.
        parent: Its parent's id.
        cpu_s: Seconds of CPU that it and its reaped children have used.
        threads: How many it has.
    """

    pid: int
    state: str
    parent: int
    cpu_s: float
    threads: int


class ProcessUsage(NamedTuple):
    """What all processes of a sandbox have used together.

    Attributes:
        cpu_s: Seconds of CPU since the sandbox began.
        memory_bytes: Memory of their own, and shared memory, now; what a fork shares counts for each.
    """

    cpu_s: float
    memory_bytes: int


def find(pid: int) -> Process | None:
    """Look a process up; ``None`` where there is none."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            line = file.read()
    except OSError:
        return None
    # The name in brackets may hold anything, brackets and blanks included.
    fields = line[line.rindex(")") + 2 :].split()
    cpu_s = sum(map(int, fields[11:15])) / _TICKS_PER_S
    return Process(pid, fields[0], int(fields[1]), cpu_s, int(fields[17]))


def others() -> list[Process]:
    """List this process's descendants, zombies included."""
    found = [process for process in map(find, _pids()) if process is not None]
    if os.getpid() == 1:  # then all others descend from it
        return [process for process in found if process.pid != 1]
    known = {os.getpid()}
    while True:
        born = {process.pid for process in found if process.parent in known} - known
        if not born:
            return [process for process in found if process.pid in known and process.pid != os.getpid()]
        known |= born


def usage() -> ProcessUsage:
    """Measure what the descendants have used."""
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = others()
    cpu_s = reaped.ru_utime + reaped.ru_stime + sum(process.cpu_s for process in living)
    return ProcessUsage(cpu_s, sum(_own_memory(process.pid) for process in living))


def end_others(keep: Collection[int] = ()) -> bool:
    """End every descendant.

    Args:
        keep: Those that are left as they are, stopped.

    Returns:
        Whether none is left. One that waits for a device in the kernel can't be ended.
    """
    for _ in range(_ROUNDS):
        _stop_others()
        left = [process for process in others() if process.pid not in keep and process.state != "Z"]
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        reap(keep)
        if not left:
            return True
    return False


def reap(keep: Collection[int] = ()) -> None:
    """Take leave of the children that have ended, those of ``keep`` excepted."""
    for process in others():
        if process.state == "Z" and process.parent == os.getpid() and process.pid not in keep:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)


def _pids() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdecimal():
            yield int(name)


def _own_memory(pid: int) -> int:
    """Measure a process's memory but for files, which are the machine's or take room on a disk that is limited."""
    try:
        with open(f"/proc/{pid}/status", errors="replace") as file:
            lines = dict(line.partition(":")[::2] for line in file)
    except OSError:
        return 0
    return sum(int(lines.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem")) * 1024


def _stop_others() -> None:
    """Stop every descendant, so that none forks while the list of them is read."""
    if os.getpid() == 1:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)  # one call, between whose parts no process can be born
        return
    stopped: set[int] = set()
    while True:
        running = {process.pid for process in others() if process.state not in "ZT"} - stopped
        if not running:
            return
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= running
