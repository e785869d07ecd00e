"""Progress of work that has equal parts: one live display in a terminal, plain lines now and then elsewhere."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

__all__ = ["WorkProgress", "duration_text"]

PLAIN_LINE_EVERY_S = 10.0


class WorkProgress:
    """Shows how many parts of a work are done, what is known of them, and the time left; a context manager.

    Args:
        console: Where it is shown.
        unit: Name of the parts, as ``episodes``.
        total: Number of the parts.
        done: Parts that were done before.
        heading: Name of the work, before each plain line.
        recent: Number of the last advances that the time left follows from; ``None`` for all.
        has_last_line: Whether the end has a plain line however soon it comes.
        clock: Clock in seconds; the time counts from the beginning of the block.
        line_every_s: Seconds between two plain lines; one also comes while no part ends.
    """

    def __init__(
        self,
        console: Console,
        unit: str,
        total: int,
        done: int = 0,
        *,
        heading: str = "",
        recent: int | None = None,
        has_last_line: bool = True,
        clock: Callable[[], float] = time.monotonic,
        line_every_s: float = PLAIN_LINE_EVERY_S,
    ) -> None:
        self._console = console
        self._unit = unit
        self._total = total
        self._done = done
        self._heading = f"{heading}  " if heading else ""
        self._recent = recent
        self._has_last_line = has_last_line
        self._clock = clock
        self._line_every_s = line_every_s
        # What is known of the parts that are done; set by `advance`.
        self._news: tuple[str, ...] = ()
        # Times, with the parts that were done then: at the beginning, and at the last advances.
        self._advances: list[tuple[float, int]] = []
        self._last_line = 0.0
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._reminder = threading.Thread(target=self._remind, name="work-progress", daemon=True)
        self._bar = Progress(
            BarColumn(bar_width=14),
            TextColumn("{task.completed}/{task.total} " + unit),
            TextColumn("{task.fields[news]}"),
            TextColumn("{task.fields[left]}", style="progress.remaining"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(unit, total=total, completed=done, news=heading, left="")

    def __enter__(self) -> Self:
        """Show the display; the time counts from here."""
        self._last_line = self._clock()
        self._advances.append((self._last_line, self._done))
        self._bar.start()
        if not self._console.is_terminal and self._done < self._total:
            self._reminder.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the display as it is."""
        self._bar.stop()
        self._ended.set()
        if self._reminder.is_alive():
            self._reminder.join()

    def advance(self, done: int, *news: str) -> None:
        """Show that so many parts are done, and what is known of them: in lines of a terminal, else in one line."""
        with self._writing:
            self._done = done
            self._news = tuple(filter(None, news))
            before = self._advances[:1] if self._recent is None else self._advances[-self._recent :]
            now = self._clock()
            self._advances = [*before, (now, done)]
            left = self._left(now)
            self._bar.update(self._task, completed=done, news="\n".join(self._news), left=left)
            if not self._console.is_terminal:
                self._write_line_if_due(left)

    @property
    def seconds(self) -> float:
        """Seconds since the beginning of the block, more than 0."""
        return max(self._clock() - self._advances[0][0], 1e-9)

    def _left(self, now: float) -> str:
        """Return the time left in words; none before the first advance, after the last, and where it has run out."""
        (start, first), (last, done) = self._advances[0], self._advances[-1]
        if done == first or done >= self._total:
            return ""
        seconds = (last - start) / (done - first) * (self._total - done) - (now - last)
        return f"{duration_text(seconds)} left" if seconds > 0 else ""

    def _remind(self) -> None:
        """Write a line now and then although no part has ended: a log without news looks like a hang."""
        while not self._ended.wait(self._line_every_s):
            with self._writing:
                if self._done < self._total:
                    self._write_line_if_due(self._left(self._clock()))

    def _write_line_if_due(self, left: str) -> None:
        now = self._clock()
        is_last = self._has_last_line and self._done >= self._total
        if is_last or now - self._last_line >= self._line_every_s:
            self._last_line = now
            waited = f"after {now - self._advances[0][0]:.0f} s" if self._done < self._total and not left else ""
            parts = (f"{self._heading}{self._done}/{self._total} {self._unit}", *self._news, left, waited)
            self._console.print("  ".join(filter(None, parts)), highlight=False, soft_wrap=True, markup=False)


def duration_text(seconds: float) -> str:
    """Return seconds as minutes and seconds, or with hours before them.

    Example:
        >>> duration_text(61.2), duration_text(3661)
        ('1:01', '1:01:01')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
