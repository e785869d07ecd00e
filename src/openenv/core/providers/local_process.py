"""A server in a child process on this machine, for as long as this process lives."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

from openenv.core.addresses import is_loopback, reachable, url_of
from openenv.core.exceptions import ProviderError, ServerEndedError
from openenv.core.import_guard import refuse_while_importing
from openenv.core.process_end import how_ended
from openenv.core.providers.base import LOG_END, RuntimeProvider, token_for
from openenv.core.providers.log_echo import LogEcho
from openenv.core.providers.venv.environment import HeldEnvironment, hold_environment
from openenv.core.wire.names import AUTH_ALWAYS, AUTH_VARIABLE, TOKEN_VARIABLE

HOST = "127.0.0.1"
BACKLOG = 2048
READY_TIMEOUT_S = 120.0
"""Seconds that the server may take to get ready, by default: a busy machine may need long to import an environment, and
a server that ends is noticed at once."""

DEBUG_VARIABLE = "OPENENV_DEBUG"
_BREAKPOINT = "openenv.core.breakpoints.refuse"

_WHAT_TO_DO = (
    "Something in the environment ended its process: os._exit, a crash in a library, a lack of memory. With "
    "OPENENV_ISOLATION=process each session has a process of its own, and only that session is lost. A new client "
    "starts another server."
)


class LocalProcessProvider(RuntimeProvider):
    """Runs ``openenv serve`` for an environment in a child process that listens on 127.0.0.1 only.

    The listening socket is made here and inherited by the child, so that no other program can take the port between its
    choice and its use, and early connections wait in the socket's queue until the server accepts them.

    The child never outlives this process, not even a ``kill -9``: its standard input is a pipe without a writer,
    and ``openenv serve --stop-on-eof`` ends when the other end goes. (Linux's ``PR_SET_PDEATHSIG`` is no
    alternative: it fires when the *thread* that started the child ends.)

    Only programs on this machine reach the server, those of its other users included. It hides nothing of its
    environment's errors: they come with type, file, line and traceback, as with ``openenv serve --debug``, unless
    ``OPENENV_DEBUG`` is ``0``. What the
    server prints, from when it is ready on, is shown on this process's standard error.

    Args:
        environment: Name of an installed environment, the folder that holds its ``openenv.yaml``, or its file.
        max_sessions: Sessions that the server may hold at once; the environment's own default if ``None``.
        env_vars: Environment variables to set for the server, on top of this process's own.
        log_file: Where to append what the server prints, in place of standard error.
        grace_s: Seconds that ``stop`` leaves the server to end by itself.
        venv: Whether to run it in a Python environment of its own with what the folder requires, which is built on the
            first start and kept; see ``venv.environment``. It needs a folder.

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
        venv: bool = False,
    ) -> None:
        self.environment = str(environment)
        self.max_sessions = max_sessions
        self.env_vars = dict(env_vars or {})
        self.log_file = log_file
        self.grace_s = grace_s
        self.venv = venv
        self._host = HOST
        self._hands_on_listener = True
        self._process: subprocess.Popen[bytes] | None = None
        self._log: BinaryIO | None = None
        self._echo: LogEcho | None = None
        self._was_ready = False
        self._base_url = ""
        self._token: str | None = None

    @property
    def base_url(self) -> str:
        """The server's address, as ``http://127.0.0.1:port``. Raises ``ProviderError`` before ``start``."""
        if self._process is None:
            raise ProviderError(f"No server for {self.environment!r} is running; call start() first.")
        return self._base_url

    @property
    def token(self) -> str | None:
        """What the server was given as ``OPENENV_TOKEN``; ``None`` where it needs none, as on loopback."""
        return self._token

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
        self._refuse_options(kwargs)
        return self._start(port, env_vars or {}, [])

    def _start(self, port: int | None, env_vars: Mapping[str, str], options: list[str]) -> str:
        refuse_while_importing()
        if self._process is not None:
            raise ProviderError(f"A server is running at {self._base_url} already; stop() it before the next start().")
        variables = {**self.env_vars, **env_vars}
        seen = {**os.environ, **variables}
        if not is_loopback(self._host) or seen.get(AUTH_VARIABLE) == AUTH_ALWAYS:
            variables[TOKEN_VARIABLE] = token_for(seen)
        with hold_environment(Path(self.environment)) if self.venv else nullcontext() as venv:
            bound_port = self._start_process(port or 0, venv, variables, options)
        self._stop_at_exit()
        self._token = variables.get(TOKEN_VARIABLE)
        self._base_url = url_of(reachable(self._host), bound_port)
        return self._base_url

    def wait_for_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Block until the server answers ``GET /health``; then show what it prints.

        Args:
            timeout_s: Seconds to wait at most.

        Raises:
            ProviderError: The server was not started, or ended before it was ready. The end of its log is in it.
            ServerNotReadyError: The server was not ready in time; a ``TimeoutError`` too.
        """
        super().wait_for_ready(timeout_s)
        self._was_ready = True
        if self._echo is None and self._log is not None and self.log_file is None:
            self._echo = LogEcho(self._log)

    def stop(self) -> None:
        """End the server: send SIGTERM, wait ``grace_s``, then kill it and all that it started. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        self._was_ready = False
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
        self._stopped()

    def check_alive(self) -> None:
        """Raise ``ServerEndedError``, a ``ProviderError``, with the end of the log if the server has ended."""
        if self._process is None or self._process.poll() is None:
            return
        ended = f"The server for {self.environment!r} {how_ended(self._process.returncode)}"
        if not self._was_ready:
            raise ServerEndedError(f"{ended}.", self.logs())
        shown = None if self._echo is not None else self.logs()
        raise ServerEndedError(f"{ended}, and its sessions with it. {_WHAT_TO_DO}", shown)

    def logs(self, size: int = LOG_END) -> str:
        """Return the end of what the running server has printed, ``size`` bytes at most; nothing after ``stop``."""
        if self._log is None:
            return ""
        # Not seek and read: the server writes where this file stands, and must not write over what it wrote before.
        written = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, max(0, written - size)).decode(errors="replace").strip()

    def _start_process(
        self, port: int, venv: HeldEnvironment | None, variables: Mapping[str, str], options: list[str]
    ) -> int:
        """Start the process, and return the port that it serves."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        self._log = self._open_log()
        try:
            with socket.create_server((self._host, port), family=family, backlog=BACKLOG) as listener:
                self._process = self._spawn(listener, venv, variables, options)
                bound: int = listener.getsockname()[1]
                return bound
        except OSError as error:
            self._close_log()
            raise ProviderError(f"The server for {self.environment!r} could not be started: {error}") from error

    def _open_log(self) -> BinaryIO:
        if self.log_file is None:
            return tempfile.TemporaryFile("a+b", prefix="openenv-server-")
        Path(self.log_file).parent.mkdir(parents=True, exist_ok=True)
        return Path(self.log_file).open("a+b")

    def _close_log(self) -> None:
        echo, self._echo = self._echo, None
        if echo is not None:
            echo.end()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _spawn(
        self, listener: socket.socket, venv: HeldEnvironment | None, variables: Mapping[str, str], options: list[str]
    ) -> subprocess.Popen[bytes]:
        python = sys.executable if venv is None else str(venv.path / "bin" / "python")
        # -P: the working directory's files must not shadow the modules that the server imports.
        command = [python, "-P", "-m", "openenv.cli", "serve", self.environment, "--stop-on-eof", "--quiet", *options]
        host, port = listener.getsockname()[:2]
        inherited = [listener.fileno()] if self._hands_on_listener else []
        command += ["--fd", str(listener.fileno())] if inherited else ["--host", host, "--port", str(port)]
        if is_loopback(self._host) and not (variables.get(DEBUG_VARIABLE) or os.environ.get(DEBUG_VARIABLE)):
            command.append("--debug")
        if self.max_sessions is not None:
            command += ["--max-sessions", str(self.max_sessions)]
        own = {} if venv is None else venv.variables
        held = [] if venv is None else [venv.descriptor]  # by the server, until it ends
        return subprocess.Popen(  # noqa: S603  # our own command; the environment is the caller's choice
            self._wrapped(command),
            env={"PYTHONBREAKPOINT": _BREAKPOINT, **self._inherited(), "PYTHONUNBUFFERED": "1", **own, **variables},
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=[*inherited, *held],
            # Ctrl-C in the terminal is for this process, which then stops the server in order.
            start_new_session=True,
        )

    def _wrapped(self, command: Sequence[str]) -> Sequence[str]:
        """Return the command that starts the server's; for subclasses that confine it."""
        return command

    def _inherited(self) -> Mapping[str, str]:
        """Return the variables of this process that the server has."""
        return os.environ

    def _refuse_options(self, options: Mapping[str, Any]) -> None:
        if options:
            raise ProviderError(
                f"{type(self).__name__}.start takes port and env_vars, but got {', '.join(options)} too."
            )


def _kill_group(group: int) -> None:
    """Kill what the server started and left behind."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
