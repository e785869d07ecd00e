"""What every provider promises, whether it starts a container or a plain process."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import Parameter, signature
from types import TracebackType
from typing import Any, Self

from openenv.core.containers.health import wait_until_healthy
from openenv.core.exceptions import ConfigurationError, ProviderError


class Provider(ABC):
    """What a client needs of a provider, whichever of the two kinds it is."""

    @abstractmethod
    def launch(self) -> str:
        """Start a server, wait until it is ready, and return its address; on failure nothing is left running.

        Raises:
            ProviderError: The server could not be started, or ended before it was ready.
            TimeoutError: The server was not ready in time.
        """

    @abstractmethod
    def shut_down(self) -> None:
        """Stop the server and release what the provider holds. May be called twice."""

    def check_alive(self) -> None:  # noqa: B027  # a provider that can't tell has nothing to check
        """Raise ``ProviderError`` if the server was started and has ended; a provider that can't tell does nothing."""


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

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Block until the server answers ``GET /health``.

        Args:
            base_url: What ``start_container`` returned.
            timeout_s: Seconds to wait at most.

        Raises:
            ProviderError: The server ended before it was ready.
            TimeoutError: The server was not ready in time.
        """
        wait_until_healthy(base_url, timeout_s, self.check_alive)

    def launch(self) -> str:
        """Start the image that the provider was made with, and wait until its server is ready; see ``Provider``.

        Raises:
            ConfigurationError: The provider was not made with an image; its ``start_container`` needs one.
        """
        needed = [name for name, given in signature(self.start_container).parameters.items() if _is_required(given)]
        if needed:
            raise ConfigurationError(
                f"{type(self).__name__}.start_container needs {', '.join(needed)}, which no client knows. "
                "Call it yourself and give the client the address as base_url, or use the client's from_docker_image."
            )
        start: Callable[..., str] = self.start_container
        try:
            base_url = start()
            self.wait_for_ready(base_url)
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

    def launch(self) -> str:
        """Start the server and wait until it is ready; see ``Provider``."""
        try:
            base_url = self.start()
            self.wait_for_ready()
        except BaseException:
            self.stop()
            raise
        return base_url

    def shut_down(self) -> None:
        """Stop the server."""
        self.stop()

    def wait_for_ready(self, timeout_s: float = 30.0) -> None:
        """Block until the server answers ``GET /health``.

        Args:
            timeout_s: Seconds to wait at most.

        Raises:
            ProviderError: The server was not started, or ended before it was ready.
            TimeoutError: The server was not ready in time.
        """
        wait_until_healthy(self.base_url, timeout_s, self.check_alive)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _is_required(parameter: Parameter) -> bool:
    named = parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return named and parameter.default is Parameter.empty
