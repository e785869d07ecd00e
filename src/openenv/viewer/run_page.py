"""Page of a training run while it trains, served by a separate process."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, Self

from rich.console import Console

# Seconds for the process to end in order.
_GRACE_S = 5.0


@dataclass(frozen=True)
class PageAddress:
    """Address of a run's page while it trains.

    Attributes:
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.
    """

    host: str = "127.0.0.1"
    port: int = 0


class RunPage:
    """Page of a training run, as ``openenv view`` serves it; a context manager.

    The page has a separate process, at a low priority, so that it takes no time of the training's Python. It ends
    with this process, whatever ends that. Where it can't be served, that is printed, and the training continues.
    """

    def __init__(self, folder: Path, address: PageAddress, console: Console) -> None:
        self._folder = folder
        self._console = console
        self._options = ["--host", address.host, "--port", str(address.port)]
        self._process: subprocess.Popen[str] | None = None
        self._reader: Thread | None = None

    @property
    def pid(self) -> int | None:
        """The process that serves the page; ``None`` where there is none, before the start and after the end."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> Self:
        """Start the process, and return at once."""
        # -P: the working directory's files must not shadow the modules that the page imports.
        command = [sys.executable, "-P", "-m", "openenv.cli", "view", str(self._folder), *self._options]
        try:
            process = subprocess.Popen(  # noqa: S603  # our own command; the folder is the run's
                [*command, "--no-browser", "--stop-on-eof"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                # Ctrl-C in the terminal is for the training, which then ends the page.
                start_new_session=True,
            )
        except OSError as error:
            self._print(f"The page of the run can't be served: {error}")
            return self
        assert process.stdout is not None
        self._process = process
        self._reader = Thread(target=self._show, args=(process.stdout,), name="run-page", daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the process."""
        if self._process is None or self._reader is None:
            return
        process, self._process = self._process, None
        process.terminate()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join()
        assert process.stdin is not None
        process.stdin.close()

    def _show(self, output: IO[str]) -> None:
        """Print the output of the process: its address, or the reason why it has none."""
        with output:
            for line in output:
                self._print(line.rstrip())

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
