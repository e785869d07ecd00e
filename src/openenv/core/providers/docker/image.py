"""From an image's name to the very image that will run."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.docker.engine import (
    ENGINE_ERRORS,
    DockerClient,
    Image,
    ImageNotFound,
    engine_failing,
    reason,
)
from openenv.core.providers.docker.labels import ImageLabels

DEFAULT_PORT = 8000


@dataclass(frozen=True)
class FoundImage:
    """An image that is on the engine's machine.

    Attributes:
        id: What it is known by for ever, ``sha256:...``.
        variables: The environment variables that it sets.
        command: What it runs: its entry point, then its command.
        labels: What it says of the container that it wants.
    """

    id: str
    variables: Mapping[str, str]
    command: Sequence[str]
    labels: ImageLabels

    def port(self, variables: Mapping[str, str]) -> int:
        """Return the port that its server listens on: ``PORT`` as given or as the image sets it, else 8000.

        Raises:
            ConfigurationError: ``PORT`` is no port.
        """
        text = variables.get("PORT", self.variables.get("PORT", str(DEFAULT_PORT)))
        if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65535:
            raise ConfigurationError(f"PORT must be a port of 1 to 65535, but got {text!r}.")
        return int(text)


def find_image(client: DockerClient, name: str, digest: str | None = None) -> FoundImage:
    """Find an image, and pull it if the engine does not have it.

    Args:
        client: The engine.
        name: As ``echo-env:latest`` or ``registry/echo-env@sha256:...``.
        digest: ``sha256:...``: what it must be, by its registry or by its id. The same as ``@...`` in the name.

    Raises:
        ConfigurationError: The digest is none, or the name has another one.
        ProviderError: There is no such image, or it is another one than pinned.
    """
    plain_name, _, pinned = name.partition("@")
    if digest is not None and pinned not in ("", digest):
        raise ConfigurationError(f"{name} is pinned already, to another digest than {digest}; give one of them.")
    digest = digest or pinned or None
    if digest is not None and not _is_digest(digest):
        raise ConfigurationError(f"A digest looks like sha256: and 64 hexadecimal digits, but got {digest!r}.")
    image = _local_or_pulled(client, plain_name, digest)
    if digest is not None and digest not in _digests(image):
        raise ProviderError(
            f"The image {plain_name} is not the one it was pinned to: expected {digest}, but it is "
            f"{' or '.join(_digests(image))}. Get the pinned one, or pin this one if you trust it."
        )
    return _found(image)


def new_name(image: str) -> str:
    """Return a name for a container or service of an image, which nothing else has."""
    base = re.split("[:@]", image.rpartition("/")[2])[0]
    return f"openenv-{base}-{secrets.token_hex(4)}"


def _local_or_pulled(client: DockerClient, name: str, digest: str | None) -> Image:
    image = _local(client, name if digest is None else f"{name}@{digest}")
    if image is None and digest is not None:  # one built here has no digest of a registry; its id is as good
        image = _local(client, name)
    return image or _pulled(client, name, digest)


def _local(client: DockerClient, name: str) -> Image | None:
    with engine_failing(f"Docker can't look for the image {name}"):
        try:
            return client.images.get(name)
        except ImageNotFound:
            return None


def _pulled(client: DockerClient, name: str, digest: str | None) -> Image:
    repository, tag = (name, digest) if digest is not None else _split_tag(name)
    try:
        return client.images.pull(repository, tag=tag)
    except ENGINE_ERRORS as error:
        raise ProviderError(
            f"There is no image {name} here, and pulling it failed: {reason(error)}. "
            f"Build it: openenv build -t {name} FOLDER."
        ) from error


def _split_tag(name: str) -> tuple[str, str]:
    """Split ``host:5000/name:tag``; only what follows the last slash may hold a tag."""
    folder, slash, last = name.rpartition("/")
    base, _, tag = last.partition(":")
    return f"{folder}{slash}{base}", tag or "latest"


def _is_digest(text: str) -> bool:
    kind, _, digits = text.partition(":")
    return kind == "sha256" and len(digits) == 64 and all(digit in "0123456789abcdef" for digit in digits)


def _digests(image: Image) -> list[str]:
    pulled: list[str] = image.attrs.get("RepoDigests") or []
    return [str(image.id), *(name.partition("@")[2] for name in pulled)]


def _found(image: Image) -> FoundImage:
    settings: dict[str, Any] = image.attrs.get("Config") or {}
    variables = dict(line.partition("=")[::2] for line in settings.get("Env") or [])
    command = [*(settings.get("Entrypoint") or []), *(settings.get("Cmd") or [])]
    return FoundImage(str(image.id), variables, command, ImageLabels.of(settings.get("Labels") or {}))
