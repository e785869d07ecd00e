"""Files of lines that another process writes: read on from where the last reading ended, and what the lines hold."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from openenv.core.documents import MAX_LINE_BYTES, DocumentError, parse_json


class GrowingFile:
    """File of lines, each of which is read once, with its offset.

    Args:
        path: The file, which need not be there yet.
        on_anew: Called where the file was written anew, before its lines are read from the beginning.
    """

    def __init__(self, path: Path, on_anew: Callable[[], None]) -> None:
        self._path = path
        self._on_anew = on_anew
        self._last = b""
        self._end = 0

    def new_lines(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over the whole lines that were added since the last reading, each with its offset in bytes."""
        if not self._path.is_file():  # nor a pipe, which may never end
            return
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            # A run that is resumed writes the file anew without the steps that it does again, and it may have grown
            # since.
            if self._end > 0 and _line_at(file, self._end - len(self._last)) != self._last:
                self._last, self._end = b"", 0
                self._on_anew()
            file.seek(self._end)
            while line := file.readline(MAX_LINE_BYTES):
                if not line.endswith(b"\n"):
                    return  # it is being written
                offset = self._end
                self._last, self._end = line, offset + len(line)
                yield offset, line

    def lines_at(self, offsets: Iterable[int]) -> list[bytes]:
        """Return the lines at some offsets; none of a file that is gone."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            return [_line_at(file, offset) for offset in offsets]
        return []


def objects_of(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the JSON objects of lines, without what is none: a full disk may have cut a line off.

    Args:
        lines: The lines.
    """
    found = []
    for line in lines:
        with suppress(DocumentError):
            found.append(parse_json(line))
    return [value for value in found if isinstance(value, dict)]


def _line_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    return file.readline(MAX_LINE_BYTES)
