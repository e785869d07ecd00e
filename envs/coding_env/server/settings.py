"""What the server's variables say of the sandbox."""

import atexit
import os
from dataclasses import dataclass
from functools import cache
from typing import cast

from openenv.core.exceptions import ConfigurationError
from openenv.core.sandbox import Kind, SandboxLimits, SandboxPool

_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """How code is run.

    Attributes:
        limits: What it may use.
        kind: What keeps it in.
        packages: Names of installed distributions that it may import.
        ready: Sandboxes that are kept ready.
    """

    limits: SandboxLimits
    kind: Kind
    packages: tuple[str, ...]
    ready: int


def settings() -> Settings:
    """Read the variables.

    Raises:
        ConfigurationError: One has a value that can't be.
    """
    return Settings(
        limits=SandboxLimits(
            wall_s=_number("CODING_WALL_S", 10.0),
            cpu_s=_number("CODING_CPU_S", 10.0),
            memory_bytes=int(_number("CODING_MEMORY_MB", 512) * _MEBIBYTE),
            output_bytes=int(_number("CODING_OUTPUT_BYTES", 65536)),
            processes=int(_number("CODING_PROCESSES", 32)),
            disk_bytes=int(_number("CODING_DISK_MB", 64) * _MEBIBYTE),
        ),
        kind=cast("Kind", os.environ.get("CODING_SANDBOX", "auto")),
        packages=tuple(name.strip() for name in os.environ.get("CODING_PACKAGES", "").split(",") if name.strip()),
        ready=int(_number("CODING_READY", 2)),
    )


@cache
def shared_pool(settings: Settings) -> SandboxPool:
    """Return the pool that all sessions of this process take their sandboxes from.

    Args:
        settings: How code is run.

    Raises:
        ConfigurationError: The settings can't be.
        SandboxUnavailableError: There is no sandbox on this machine, and how to get one.
    """
    pool = SandboxPool(settings.ready, settings.limits, settings.kind, settings.packages)
    atexit.register(pool.close)
    return pool


def _number(name: str, otherwise: float) -> float:
    text = os.environ.get(name, "")
    try:
        return float(text) if text else otherwise
    except ValueError as error:
        raise ConfigurationError(f"The variable {name} is {text!r}; expected a number.") from error
