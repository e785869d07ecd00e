"""The sandboxes of this process, and what has to be there for them."""

import atexit
import os
import shutil
from functools import cache
from typing import cast

from openenv.core.exceptions import SandboxUnavailableError
from openenv.core.sandbox import Kind, SandboxLimits, SandboxPool, require_sandbox

READY = 4
"""Sandboxes that are kept ready."""

_LIMITS = SandboxLimits(
    wall_s=30.0, cpu_s=30.0, memory_bytes=512 * 2**20, output_bytes=32 * 1024, disk_bytes=32 * 2**20
)


def sandbox_kind() -> Kind:
    """Return what keeps commands in, as the server's variables say."""
    return cast("Kind", os.environ.get("TERMINAL_SANDBOX") or "auto")


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


@cache
def shared_pool(kind: Kind) -> SandboxPool:
    """Return the pool that all sessions of this process take their sandboxes from.

    Args:
        kind: What keeps commands in.

    Raises:
        ConfigurationError: There is no such kind.
        SandboxUnavailableError: There is no sandbox on this machine, and how to get one.
    """
    require_programs(kind)
    pool = SandboxPool(READY, _LIMITS, kind)
    atexit.register(pool.close)
    return pool
