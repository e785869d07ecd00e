"""Sandboxes that are started before they are needed."""

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Self

from openenv.core.exceptions import ConfigurationError, SandboxFileError
from openenv.core.sandbox.limits import SandboxLimits
from openenv.core.sandbox.process import Kind, require_sandbox
from openenv.core.sandbox.sandbox import Sandbox

_logger = logging.getLogger(__name__)


class SandboxPool:
    """Keeps some sandboxes ready, so that a reset takes milliseconds. Each is handed out once, and never used again.

    It may be used from many threads. It starts when the first sandbox is taken, and again in each forked process.

    Args:
        size: Sandboxes that are kept ready; with 0, each is started when it is taken.
        limits: As for ``Sandbox``.
        kind: As for ``Sandbox``.
        packages: As for ``Sandbox``.

    Raises:
        ConfigurationError: The size is below 0, or there is no such kind.
        SandboxUnavailableError: None can be had here, and why.

    Example::

        with SandboxPool(size=4) as pool, pool.take() as sandbox:
            print(sandbox.python("print(1)").stdout)
    """

    def __init__(
        self, size: int = 2, limits: SandboxLimits | None = None, kind: Kind = "auto", packages: Sequence[str] = ()
    ) -> None:
        if size < 0:
            raise ConfigurationError(f"size is {size}; expected 0 or more sandboxes to keep ready.")
        require_sandbox(kind)
        self._size = size
        self._limits = limits or SandboxLimits()
        self._kind: Kind = kind
        self._packages = tuple(packages)
        self._closed = False
        self._filling = False
        self._begin()

    @staticmethod
    def shared(
        size: int = 2, limits: SandboxLimits | None = None, kind: Kind = "auto", packages: Sequence[str] = ()
    ) -> "SandboxPool":
        """Return the process's own pool with these settings, which the first call makes and the process's end closes.

        Args:
            size: As for the class, as for the others.
            limits: As for ``Sandbox``.
            kind: As for ``Sandbox``.
            packages: As for ``Sandbox``.

        Raises:
            ConfigurationError: The size is below 0, or there is no such kind.
            SandboxUnavailableError: None can be had here, and why.
        """
        return _shared(size, limits or SandboxLimits(), kind, tuple(packages))

    @property
    def limits(self) -> SandboxLimits:
        """What code in its sandboxes may use."""
        return self._limits

    @property
    def ready(self) -> int:
        """How many are ready."""
        return len(self._ready)

    def take(self) -> Sandbox:
        """Return an unused sandbox; the caller closes it.

        Raises:
            ConfigurationError: The pool is closed, or a package is not installed.
            SandboxUnavailableError: None can be had here, and why.
        """
        if self._closed:
            raise ConfigurationError("The pool of sandboxes is closed; make another one.")
        if self._pid != os.getpid():  # those that are ready belong to the process that this one was forked from
            self._begin()
        sandbox = self._take_ready()
        self.warm()
        return sandbox or self._start()

    def take_with(
        self,
        source: Sandbox,
        paths: Sequence[str],
        files: Mapping[str, bytes | str] | None = None,
        most_bytes: int = 2**20,
    ) -> Sandbox:
        """Return an unused sandbox with copies of files of another one, and with nothing else of it.

        What graders need to see of an agent's work is copied so; processes, variables, tools and modules of the agent
        stay behind.

        Args:
            source: The sandbox in which the agent has worked.
            paths: The files to copy, each from the work folder on; links are not followed.
            files: Further files, by their paths; they replace copies.
            most_bytes: A longer file is refused.

        Returns:
            The sandbox; the caller closes it.

        Raises:
            SandboxFileError: A file can't be read, or not be written.
            ConfigurationError: As ``take`` does.
            SandboxUnavailableError: As ``take`` does.

        Example::

            with pool.take_with(agents, ["report.py"], {"orders.csv": orders}) as fresh:
                print(fresh.run(["python3", "report.py", "orders.csv"]).stdout)
        """
        copies = {path: source.read_file(path, most_bytes) for path in paths}
        fresh = self.take()
        try:
            for path, data in {**copies, **(files or {})}.items():
                fresh.write_file(path, data)
        except SandboxFileError:
            fresh.close()
            raise
        return fresh

    def warm(self) -> None:
        """See to it that the pool fills up, without waiting for it."""
        with self._lock:
            if self._filling or self._closed or len(self._ready) >= self._size:
                return
            self._filling = True
        threading.Thread(target=self._fill, name="openenv-sandbox-pool", daemon=True).start()

    def close(self) -> None:
        """End those that are ready, and start no more. Those that were taken stay."""
        self._closed = True
        while (sandbox := self._take_ready()) is not None:
            sandbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._ready: deque[Sandbox] = deque()
        self._filling = False

    def _start(self) -> Sandbox:
        return Sandbox(self._limits, self._kind, self._packages)

    def _take_ready(self) -> Sandbox | None:
        while True:
            with self._lock:
                sandbox = self._ready.popleft() if self._ready else None
            if sandbox is None or sandbox.alive:
                return sandbox
            sandbox.close()

    def _fill(self) -> None:
        try:
            while self._keep(self._start()):
                pass
        except Exception as error:  # the next call of take() meets it too, and raises it
            expected = isinstance(error, (OSError, RuntimeError, ConfigurationError))
            _logger.warning("No sandbox could be kept ready: %s", error, exc_info=None if expected else error)
            with self._lock:
                self._filling = False

    def _keep(self, sandbox: Sandbox) -> bool:
        """Keep a sandbox. Returns whether more are wanted."""
        with self._lock:
            if not self._closed:
                self._ready.append(sandbox)
                self._filling = len(self._ready) < self._size
                return self._filling
            self._filling = False
        sandbox.close()
        return False


@cache
def _shared(size: int, limits: SandboxLimits, kind: Kind, packages: tuple[str, ...]) -> SandboxPool:
    pool = SandboxPool(size, limits, kind, packages)
    atexit.register(pool.close)
    return pool
