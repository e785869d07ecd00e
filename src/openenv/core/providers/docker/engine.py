"""The connection to Docker's engine, and the only module that imports its SDK."""

from collections.abc import Iterator
from contextlib import contextmanager

from openenv._extras import install_command
from openenv.core.exceptions import ProviderError
from openenv.core.providers.docker.diagnosis import why_unavailable

try:
    from docker import DockerClient as DockerClient
    from docker import from_env
    from docker.errors import APIError as APIError
    from docker.errors import DockerException
    from docker.errors import ImageNotFound as ImageNotFound
    from docker.errors import NotFound as NotFound
    from docker.models.images import Image as Image
    from docker.types import EndpointSpec as EndpointSpec
    from docker.types import Healthcheck as Healthcheck
    from docker.types import Resources as Resources
    from docker.types import ServiceMode as ServiceMode
except ImportError as error:
    raise ImportError(f"This needs the Docker SDK: {install_command('docker')}") from error

ENGINE_ERRORS = (DockerException, OSError)
"""What the SDK raises where the engine refuses, or gives no answer."""
_CONNECTIONS = 64


def connect() -> DockerClient:
    """Connect to the engine that the ``docker`` command uses: ``DOCKER_HOST``, its context, or this machine's own.

    Returns:
        A connected client; close it after use.

    Raises:
        ProviderError: There is no engine, or it can't be used; the message says what brings it.
    """
    try:
        client = from_env(max_pool_size=_CONNECTIONS)
        client.ping()
    except ENGINE_ERRORS as error:
        raise ProviderError(why_unavailable(error)) from error
    return client


@contextmanager
def engine_failing(failure: str) -> Iterator[None]:
    """Turn what the SDK raises meanwhile into a ``ProviderError``: the failure, and what the engine says of it."""
    try:
        yield
    except ENGINE_ERRORS as error:
        raise ProviderError(f"{failure}: {reason(error)}.") from error


def reason(error: Exception) -> str:
    """Return what the engine says of an error; what the SDK says where that is nothing."""
    explanation = error.explanation if isinstance(error, APIError) else None
    return str(explanation or error)
