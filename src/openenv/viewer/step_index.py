"""Index of a file of JSON lines by optimiser step, kept up while a run writes the file."""

import re
from pathlib import Path
from threading import Lock

from openenv.viewer.growing_file import GrowingFile

_BEGIN = re.compile(rb'\{"step": (\d+),')


class StepIndex:
    """Index of a file of JSON lines, each of which begins with its step.

    A line of rollouts may have megabytes, and a page asks for many steps: each reading goes on from the end of the one
    before, and reads again only the lines of the step. Threads may share an index.

    Args:
        path: The file, which need not be there yet.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path, self._forget)
        self._lock = Lock()
        self._forget()

    def lines(self, step: int | None) -> list[bytes]:
        """Return the lines of a step.

        Args:
            step: The step; ``None`` for that of the last line.
        """
        with self._lock:
            for offset, line in self._file.new_lines():
                if begin := _BEGIN.match(line):  # without reading the whole line; others have no episodes
                    self._last = begin[1]
                    self._offsets.setdefault(self._last, []).append(offset)
            name = self._last if step is None else b"%d" % step
            return self._file.lines_at(self._offsets.get(name, ()))

    def _forget(self) -> None:
        self._offsets: dict[bytes, list[int]] = {}
        self._last = b""
