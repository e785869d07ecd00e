"""The start of an image that a command has built, and what a terminal shows of it."""

import typer

from openenv.auto.manifest import Manifest
from openenv.images.builder import BuiltImage
from openenv.images.health import START_TIMEOUT_S, check_health


def start_image(image: BuiltImage, manifest: Manifest, *, left_out_by: str, timeout_s: float = START_TIMEOUT_S) -> None:
    """Start an image and wait until its server is healthy; without Docker's SDK, warn that it was not started.

    Raises:
        ProviderError: The server ended, or was not healthy in time.
    """
    typer.echo(f"Starting {image.tag}; it has {timeout_s:g} s to be healthy ({left_out_by} leaves this out).", err=True)
    try:
        seconds = check_health(image, manifest, timeout_s)
    except ImportError as error:
        typer.echo(f"Warning: {image.tag} was not started, so it may not work. {error}", err=True)
        return
    typer.echo(f"It starts: healthy after {seconds:.1f} s.")
