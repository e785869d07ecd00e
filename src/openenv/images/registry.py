"""Publication of an image in a registry, with the ``docker`` command, which knows its users' logins."""

import subprocess

from openenv.core.exceptions import ProviderError

DOCKER = "docker"


def image_name(registry: str, name: str) -> str:
    """Name an environment's image in a registry.

    Example:
        >>> image_name("https://ghcr.io/me/", "my_env")
        'ghcr.io/me/my-env:latest'
    """
    address = registry.partition("://")[2] or registry
    return f"{address.rstrip('/')}/{name.lower().replace('_', '-')}:latest"


def push_image(image: str) -> None:
    """Publish an image that was built here. Docker's output is printed.

    Raises:
        ProviderError: The registry does not take it, or can't be reached.
    """
    finished = subprocess.run([DOCKER, "push", image], check=False)  # noqa: S603  # Docker's own, from PATH
    if finished.returncode:
        raise ProviderError(
            f"{image} could not be published; Docker's message is above. You have to be logged in there: "
            "`docker login`."
        )
