"""A server in a child process on this machine, for as long as this process lives."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from openenv.core.containers.base import RuntimeProvider
from openenv.core.exceptions import ProviderError

HOST = "127.0.0.1"
BACKLOG = 2048
LOG_END_BYTES = 4000


class LocalProcessProvider(RuntimeProvider):
    """Runs ``openenv serve`` for an environment in a child process that listens on 127.0.0.1 only.

    The listening socket is made here and inherited by the child, so that no other program can take the port between its
    choice and its use, and early connections wait in the socket's queue until the server accepts them.

    The child never outlives this process, not even a ``kill -9``: its standard input is a pipe that nobody writes to,
    and ``openenv serve --stop-on-eof`` ends when the other end goes. (Linux's ``PR_SET_PDEATHSIG`` is no
    alternative: it fires when the *thread* that started the child ends.)

    Args:
        environment: Name of an installed environment, or the folder that holds its ``openenv.yaml``.
        max_sessions: Sessions that the server may hold at once; the environment's own default if ``None``.
        env_vars: Environment variables to set for the server, on top of this process's own.
        log_file: Where to append what the server prints; a temporary file, removed on ``stop``, if ``None``.
        grace_s: Seconds that ``stop`` leaves the server to end by itself.

    Example::

        with LocalProcessProvider("wordle") as provider, WordleEnv(base_url=provider.base_url).sync() as client:
            client.reset(seed=1)
    """

    def __init__(
        self,
        environment: str | Path,
        *,
        max_sessions: int | None = None,
        env_vars: Mapping[str, str] | None = None,
        log_file: str | Path | None = None,
        grace_s: float = 5.0,
    ) -> None:
        self.environment = str(environment)
        self.max_sessions = max_sessions
        self.env_vars = dict(env_vars or {})
        self.log_file = log_file
        self.grace_s = grace_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log: BinaryIO | None = None
        self._base_url = ""

    @property
    def base_url(self) -> str:
        """The server's address, as ``http://127.0.0.1:port``. Raises ``ProviderError`` before ``start``."""
        if self._process is None:
            raise ProviderError(f"No server for {self.environment!r} is running; call start() first.")
        return self._base_url

    @property
    def pid(self) -> int | None:
        """The server's process id, which is also its process group's; ``None`` before ``start``."""
        return None if self._process is None else self._process.pid

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server and return at once; its address takes connections already.

        Args:
            port: Port to serve on; a free one is taken if ``None``.
            env_vars: Environment variables to set for the server, on top of the constructor's.
            **kwargs: There are none; this signature is every provider's.

        Returns:
            The server's address, as ``http://127.0.0.1:port``.

        Raises:
            ProviderError: The port is taken, or this provider is running a server already.
        """
        if kwargs:
            raise ProviderError(f"LocalProcessProvider.start takes port and env_vars, but got {', '.join(kwargs)} too.")
        if self._process is not None:
            raise ProviderError(f"A server is running at {self._base_url} already; stop() it before the next start().")
        self._log = self._open_log()
        try:
            with socket.create_server((HOST, port or 0), backlog=BACKLOG) as listener:
                self._process = self._spawn(listener, env_vars or {})
                self._base_url = f"http://{HOST}:{listener.getsockname()[1]}"
        except OSError as error:
            self._close_log()
            raise ProviderError(f"The server for {self.environment!r} could not be started: {error}") from error
        return self._base_url

    def stop(self) -> None:
        """End the server: ask it to, wait ``grace_s``, then kill it and whatever it started. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(self.grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _kill_group(process.pid)
        if process.stdin is not None:
            process.stdin.close()
        self._close_log()

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with the end of the log if the server has ended."""
        if self._process is None or self._process.poll() is None:
            return
        raise ProviderError(
            f"The server for {self.environment!r} ended with exit status {self._process.returncode}. "
            f"The end of its log:\n{self.log_end() or '(it printed nothing)'}"
        )

    def log_end(self, size: int = LOG_END_BYTES) -> str:
        """Return the last ``size`` bytes of what the running server has printed; nothing after ``stop``."""
        if self._log is None:
            return ""
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - size))
        return self._log.read().decode(errors="replace").strip()

    def _open_log(self) -> BinaryIO:
        if self.log_file is None:
            return tempfile.TemporaryFile("a+b", prefix="openenv-server-")
        Path(self.log_file).parent.mkdir(parents=True, exist_ok=True)
        return Path(self.log_file).open("a+b")

    def _close_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _spawn(self, listener: socket.socket, env_vars: Mapping[str, str]) -> subprocess.Popen[bytes]:
        # -P: the working directory's files must not shadow the modules that the server imports.
        command = [sys.executable, "-P", "-m", "openenv.cli", "serve", self.environment]
        command += ["--fd", str(listener.fileno()), "--stop-on-eof"]
        if self.max_sessions is not None:
            command += ["--max-sessions", str(self.max_sessions)]
        return subprocess.Popen(  # noqa: S603  # our own command; the environment is the caller's choice
            command,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.env_vars, **env_vars},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=[listener.fileno()],
            # Ctrl-C in the terminal is for this process, which then stops the server in order.
            start_new_session=True,
        )


def _listen(port: int | None) -> socket.socket:
    try:
        return socket.create_server((HOST, port or 0), backlog=BACKLOG)
    except OSError as error:
        raise ProviderError(
            f"Can't listen on {HOST}:{port}: {error.strerror}. Choose another port, or none."
        ) from error


def _kill_group(group: int) -> None:
    """Kill what the server started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
