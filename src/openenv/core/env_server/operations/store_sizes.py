"""Sizes of the files that a server writes, and of the disk that they are on, as they are at a scrape."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from openenv.core.env_server.history.stores.choice import is_address
from openenv.core.env_server.settings import MEBIBYTE, ServerConfig

# What SQLite has beside a file: its log, and the index of that.
_BESIDE = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Size of a file with what is beside it, in bytes.

    Attributes:
        used: Bytes that it takes on the disk.
        largest: Bytes beyond which the oldest of its content is removed.
        free: Bytes that the disk has left.
    """

    used: int
    largest: float
    free: int


def store_sizes(config: ServerConfig) -> Mapping[str, StoreSize]:
    """Return the sizes of the journal and the traces by ``journal`` and ``traces``, of those that are files.

    A database has figures of its own, and its disk is another machine's.

    Args:
        config: The server's settings.
    """
    return dict(_sizes(config))


def _sizes(config: ServerConfig) -> Iterator[tuple[str, StoreSize]]:
    stores = {
        "journal": (config.journal, config.journal_max_size_mb),
        "traces": (config.traces, config.traces_max_size_mb),
    }
    for name, (location, largest_mb) in stores.items():
        if location is None or is_address(location):
            continue
        try:
            free = shutil.disk_usage(Path(location).parent).free
            yield name, StoreSize(_on_disk(location), largest_mb * MEBIBYTE, free)
        except OSError:  # the folder is gone; another metric says that it can't be written
            continue


def _on_disk(location: str) -> int:
    files = [Path(location + suffix) for suffix in _BESIDE]
    return sum(file.stat().st_size for file in files if file.exists())
