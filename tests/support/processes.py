"""A look at other processes, whoever's children they are."""

import psutil
from tests.support.servers import eventually


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has, whoever has yet to notice."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(*pids: int, timeout_s: float = 60.0) -> None:
    for pid in pids:
        eventually(lambda pid=pid: is_gone(pid), f"process {pid} ends", timeout_s)  # type: ignore[misc]


def children_of(pid: int) -> set[int]:
    return {child.pid for child in psutil.Process(pid).children()}
