"""What a person sees while episodes are played: one live line in a terminal, plain lines now and then elsewhere."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from openenv.train.played_episode import PlayedEpisode

__all__ = ["PlayProgress"]

PLAIN_LINE_EVERY_S = 10.0


class PlayProgress:
    """Shows how many episodes have ended, their mean reward, and the time left; a context manager.

    Args:
        console: Where to write.
        total: Episodes of the whole work.
        done: Those that were played before.
        clock: Tells the time in seconds.
    """

    def __init__(
        self, console: Console, total: int, done: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._total = total
        self._done = done
        self._rewards = 0.0
        self._count = 0
        self._last_line = clock()
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
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def advance(self, played: PlayedEpisode) -> None:
        """Count an episode that has ended."""
        self._done += 1
        if played.episode.error is None:
            self._rewards += played.episode.reward
            self._count += 1
        news = f"  mean reward {self._rewards / self._count:+.3f}" if self._count else ""
        self._bar.update(self._task, completed=self._done, news=news)
        if not self._console.is_terminal:
            self._write_line(news)

    def _write_line(self, news: str) -> None:
        now = self._clock()
        if now - self._last_line >= PLAIN_LINE_EVERY_S or self._done == self._total:
            self._last_line = now
            self._console.print(f"{self._done}/{self._total} episodes{news}", highlight=False, soft_wrap=True)
