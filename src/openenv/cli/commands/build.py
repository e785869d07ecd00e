"""``openenv build``: the image of an environment."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from openenv.auto.manifest import load_manifest
from openenv.cli.groups import command_app
from openenv.cli.key_values import read_variables
from openenv.cli.views.image_start import start_image
from openenv.images.builder import Build, BuiltImage, build_image
from openenv.images.compose import COMPOSE_FILE, write_compose_file
from openenv.images.health import START_TIMEOUT_S

_MEBIBYTE = 2**20

dockerfile_option, packages_option = (
    partial(typer.Option, rich_help_panel=heading) for heading in ("Dockerfile", "Packages")
)

EnvPath = Annotated[Path, typer.Argument(metavar="ENV_PATH", file_okay=False, help="Folder of the environment.")]
Tag = Annotated[
    str | None,
    typer.Option("--tag", "-t", metavar="NAME", help="Name of the image.  [default: openenv-NAME]", show_default=False),
]
Context = Annotated[
    Path | None,
    dockerfile_option(
        "--context",
        "-c",
        exists=True,
        file_okay=False,
        help="Folder that the Dockerfile copies from.",
        show_default=False,
    ),
]
DockerfilePath = Annotated[
    Path | None,
    dockerfile_option(
        "--dockerfile",
        "-f",
        exists=True,
        dir_okay=False,
        help="Dockerfile to build.  [default: server/Dockerfile, or Dockerfile]",
        show_default=False,
    ),
]
NoCache = Annotated[bool, dockerfile_option("--no-cache", help="Build every layer again.")]
BuildArg = Annotated[
    list[str] | None,
    dockerfile_option(metavar="NAME=VALUE", help="Argument of the Dockerfile; may be given again.", show_default=False),
]
BaseImage = Annotated[
    str | None, dockerfile_option(help="Image to build on, for a Dockerfile with ARG BASE_IMAGE.", show_default=False)
]
Wheels = Annotated[
    Path | None,
    packages_option(
        exists=True,
        file_okay=False,
        help="Folder of wheels to install from, and from no index.",
        show_default=False,
    ),
]
Lock = Annotated[bool, packages_option("--lock", help="Choose versions again, and write them to requirements.lock.")]
Compose = Annotated[bool, typer.Option("--compose", help="Write a compose.yaml that starts the image.")]
NoStart = Annotated[bool, typer.Option("--no-start", help="Do not start the image to check its health.")]
StartTimeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=1,
        help=f"Seconds within which its server has to be healthy.  [default: {START_TIMEOUT_S:g}]",
        show_default=False,
    ),
]


def build(
    env_path: EnvPath = Path(),
    tag: Tag = None,
    context: Context = None,
    dockerfile: DockerfilePath = None,
    no_cache: NoCache = False,
    build_arg: BuildArg = None,
    base_image: BaseImage = None,
    wheels: Wheels = None,
    lock: Lock = False,
    compose: Compose = False,
    no_start: NoStart = False,
    start_timeout: StartTimeout = START_TIMEOUT_S,
) -> None:
    """Build an environment's image with Docker, start it to check that its server is healthy, and print its size."""
    image = build_image(
        Build(
            folder=env_path,
            tag=tag,
            context=context,
            dockerfile=dockerfile,
            base_image=base_image,
            wheels=wheels,
            lock=lock,
            no_cache=no_cache,
            arguments=read_variables(build_arg or [], "--build-arg"),
        )
    )
    _report(image)
    if not no_start:
        start_image(image, load_manifest(env_path), left_out_by="--no-start", timeout_s=start_timeout)
    if compose:
        _write_compose_file(env_path, image)


app = command_app("build", build)
"""The command as an application, for programs."""


def _write_compose_file(folder: Path, image: BuiltImage) -> None:
    written = write_compose_file(folder, image)
    if written is None:
        typer.echo(f"Kept {folder / COMPOSE_FILE} as it is; remove it to have it written anew.")
    else:
        typer.echo(f"Wrote {written}: OPENENV_TOKEN=... docker compose up")


def _report(image: BuiltImage) -> None:
    on_top = "" if image.base_size is None else f", {_mebibytes(image.size - image.base_size)} of it on top of its base"
    typer.echo(f"Built {image.tag}: {_mebibytes(image.size)}{on_top}.")
    typer.echo(f"Pin it as {image.id}.")


def _mebibytes(size: int) -> str:
    return f"{size / _MEBIBYTE:.0f} MiB"
