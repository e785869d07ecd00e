"""The labels on images and containers by which OpenEnv knows what they need and whose they are."""

from collections.abc import Mapping
from dataclasses import dataclass

NETWORK = "org.openenv.network"
"""On an image: ``none`` if its server needs no network. Without it the container gets Docker's usual bridge."""
WRITABLE = "org.openenv.writable"
"""On an image: the folders that its server writes to, separated by spaces; everything else may be read-only."""
NESTED_SANDBOX = "org.openenv.nested-sandbox"
"""On an image: ``true`` if the server makes sandboxes of its own, for which it must be allowed namespaces."""
OWNER = "org.openenv.owner"
"""On a container: the process that started it; see ``Owner``."""


@dataclass(frozen=True)
class ImageLabels:
    """What an image says of the container that it wants.

    Attributes:
        network: ``none`` or ``bridge``.
        writable: The folders that must be writable; ``None`` if the whole file system must be.
        nested_sandbox: Whether the server makes sandboxes of its own.
    """

    network: str = "bridge"
    writable: tuple[str, ...] | None = None
    nested_sandbox: bool = False

    @staticmethod
    def of(labels: Mapping[str, str]) -> "ImageLabels":
        """Read an image's labels.

        Example:
            >>> ImageLabels.of({"org.openenv.network": "none", "org.openenv.writable": "/tmp /var/tmp"})
            ImageLabels(network='none', writable=('/tmp', '/var/tmp'), nested_sandbox=False)
        """
        writable = labels.get(WRITABLE)
        return ImageLabels(
            network="none" if labels.get(NETWORK) == "none" else "bridge",
            writable=None if writable is None else tuple(writable.split()),
            nested_sandbox=labels.get(NESTED_SANDBOX) == "true",
        )
