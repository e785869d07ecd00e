"""Files of JSON objects, one in each line: appended to, read whole, and read on while another process writes them."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from openenv.core.documents import MAX_LINE_BYTES, DocumentError, draft_of, parse_json

_STEP = re.compile(rb'\{"step": (\d+),')


def append_object(file: Path, value: Any) -> None:
    """Append a line with an object, after the end of a line that a kill has cut off."""
    # Half of a surrogate pair, which a model may write, is no UTF-8; its escape is equal JSON.
    line = json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace")
    with file.open("a+b") as lines:
        if lines.seek(0, os.SEEK_END):
            lines.seek(-1, os.SEEK_END)
            if lines.read() != b"\n":
                lines.write(b"\n")
        lines.write(line + b"\n")


def read_objects(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file without lines that were cut off; none if there is no file."""
    if not file.is_file():
        return []
    with file.open("rb") as lines:
        return objects_of(lines)


def objects_of(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the JSON objects of lines, without lines that are none: a full disk may have cut a line off."""
    return [value for _, value in _objects(lines)]


def keep_objects(file: Path, is_kept: Callable[[dict[str, Any]], bool]) -> None:
    """Drop lines of a file, all of them or, where the file can't be written, none; lines without an object, too."""
    with file.open("rb") as lines, draft_of(file) as draft, draft.open("wb") as kept:
        kept.writelines(line for line, value in _objects(lines) if is_kept(value))


def _objects(lines: Iterable[bytes]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Iterate over the lines that hold an object, each with it."""
    for line in lines:
        with suppress(DocumentError):
            value = parse_json(line)
            if isinstance(value, dict):
                yield line, value


class GrowingFile:
    """File of lines, each of which is read once, with its offset."""

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


class StepIndex:
    """Index of a file of JSON lines, each of which begins with its step.

    A line of rollouts may have megabytes, and a page reads many steps: each reading begins at the end of the one
    before, and reads again only the lines of the step. Threads may share an index.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path, self._forget)
        self._lock = Lock()
        self._forget()

    def lines(self, step: int | None) -> list[bytes]:
        """Return the lines of a step; without one, those of the last step."""
        with self._lock:
            for offset, line in self._file.new_lines():
                if begin := _STEP.match(line):  # without reading the whole line; others have no episodes
                    self._last = begin[1]
                    self._offsets.setdefault(self._last, []).append(offset)
            name = self._last if step is None else b"%d" % step
            return self._file.lines_at(self._offsets.get(name, ()))

    def _forget(self) -> None:
        self._offsets: dict[bytes, list[int]] = {}
        self._last = b""


def _line_at(file: BinaryIO, offset: int) -> bytes:
    file.seek(offset)
    return file.readline(MAX_LINE_BYTES)
