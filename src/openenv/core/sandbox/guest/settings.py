"""What init is given when its sandbox starts."""

from typing import NamedTuple


class Settings(NamedTuple):
    """The settings, as they come in the first frame.

    Attributes:
        work: The work folder.
        user: The user to become, inside; ``None`` to stay who it is.
        confined: Whether there is a sandbox around it, so that the machine's processes and disks are not seen.
        cpu_s: Seconds of CPU that one call may use, all its processes together.
        memory_bytes: Address space of a process, and memory of all of them together.
        output_bytes: Of each output of a call.
        processes: At once.
        disk_bytes: Of one file. How large the disk is, the sandbox itself says.
        disk_files: Files and folders at once.
        open_files: Of a process.
    """

    work: str
    user: int | None
    confined: bool
    cpu_s: float
    memory_bytes: int
    output_bytes: int
    processes: int
    disk_bytes: int
    disk_files: int
    open_files: int
