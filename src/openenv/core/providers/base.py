"""What every provider promises, whether it starts a container or a plain process."""

import atexit
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, signature
from types import TracebackType
from typing import Any, Self

from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError
from openenv.core.providers.health import wait_until_healthy
from openenv.core.wire.names import TOKEN_VARIABLE

LOG_END = 4000
"""Characters of a server's log that ``logs`` returns, and that stand in errors."""

READY_TIMEOUT_S = 30.0
"""Seconds that a server may take to get ready, by default."""

_TOKEN_BYTES = 24


class Provider(ABC):
    """What a client needs of a provider, whichever of the two kinds it is.

    For those who write one: call ``_stop_at_exit`` as soon as something runs, and ``_stopped`` once it is gone. Then
    nothing outlives the interpreter, however it was left behind.
    """

    _started_by: int | None = None

    @property
    def token(self) -> str | None:
        """What clients of the server must send, once it was started; ``None`` where it requires nothing.

        A provider whose server does not see its clients come from its own machine, as in a container, makes one with
        ``token_for`` and passes it as ``OPENENV_TOKEN``.
        """
        return None

    @property
    def headers(self) -> Mapping[str, str]:
        """What requests to the server must send besides, as a cloud service's proxy may want; nothing for most."""
        return {}

    @abstractmethod
    def launch(self) -> str:
        """Start a server, wait until it is ready, and return its address; on failure nothing is left running.

        Raises:
            ProviderError: The server could not be started, or ended before it was ready.
            ServerNotReadyError: The server was not ready in time; a ``TimeoutError`` too.
        """

    @abstractmethod
    def shut_down(self) -> None:
        """Stop the server and release what the provider holds. May be called twice."""

    def check_alive(self) -> None:  # noqa: B027  # a provider that can't tell has nothing to check
        """Raise ``ProviderError`` if the server was started and has ended; a provider that can't tell does nothing."""

    def logs(self, size: int = LOG_END) -> str:
        """Return the end of what the server has printed; empty for a provider that can't tell.

        Args:
            size: How many characters, at most.
        """
        return ""

    def _wait_until_healthy(self, base_url: str, timeout_s: float) -> None:
        try:
            wait_until_healthy(base_url, timeout_s, self.check_alive, self.headers)
        except TimeoutError as error:
            raise ServerNotReadyError(str(error), self.logs() or None) from error

    def _stop_at_exit(self) -> None:
        """Have the server shut down when the interpreter ends, unless ``_stopped`` comes first."""
        self._started_by = os.getpid()
        atexit.register(self._exit)

    def _stopped(self) -> None:
        """Note that nothing is left to shut down."""
        atexit.unregister(self._exit)

    def _exit(self) -> None:
        if os.getpid() == self._started_by:  # a forked child has its parent's exit functions, but not its servers
            self.shut_down()


