"""``openenv top``: sessions and figures of a running server, live in the terminal."""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from openenv.cli.groups import RefusalError
from openenv.cli.server_readings import Counts, ServerFigures, ServerReadings
from openenv.cli.views.server import UNLISTED_LINES, Picture
from openenv.core.exceptions import ConnectionFailedError, EnvironmentNotFoundError

Url = Annotated[str, typer.Argument(metavar="URL", help="Address of a running server.")]
Interval = Annotated[float, typer.Option(min=0.1, help="Seconds between two readings.")]
Once = Annotated[
    bool, typer.Option("--once", help="Print once and end, as is also done where the output is no terminal.")
]

_MAX_SESSIONS = 1000
_LINES_OFF_A_TERMINAL = 50
_INTERRUPTED = 130


def top(url: Url = "http://localhost:8000", interval: Interval = 1.0, once: Once = False) -> None:
    """Show what a running server is doing, live. If it requires a token, that is read from OPENENV_TOKEN."""
    console = Console(highlight=False)
    try:
        readings = ServerReadings(url)
        first = readings.read(_MAX_SESSIONS) if once or not console.is_terminal else None
    except (EnvironmentNotFoundError, ConnectionFailedError) as error:
        raise RefusalError(str(error)) from error
    if first is not None:
        console.print(Picture(url=readings.url, figures=first, lines=_LINES_OFF_A_TERMINAL))
        return
    try:
        with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
            _Display(readings, interval, live, keys).watch()
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


class _Keys:
    """Keys as they are typed; none where standard input is no terminal."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def quit_within(self, seconds: float) -> bool:
        """Wait for a time or until the key to quit is pressed, and return whether it was."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._descriptor is None:
                time.sleep(left)
            elif select.select([self._descriptor], [], [], left)[0]:
                typed = os.read(self._descriptor, 64)
                if not typed or b"q" in typed.lower():
                    return True
        return False


@contextmanager
def _keys() -> Iterator[_Keys]:
    """Have the terminal give each key as it is typed, for the length of a block."""
    if not sys.stdin.isatty():
        yield _Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield _Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class _Display:
    """Display of a server until the key to quit is pressed; a server that is gone is tried until it is back."""

    def __init__(self, readings: ServerReadings, interval_s: float, live: Live, keys: _Keys) -> None:
        self._readings = readings
        self._interval_s = interval_s
        self._live = live
        self._keys = keys
        self._latest: ServerFigures | None = None
        # What each worker had counted when it answered last; one that is held up does not always answer.
        self._counts: dict[str, Counts] = {}

    def watch(self) -> None:
        while True:
            self._live.update(self._look(), refresh=True)
            if self._keys.quit_within(self._interval_s):
                return

    def _look(self) -> Picture:
        lines = self._live.console.size.height - UNLISTED_LINES
        earlier, trouble = self._counts, None
        try:
            self._latest = self._readings.read(_MAX_SESSIONS)
            self._counts = {**earlier, **self._latest.counts}
        except ConnectionFailedError as error:
            trouble = str(error)
        return Picture(self._readings.url, self._latest, earlier=earlier, lines=lines, trouble=trouble)
