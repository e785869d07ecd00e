"""Index of a file of JSON lines by optimiser step, kept up while a run writes the file."""

from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO


class StepIndex:
    """Index of a file of JSON lines, each of which begins with its step.

    A line of rollouts may have megabytes, and a page asks for many steps: each reading goes on from the end of the one
    before, and reads again only the lines of the step. Threads may share an index.

    Args:
        path: The file, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._forget()

    def lines(self, step: int | None) -> list[bytes]:
        """Return the lines of a step.

        Args:
            step: The step; ``None`` for that of the last line.
        """
        with self._lock, suppress(FileNotFoundError), self._path.open("rb") as file:
            self._extend(file)
            name = _step_in(self._last) if step is None else b"%d" % step
            return [_line_at(file, offset) for offset in self._offsets.get(name, ())]
        return []

    def _forget(self) -> None:
        self._offsets: dict[bytes, list[int]] = {}
        self._last = b""
        self._end = 0

    def _extend(self, file: BinaryIO) -> None:
        # A run that is resumed writes the file anew without the steps that it does again, and it may have grown since.
        if self._end > 0 and _line_at(file, self._end - len(self._last)) != self._last:
            self._forget()
        file.seek(self._end)
        for line in file:
            if not line.endswith(b"\n"):
                return  # it is being written
            self._offsets.setdefault(_step_in(line), []).append(self._end)
            self._last = line
            self._end += len(line)


def _line_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    return file.readline()


def _step_in(line: bytes) -> bytes:
    """Return the number of the step, with which each line begins, without reading the whole line."""
    return line[: line.find(b",")].removeprefix(b'{"step": ')
