"""Warm containers: started ahead, each for one client, and replaced when it is done."""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from types import TracebackType
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.base import LOG_END, Provider
from openenv.core.providers.docker.provider import LocalDockerProvider

logger = logging.getLogger(__name__)

_STARTING_AT_ONCE = 4


class DockerPool:
    """Keeps containers of one image ready, so that a session in a container of its own need not wait for one to start.

    Each container is handed out once. When it is given back it is removed, and nothing that was done in it is left;
    another one is started the moment it is handed out.

    Args:
        image: The image, as for ``LocalDockerProvider``.
        size: How many containers stand ready; those that are handed out are on top of that.
        ready_timeout_s: Seconds that a container may take until its server is ready.
        **options: Further keywords of ``LocalDockerProvider``.

    Example::

        with DockerPool("coding-env:latest", size=4) as pool:
            for task in tasks:
                with CodingEnv(provider=pool.container()).sync() as env:
                    env.reset(seed=task)
    """

    def __init__(self, image: str, size: int = 4, *, ready_timeout_s: float = 60.0, **options: Any) -> None:
        if size < 1:
            raise ConfigurationError(f"A pool has at least one container, but size is {size}.")
        self.image = image
        self.ready_timeout_s = ready_timeout_s
        self._options = options
        self._lock = Lock()
        self._closed = False
        self._threads = ThreadPoolExecutor(_STARTING_AT_ONCE, thread_name_prefix="openenv-docker-pool")
        self._ready: list[Future[StartedContainer]] = []
        for _ in range(size):
            self._begin_one()

    def container(self) -> "PooledContainer":
        """Return a provider that takes a container from this pool when it is launched, and gives it back afterwards."""
        return PooledContainer(self)

    def take(self, timeout_s: float | None = None) -> "StartedContainer":
        """Take a container whose server is ready; waits for one if need be. One that ended meanwhile is replaced.

        Args:
            timeout_s: Seconds to wait at most; ``ready_timeout_s`` where ``None``.

        Raises:
            ProviderError: A container could not be started, or the pool is closed.
            TimeoutError: None was ready in time.
        """
        ends_at = time.monotonic() + (self.ready_timeout_s if timeout_s is None else timeout_s)
        while True:
            started = self._take_next(ends_at - time.monotonic())
            try:
                started.provider.check_alive()
            except ProviderError as error:
                logger.warning("a container that stood ready is replaced: %s", error)
                started.provider.shut_down()
            else:
                return started

    def wait_until_full(self) -> None:
        """Wait until every container stands ready, or raise what keeps one from it."""
        with self._lock:
            self._check_open()
            ready = list(self._ready)
        for future in ready:
            future.result()

    def close(self) -> None:
        """Remove the containers that stand ready. Those that are handed out are removed when they are given back."""
        with self._lock:
            self._closed = True
            ready, self._ready = self._ready, []
        for future in ready:
            future.cancel()
            future.add_done_callback(_remove_started)
        self._threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ProviderError(f"The pool of {self.image} is closed; make another one.")

    def _begin_one(self) -> None:
        self._ready.append(self._threads.submit(StartedContainer, self.image, self.ready_timeout_s, self._options))

    def _take_next(self, timeout_s: float) -> "StartedContainer":
        """Take the first one that is ready, or else wait for the one that was begun first; begin another."""
        with self._lock:
            self._check_open()
            future = next((future for future in self._ready if future.done()), self._ready[0])
            self._ready.remove(future)
            self._begin_one()
        try:
            return future.result(max(0.0, timeout_s))
        except BaseException:
            future.add_done_callback(_remove_started)
            raise


class StartedContainer:
    """A container of a pool, whose server is ready.

    Attributes:
        provider: What started it.
        base_url: The server's address.
    """

    def __init__(self, image: str, ready_timeout_s: float, options: dict[str, Any]) -> None:
        self.provider = LocalDockerProvider(**options)
        self.base_url = self.provider.launch_image(image, timeout_s=ready_timeout_s)


class PooledContainer(Provider):
    """A provider for one client: its container comes from a pool, and is removed when the client is done with it."""

    def __init__(self, pool: DockerPool) -> None:
        self._pool = pool
        self._taken: StartedContainer | None = None

    @property
    def launched(self) -> StartedContainer:
        """The container. Raises ``ProviderError`` before ``launch``, and once it was given back."""
        if self._taken is None:
            raise ProviderError("This provider has no container; call launch() first.")
        return self._taken

    @property
    def token(self) -> str | None:
        """What clients of the server must send; ``None`` before ``launch``."""
        return None if self._taken is None else self._taken.provider.token

    def launch(self) -> str:
        """Take a container from the pool, and return its server's address.

        Raises:
            ProviderError: One could not be started, or this provider has one already.
            TimeoutError: None was ready in time.
        """
        if self._taken is not None:
            raise ProviderError(f"This provider has a container already, at {self._taken.base_url}.")
        self._taken = self._pool.take()
        return self._taken.base_url

    def shut_down(self) -> None:
        """Remove the container."""
        taken, self._taken = self._taken, None
        if taken is not None:
            taken.provider.shut_down()

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with the end of the log if the container has ended."""
        if self._taken is not None:
            self._taken.provider.check_alive()

    def logs(self, size: int = LOG_END) -> str:
        """Return the end of what the server has printed; empty without a container."""
        return "" if self._taken is None else self._taken.provider.logs(size)


def _remove_started(future: "Future[StartedContainer]") -> None:
    if not future.cancelled() and future.exception() is None:
        future.result().provider.shut_down()
