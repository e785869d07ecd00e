"""What a server may take of a machine, in one form for every provider that can limit it."""

import math
import re
from dataclasses import dataclass

from openenv.core.exceptions import ConfigurationError

_MEMORY = re.compile(r"(?P<number>\d{1,18}(\.\d{1,9})?)\s*((?P<unit>[kmgt])i?)?b?", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True)
class Resources:
    """Limits for a server; ``None`` leaves one to the provider.

    Attributes:
        cpus: Processors that it may use, as in ``1.5``.
        memory: Bytes of memory, or a text such as ``"512m"`` or ``"2 GiB"``; see ``parse_memory``.
        pids: Processes and threads at once.
        gpus: Whole GPUs that it gets.

    Raises:
        ConfigurationError: One of them is no such amount.

    Example:
        >>> Resources(cpus=1, memory="512m", pids=256).memory_bytes
        536870912
    """

    cpus: float | None = None
    memory: str | int | None = None
    pids: int | None = None
    gpus: int = 0

    def __post_init__(self) -> None:
        if self.cpus is not None and not 0 < self.cpus < math.inf:
            raise ConfigurationError(f"Expected cpus to be a number above 0, got {self.cpus!r}.")
        if self.pids is not None and self.pids < 1:
            raise ConfigurationError(f"Expected pids to be at least 1, got {self.pids!r}.")
        if self.gpus < 0:
            raise ConfigurationError(f"Expected gpus to be at least 0, got {self.gpus!r}.")
        if self.memory is not None:
            parse_memory(self.memory)

    @property
    def memory_bytes(self) -> int | None:
        """The memory in bytes."""
        return None if self.memory is None else parse_memory(self.memory)


def parse_memory(amount: str | int) -> int:
    """Read an amount of memory.

    Args:
        amount: Bytes, or a number with a unit: ``b``, ``k``, ``m``, ``g`` or ``t``, each 1024 times the one before it,
            as Docker reads them. Case does not count, and ``KiB``, ``Mi`` and ``GB`` are the same as ``k``, ``m`` and
            ``g``. (To Kubernetes ``512m`` would be half a byte; a provider passes on bytes.)

    Returns:
        Bytes, above 0.

    Raises:
        ConfigurationError: It is no such amount.

    Example:
        >>> parse_memory("512m"), parse_memory("1.5 GiB"), parse_memory(4096)
        (536870912, 1610612736, 4096)
    """
    found = _MEMORY.fullmatch(str(amount).strip())
    size = 0 if found is None else int(float(found["number"]) * 1024 ** _POWERS[(found["unit"] or "").lower()])
    if size < 1:
        raise ConfigurationError(f"Expected memory as bytes or with a unit, as in 512m or 2GiB, got {amount!r}.")
    return size
