"""Providers that derive from neither class: objects with their methods, which the public package takes too."""

from typing import Any

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.base import READY_TIMEOUT_S, ContainerProvider, Provider, RuntimeProvider, of_its_own_image


def as_provider(given: Any, *, without_container: bool = False) -> Provider:
    """Return a provider for an object that is one, or has the methods of one.

    Args:
        given: A provider; or an object with ``start_container``, ``wait_for_ready`` and ``stop_container``, or else
            with ``start``, ``wait_for_ready`` and ``stop``; ``stop`` alone will do for a server that runs already.
        without_container: Whether ``start`` is the method to use where the object has both.

    Raises:
        ConfigurationError: The object has neither ``start_container`` nor ``start`` nor ``stop``.
    """
    if isinstance(given, Provider):
        return given
    has_start = callable(getattr(given, "start", None))
    if callable(getattr(given, "start_container", None)) and not (without_container and has_start):
        return UndeclaredContainers(given)
    if has_start or callable(getattr(given, "stop", None)):
        return UndeclaredRuntime(given)
    raise ConfigurationError(
        "Expected a provider, which has start_container, or start, or stop for a server that runs already, got "
        f"{given!r}. Derive it from ContainerProvider or RuntimeProvider of openenv.core.containers.runtime."
    )


def as_container_provider(given: Any, image: str) -> ContainerProvider:
    """Return a provider for an object that is to start an image.

    Args:
        given: A ``ContainerProvider``, or an object with its methods.
        image: Name of the image.

    Raises:
        ConfigurationError: The object starts no containers.
    """
    provider = as_provider(given)
    if not isinstance(provider, ContainerProvider):
        raise ConfigurationError(f"Expected a ContainerProvider to start the image {image}, got {provider!r}.")
    return provider


class UndeclaredContainers(ContainerProvider):
    """Starts containers by another object's methods.

    Args:
        given: The object.
    """

    def __init__(self, given: Any) -> None:
        self._given = given

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Start a container."""
        named = {"port": port, "env_vars": env_vars, **kwargs}
        started: str = self._given.start_container(image, **_given_only(named))
        return started

    def launch(self) -> str:
        """Start the image that the object knows; see ``Provider``."""
        return self._launch(of_its_own_image(type(self._given), self._given.start_container), None)

    def stop_container(self) -> None:
        """Stop the container."""
        self._given.stop_container()

    def wait_for_ready(self, base_url: str, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Block until the server is ready."""
        self._given.wait_for_ready(base_url, timeout_s=timeout_s)


class UndeclaredRuntime(RuntimeProvider):
    """Starts a server by another object's methods.

    Args:
        given: The object.
    """

    def __init__(self, given: Any) -> None:
        self._given = given

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server.

        Raises:
            ConfigurationError: The object can't start one.
        """
        if not callable(getattr(self._given, "start", None)):
            raise ConfigurationError(
                f"Expected base_url beside a provider that has stop and no start, got none: {self._given!r} can only "
                "stop a server that runs already."
            )
        named = {"port": port, "env_vars": env_vars, **kwargs}
        started: str = self._given.start(**_given_only(named))
        return started

    def stop(self) -> None:
        """Stop the server."""
        self._given.stop()

    def wait_for_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Block until the server is ready."""
        self._given.wait_for_ready(timeout_s=timeout_s)


def _given_only(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
