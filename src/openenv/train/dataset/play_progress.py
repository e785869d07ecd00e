"""Progress of episodes that are played: one live line in a terminal, plain lines now and then elsewhere."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from openenv.train.episodes.played_episode import PlayedEpisode

__all__ = ["PlayProgress"]

PLAIN_LINE_EVERY_S = 10.0


class PlayProgress:
    """Shows how many episodes have ended, their mean reward, and the time left; a context manager."""

    def __init__(
        self,
        console: Console,
        total: int,
        done: int = 0,
        clock: Callable[[], float] = time.monotonic,
        line_every_s: float = PLAIN_LINE_EVERY_S,
    ) -> None:
        self._console = console
        self._clock = clock
        self._total = total
        self._done = done
        self._rewards = 0.0
        self._count = 0
        self._began = self._last_line = clock()
        # Seconds between two lines where there is no terminal; one also comes while no episode ends.
        self._line_every_s = line_every_s
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._reminder = threading.Thread(target=self._remind, name="play-progress", daemon=True)
        self._bar = Progress(
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TextColumn("episodes{task.fields[news]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("playing", total=total, completed=done, news="")

    def __enter__(self) -> Self:
        self._bar.start()
        if not self._console.is_terminal and self._done < self._total:
            self._reminder.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()
        self._ended.set()
        if self._reminder.is_alive():
            self._reminder.join()

    def advance(self, played: PlayedEpisode) -> None:
        """Count an episode that has ended."""
        with self._writing:
            self._done += 1
            if played.episode.error is None:
                self._rewards += played.episode.reward
                self._count += 1
            self._bar.update(self._task, completed=self._done, news=self._news)
            if not self._console.is_terminal:
                self._write_line_if_due(at_once=self._done == self._total)

    @property
    def _news(self) -> str:
        return f"  mean reward {self._rewards / self._count:+.3f}" if self._count else ""

    def _remind(self) -> None:
        """Write a line now and then although no episode has ended: a log without news looks like a hang."""
        while not self._ended.wait(self._line_every_s):
            with self._writing:
                if self._done < self._total:
                    self._write_line_if_due()

    def _write_line_if_due(self, *, at_once: bool = False) -> None:
        now = self._clock()
        if at_once or now - self._last_line >= self._line_every_s:
            self._last_line = now
            waited = f"  after {now - self._began:.0f} s" if self._done < self._total else ""
            line = f"{self._done}/{self._total} episodes{self._news}{waited}"
            self._console.print(line, highlight=False, soft_wrap=True)
