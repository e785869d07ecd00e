"""A control group around each sandbox, where the operator sets one aside: the kernel then counts its memory, all of it.

Without one, the limits on address space, processes and disks hold, and the first process looks at memory ten times a
second. A server makes no group unasked: of a server that is killed, its groups would stay.
"""

import os
from contextlib import suppress
from pathlib import Path

from openenv.core.exceptions import ConfigurationError
from openenv.core.sandbox.limits import SandboxLimits

VARIABLE = "OPENENV_SANDBOX_CGROUP"
"""The variable that holds the path of a group in which this server, and others like it, may make groups."""

_NAME = "sandbox-"
# For the first process, pipes, and the kernel's own records.
_ROOM_BYTES = 64 * 2**20
_DISKS = 3


def confine(pid: int, limits: SandboxLimits) -> Path | None:
    """Put a process, and all that it will start, into a group with a limit on memory.

    Args:
        pid: The process.
        limits: What it may use.

    Returns:
        The group; ``None`` where no place for it is set aside.

    Raises:
        ConfigurationError: None can be made in that place.
        ProcessLookupError: There is no such process any more.
    """
    parent = os.environ.get(VARIABLE)
    if not parent:
        return None
    _remove_left(Path(parent))
    group = Path(parent) / f"{_NAME}{pid}"
    try:
        group.mkdir()
        _set(group, limits)
        _write(group / "cgroup.procs", str(pid))
    except ProcessLookupError:  # it has ended by itself
        remove(group)
        raise
    except OSError as error:
        remove(group)
        raise ConfigurationError(
            f"{VARIABLE} is {parent!r}, in which no control group for memory can be made: {error}. Expected a group "
            "that is this server's own, with the memory controller; or leave the variable out."
        ) from error
    return group


def remove(group: Path) -> None:
    """Remove a group; one whose processes are still ending is removed when the next one is made."""
    with suppress(OSError):
        group.rmdir()


def _remove_left(parent: Path) -> None:
    """Remove groups whose processes were still ending before; one that is being made has a process that lives."""
    for group in parent.glob(f"{_NAME}*"):
        if not Path("/proc", group.name.removeprefix(_NAME)).exists():
            remove(group)


def _set(group: Path, limits: SandboxLimits) -> None:
    most_bytes = limits.memory_bytes + _DISKS * limits.disk_bytes + _ROOM_BYTES
    if (group / "memory.limit_in_bytes").exists():  # version 1; a kernel may count no swap
        _write(group / "memory.limit_in_bytes", str(most_bytes))
        with suppress(FileNotFoundError):
            _write(group / "memory.memsw.limit_in_bytes", str(most_bytes))
        return
    _write(group / "memory.max", str(most_bytes))
    with suppress(FileNotFoundError):
        _write(group / "memory.swap.max", "0")


def _write(file: Path, text: str) -> None:
    """Write a file of the kernel's; where it has none, this is no group, and none is made up."""
    with file.open("r+") as stream:
        stream.write(text)
