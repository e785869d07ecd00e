"""Slots for the sessions of a server, counted in one process or over all workers."""

import fcntl
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

_COUNT_BYTES = 4


class Slots:
    """Slots of a server with one process.

    Args:
        limit: Number of slots.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._in_use = 0

    @property
    def in_use(self) -> int:
        """Number of slots in use."""
        return self._in_use

    def acquire(self, count: int = 1) -> bool:
        """Acquire slots, all or none; return whether there were enough."""
        if self._in_use + count > self.limit:
            return False
        self._in_use += count
        return True

    def release(self, count: int = 1) -> None:
        """Release slots."""
        self._in_use -= count


class SharedCounts:
    """Counts of the slots in use by each worker, in memory shared by all processes of a server.

    Each worker writes its own count only; the supervisor clears the count of a dead worker. Reading all counts and
    raising a count happens under a lock of the kernel, which releases the lock when its holder dies. It is a POSIX
    record lock, because that belongs to a single process: a child forked by a worker does not keep the lock held.

    Args:
        descriptor: The file behind the memory; the caller closes it.
        workers: Number of workers.
    """

    def __init__(self, descriptor: int, workers: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, workers * _COUNT_BYTES)
        self._counts = memoryview(self._memory).cast("I")

    @classmethod
    @contextmanager
    def create(cls, workers: int) -> Iterator[Self]:
        """Create counts of 0, which are closed at the end of the block."""
        with tempfile.TemporaryFile(prefix="openenv-slots-") as file:
            # Written, not truncated to this length: mapped memory over a hole faults when the disk is full.
            file.write(bytes(workers * _COUNT_BYTES))
            file.flush()
            counts = cls(file.fileno(), workers)
            try:
                yield counts
            finally:
                counts.close()

    def __getitem__(self, worker: int) -> int:
        """Return the number of slots in use by a worker."""
        return self._counts[worker]

    def total(self) -> int:
        """Return the number of slots in use by all workers."""
        return sum(self._counts)

    def acquire(self, worker: int, limit: int, count: int = 1) -> bool:
        """Acquire slots for a worker, unless all workers together would exceed ``limit``; return whether it worked."""
        with self.locked():
            if self.total() + count > limit:
                return False
            self._counts[worker] += count
            return True

    def release(self, worker: int, count: int = 1) -> None:
        """Release slots of a worker."""
        self._counts[worker] -= count

    def clear(self, worker: int) -> None:
        """Release all slots of a dead worker."""
        self._counts[worker] = 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the counts against all other processes, for the length of the block."""
        fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Unmap the shared memory."""
        self._counts.release()
        self._memory.close()


class WorkerSlots(Slots):
    """Slots of a server with several workers, as seen by one worker.

    Args:
        limit: Number of slots of the whole server.
        counts: Slots in use by each worker.
        worker: Number of this worker, from 0.
    """

    def __init__(self, limit: int, counts: SharedCounts, worker: int) -> None:
        super().__init__(limit)
        self._counts = counts
        self._worker = worker

    @property
    def in_use(self) -> int:
        """Number of slots in use by all workers."""
        # Capped: during the sum, a worker may release a slot that another worker acquires.
        return min(self._counts.total(), self.limit)

    def acquire(self, count: int = 1) -> bool:
        """Acquire slots, all or none; return whether the workers together have left enough."""
        return self._counts.acquire(self._worker, self.limit, count)

    def release(self, count: int = 1) -> None:
        """Release slots."""
        self._counts.release(self._worker, count)
