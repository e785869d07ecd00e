"""How much code in a sandbox may use."""

from dataclasses import dataclass, fields

from openenv.core.exceptions import ConfigurationError

_MEBIBYTE = 2**20
# The interpreter itself must have room.
_LEAST_MEMORY_BYTES = 64 * _MEBIBYTE
_LEAST_OPEN_FILES = 16


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What a call may use, all processes that it starts together; the disk is the sandbox's, for all its calls.

    Attributes:
        wall_s: Seconds that a call may take.
        cpu_s: Seconds of CPU that a call may use.
        memory_bytes: Memory, and address space of each process: an allocation beyond it fails, and what is over it
            together is ended.
        output_bytes: Of ``stdout`` and of ``stderr``; what comes after is thrown away as it comes.
        processes: Processes and threads at once; more can't be started.
        disk_bytes: In the work folder. ``/tmp`` and ``/dev/shm`` have as much again, each.
        disk_files: Files and folders at once.
        open_files: Open files and sockets of a process.

    Example:
        >>> SandboxLimits(wall_s=2.0).processes
        32

    Raises:
        ConfigurationError: A limit is nothing, or leaves no room for an interpreter.
    """

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_bytes: int = 512 * _MEBIBYTE
    output_bytes: int = 64 * 1024
    processes: int = 32
    disk_bytes: int = 64 * _MEBIBYTE
    disk_files: int = 10_000
    open_files: int = 256

    def __post_init__(self) -> None:
        least = {"memory_bytes": _LEAST_MEMORY_BYTES, "open_files": _LEAST_OPEN_FILES}
        for field in fields(self):
            value = getattr(self, field.name)
            lowest = least.get(field.name, 1 if field.type == "int" or field.type is int else 0.0)
            if not lowest <= value < float("inf") or value == 0:
                raise ConfigurationError(
                    f"{field.name} is {value!r}; expected a number of at least {lowest or 'a moment'}."
                )


Limits = SandboxLimits
"""The earlier name."""
