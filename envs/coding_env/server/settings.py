"""Settings of the sandbox, from the server's variables."""

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from openenv.core.sandbox import Kind, SandboxLimits, SandboxPool
from openenv.core.variables import VariableSettings

_MEBIBYTE = 2**20


def _names(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(name.strip() for name in value.split(",") if name.strip())


class Settings(VariableSettings):
    """Settings of the sandbox.

    Attributes:
        wall_s: Seconds that a step may take.
        cpu_s: Seconds of CPU.
        memory_mb: Memory of all processes of a step, in MiB.
        output_bytes: Length of ``stdout``, and of ``stderr``.
        processes: Processes and threads at once.
        disk_mb: Size of the working folder, in MiB.
        packages: Names of installed distributions that it may import; commas separate them in the variable.
        ready: Sandboxes that are kept ready.
        sandbox: What keeps it in.
    """

    PREFIX: ClassVar[str] = "CODING_"

    wall_s: float = Field(10.0, allow_inf_nan=False)
    cpu_s: float = Field(10.0, allow_inf_nan=False)
    memory_mb: float = Field(512, allow_inf_nan=False)
    output_bytes: int = 65536
    processes: int = 32
    disk_mb: float = Field(64, allow_inf_nan=False)
    packages: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    ready: int = Field(2, ge=0)
    sandbox: Kind = "auto"

    @property
    def limits(self) -> SandboxLimits:
        """Limits of the code.

        Raises:
            ConfigurationError: A limit can't be.
        """
        return SandboxLimits(
            wall_s=self.wall_s,
            cpu_s=self.cpu_s,
            memory_bytes=int(self.memory_mb * _MEBIBYTE),
            output_bytes=self.output_bytes,
            processes=self.processes,
            disk_bytes=int(self.disk_mb * _MEBIBYTE),
        )

    def pool(self) -> SandboxPool:
        """Return the pool that all sessions of this process take their sandboxes from.

        Raises:
            ConfigurationError: The settings can't be.
            SandboxUnavailableError: There is no sandbox on this machine, and how to get one.
        """
        return SandboxPool.shared(self.ready, self.limits, self.sandbox, self.packages)
