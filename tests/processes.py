"""A look at other processes, whoever's children they are."""

import subprocess

from tests.servers import eventually


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has, whoever has yet to notice."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return found.stdout.strip() == "" or found.stdout.startswith("Z")


def wait_until_gone(*pids: int, timeout_s: float = 60.0) -> None:
    for pid in pids:
        eventually(lambda pid=pid: is_gone(pid), f"process {pid} ends", timeout_s)  # type: ignore[misc]


def children_of(pid: int) -> set[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True)
    return {int(child) for child in found.stdout.split()}
