"""Check that the server of a built image answers."""

import time
from collections.abc import Mapping

from openenv.auto.manifest import Manifest
from openenv.core.exceptions import ProviderError
from openenv.images.builder import BuiltImage

START_TIMEOUT_S = 60.0
"""Seconds that the server of an image may take until it is healthy, by default."""


def check_health(image: BuiltImage, manifest: Manifest, timeout_s: float = START_TIMEOUT_S) -> float:
    """Start an image, wait until its server answers ``GET /health``, and remove the container.

    Raises:
        ProviderError: The image can't be started, or its server ended or was not healthy in time; the message has the
            end of its log.
        ImportError: Docker's SDK is not installed; the message has the command that installs it.
    """
    from openenv.core.providers import LocalDockerProvider  # with Docker's SDK, which few commands need

    started = time.monotonic()
    provider = LocalDockerProvider(env_vars=_variables(manifest))
    try:
        provider.launch_image(image.id, timeout_s=timeout_s)
        return time.monotonic() - started
    except ProviderError as error:
        raise ProviderError(
            f"{image.tag} was built, but its server does not start: {error}\n"
            "Repair the cause in its log: a file may be missing in the image, or a package in server/requirements.txt."
        ) from error
    finally:
        provider.shut_down()


def _variables(manifest: Manifest) -> Mapping[str, str]:
    port = {"PORT": str(manifest.port)} if "port" in manifest.model_fields_set else {}
    return {**port, **manifest.variables}