class ContainerProvider(Provider):
    """Starts a server from a container image, and stops it.

    One instance stands for one server at a time.
    """

    @abstractmethod
    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Start a container and return at once, before the server in it is ready.

        Args:
            image: Name of the image.
            port: Port to reach the server on; a free one is taken if ``None``.
            env_vars: Environment variables to set in the container.
            **kwargs: What else the provider takes.

        Returns:
            The server's address, as ``http://host:port``.

        Raises:
            ProviderError: The container could not be started.
        """

    @abstractmethod
    def stop_container(self) -> None:
        """Stop and remove the container. Without one this does nothing."""

    def wait_for_ready(self, base_url: str, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Block until the server answers ``GET /health``.

        Args:
            base_url: What ``start_container`` returned.
            timeout_s: Seconds to wait at most.

        Raises:
            ProviderError: The server ended before it was ready.
            ServerNotReadyError: The server was not ready in time; a ``TimeoutError`` too.
        """
        self._wait_until_healthy(base_url, timeout_s)

    def launch(self) -> str:
        """Start the image that the provider was made with, and wait until its server is ready; see ``Provider``.

        Raises:
            ConfigurationError: The provider was not made with an image; its ``start_container`` needs one.
        """
        return self._launch(of_its_own_image(type(self), self.start_container), None)

    def launch_image(self, image: str, *, timeout_s: float | None = None, **options: Any) -> str:
        """Start an image and wait until its server is ready; on failure nothing is left running.

        Args:
            image: Name of the image.
            timeout_s: Seconds that the server may take to get ready; the provider's own default if ``None``.
            **options: As ``start_container`` takes them.

        Returns:
            The server's address.

        Raises:
            ProviderError: The container could not be started, or ended before it was ready.
            ServerNotReadyError: The server was not ready in time; a ``TimeoutError`` too.
        """
        return self._launch(partial(self.start_container, image, **options), timeout_s)

    def _launch(self, start: Callable[[], str], timeout_s: float | None) -> str:
        waiting = {} if timeout_s is None else {"timeout_s": timeout_s}
        try:
            base_url = start()
            self.wait_for_ready(base_url, **waiting)
        except BaseException:
            self.shut_down()
            raise
        return base_url

    def shut_down(self) -> None:
        """Stop the container and release what the provider holds."""
        self.stop_container()
        self.close()

    def close(self) -> None:
        """Release what the provider itself holds, such as a connection to its service."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class RuntimeProvider(Provider):
    """Starts a server that it knows how to run, and stops it.

    As a context manager it starts on enter and stops on exit. One instance stands for one server at a time.
    """

    @property
    def base_url(self) -> str:
        """The server's address, as ``http://host:port``. Raises ``ProviderError`` while none is running."""
        raise ProviderError(
            f"{type(self).__name__} overrides neither base_url nor wait_for_ready; it needs one of them."
        )

    @abstractmethod
    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server and return at once, before it is ready.

        Args:
            port: Port to serve on; a free one is taken if ``None``.
            env_vars: Environment variables to set for the server.
            **kwargs: What else the provider takes.

        Returns:
            The server's address, as ``http://host:port``.

        Raises:
            ProviderError: The server could not be started, or this provider is running one already.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the server. Without one this does nothing."""

    def launch(self, timeout_s: float | None = None, **options: Any) -> str:
        """Start the server and wait until it is ready; see ``Provider``.

        Args:
            timeout_s: Seconds that it may take to get ready; the provider's own default if ``None``.
            **options: As ``start`` takes them.
        """
        waiting = {} if timeout_s is None else {"timeout_s": timeout_s}
        try:
            base_url = self.start(**options)
            self.wait_for_ready(**waiting)
        except BaseException:
            self.stop()
            raise
        return base_url

    def shut_down(self) -> None:
        """Stop the server."""
        self.stop()

    def wait_for_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Block until the server answers ``GET /health``.

        Args:
            timeout_s: Seconds to wait at most.

        Raises:
            ProviderError: The server was not started, or ended before it was ready.
            ServerNotReadyError: The server was not ready in time; a ``TimeoutError`` too.
        """
        self._wait_until_healthy(self.base_url, timeout_s)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def token_for(env_vars: Mapping[str, str]) -> str:
    """Return the token that a server's environment variables give it; a new one where they give it none."""
    return env_vars.get(TOKEN_VARIABLE) or secrets.token_urlsafe(_TOKEN_BYTES)


def of_its_own_image(provider_class: type, start_container: Callable[..., str]) -> Callable[[], str]:
    """Return the method that starts the image that a provider was made with.

    Args:
        provider_class: Class of the provider.
        start_container: The provider's method.

    Raises:
        ConfigurationError: The method needs an image, or other arguments.
    """
    needed = [name for name, given in signature(start_container).parameters.items() if _is_required(given)]
    if needed:
        raise ConfigurationError(
            f"{provider_class.__name__}.start_container() requires {', '.join(needed)}, which no client knows. Call it "
            "yourself and give the client the address as base_url, or use the client's from_docker_image."
        )
    return start_container


def _is_required(parameter: Parameter) -> bool:
    named = parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return named and parameter.default is Parameter.empty


class _Unavailable(ContainerProvider):
    """Stands for a provider whose extra is not installed."""

    reason: ImportError

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse to make one."""
        raise ImportError(str(cls.reason)) from cls.reason


def unavailable(name: str, reason: ImportError) -> type[ContainerProvider]:
    """Return a class that stands for a provider whose extra is not installed: making one raises what was missing.

    Programs import the names of all providers and use one of them.

    Args:
        name: The provider's name.
        reason: The error of importing the provider.
    """
    return type(name, (_Unavailable,), {"reason": reason, "__doc__": f"Not installed. {reason}"})
