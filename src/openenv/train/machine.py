"""Memory, cores and speed of this machine that a training may use, within the limits of its control groups."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["bfloat16_speed", "free_memory", "usable_cores"]

# Rows of a matrix that is multiplied by itself, and how often: the fastest time counts; others may be interrupted.
_MEASURED_SIZE = 256
_MEASUREMENTS = 9
# Files of a control group for memory: the limit, what is used, and what of that the kernel can have back.
_MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),  # version 1
)


def free_memory(root: Path = Path("/")) -> int:
    """Return the bytes of memory that this process may still use, by the system and the files of its control groups."""
    import psutil  # it comes with the libraries of training

    limits = [left for group in _groups(root) for left in _free_in(group)]
    return max(0, min([psutil.virtual_memory().available, *limits]))


def usable_cores(root: Path = Path("/")) -> int:
    """Return the number of cores that this process may use, by its affinity and the files of its control groups."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    quotas = [quota for group in _groups(root) for quota in _quota_of(group)]
    return max(1, int(min([cores, *quotas])))


def bfloat16_speed(*, on_gpu: bool) -> float:
    """Measure how many times as fast matrices are multiplied in bfloat16 as in float32.

    A processor without instructions for bfloat16 is five to twenty times slower in it. Not all releases of torch show
    which one has them, hence the measurement, of 0.1 s at most, with one thread: several wait for each other.
    """
    import torch

    if on_gpu:
        return 2.0 if torch.cuda.is_bf16_supported(including_emulation=False) else 0.5
    matrix, threads = torch.ones(_MEASURED_SIZE, _MEASURED_SIZE), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        wide, narrow = (min(map(_seconds_of_product, [each] * _MEASUREMENTS)) for each in (matrix, matrix.bfloat16()))
    finally:
        torch.set_num_threads(threads)
    return wide / narrow


def _seconds_of_product(matrix: "Tensor") -> float:
    from torch.nn.functional import linear  # as layers multiply: with weights that are transposed

    began = time.perf_counter()
    linear(matrix, matrix)
    return time.perf_counter() - began


def _groups(root: Path) -> Iterator[Path]:
    """Yield the control groups of this process, each before the one that it is in."""
    listed = root / "proc/self/cgroup"
    for line in listed.read_text().splitlines() if listed.is_file() else ():
        number, controllers, path = line.split(":", 2)
        tree = root / "sys/fs/cgroup" / ("" if number == "0" else controllers)
        # In a container the path may be one of outside, of which only the tree's own folder is there.
        inner = Path(path.lstrip("/"))
        yield from (tree / each for each in (inner, *inner.parents))


def _free_in(group: Path) -> Iterator[int]:
    """Yield the bytes that a group may still use, if it has a limit."""
    for limit_file, used_file, cached in _MEMORY_FILES:
        with suppress(OSError, ValueError):  # another version, or no limit
            limit, used = (int((group / name).read_text()) for name in (limit_file, used_file))
            stat = dict(line.split(" ", 1) for line in (group / "memory.stat").read_text().splitlines())
            yield limit - used + int(stat.get(cached, 0))


def _quota_of(group: Path) -> Iterator[float]:
    """Yield the cores' worth of time that a group gets, if it has a limit."""
    with suppress(OSError, ValueError):
        quota, period = map(int, (group / "cpu.max").read_text().split())
        yield quota / period
    with suppress(OSError, ValueError):  # version 1, in which a group without a limit has -1
        quota, period = (int((group / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        if quota > 0:
            yield quota / period
