"""The sandboxes of this process, and what has to be there for them."""

import shutil

from openenv.core.exceptions import SandboxUnavailableError
from openenv.core.sandbox import Kind, SandboxLimits, SandboxPool, require_sandbox

READY = 4
"""Sandboxes that are kept ready."""

_LIMITS = SandboxLimits(
    wall_s=30.0, cpu_s=30.0, memory_bytes=512 * 2**20, output_bytes=32 * 1024, disk_bytes=32 * 2**20
)


def require_programs(kind: Kind) -> None:
    """Check that the machine has what tasks need.

    Args:
        kind: What keeps commands in.

    Raises:
        ConfigurationError: There is no such kind.
        SandboxUnavailableError: A sandbox, bash or git is missing, and how to get it.
    """
    require_sandbox(kind)
    for program in ("bash", "git"):
        if shutil.which(program) is None:
            raise SandboxUnavailableError(
                f"The tasks need {program}, which is not installed. Get it with: apt-get install {program}."
            )


def shared_pool(kind: Kind) -> SandboxPool:
    """Return the pool that all sessions of this process take their sandboxes from.

    Args:
        kind: What keeps commands in.

    Raises:
        ConfigurationError: There is no such kind.
        SandboxUnavailableError: There is no sandbox on this machine, and how to get one.
    """
    require_programs(kind)
    return SandboxPool.shared(READY, _LIMITS, kind)
