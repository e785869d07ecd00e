"""``openenv deploy``: manifests or a chart with which a cluster runs an environment's servers."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from openenv.auto.discovery import find_environment
from openenv.auto.target import PACKAGED
from openenv.cli.options import environment_argument
from openenv.cli.setting_options import options_of, with_settings
from openenv.cli.targets import read_target
from openenv.core.env_server.access.tokens import TokenFile
from openenv.core.providers.base import token_for
from openenv.core.providers.kubernetes.manifests import name_from
from openenv.core.providers.resources import Resources
from openenv.deploy.files import write_deployment
from openenv.deploy.settings import DeploymentSettings
from openenv.deploy.steps import next_steps

secrets_option, containers_option = (
    partial(typer.Option, rich_help_panel=heading) for heading in ("Variables and secrets", "Containers")
)


@with_settings(options_of(DeploymentSettings))
def deploy(
    settings: dict[str, Any],
    _target: Annotated[Literal["k8s"], typer.Argument(metavar="k8s", help="Target to deploy to: k8s, for Kubernetes.")],
    environment: Annotated[str, environment_argument("Name, folder or file of an environment, or a Space.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder to write to.  [default: deploy/NAME]"),
    ] = None,
    format_: Annotated[
        Literal["manifests", "chart"], typer.Option("--format", help="Manifests for kubectl, or a chart for Helm.")
    ] = "manifests",
    cpus: Annotated[float, containers_option(min=0.01, help="Processors that a server may use.")] = 1,
    memory: Annotated[
        str, containers_option(metavar="SIZE", help="Memory that a server may use, as in 512m or 2g.")
    ] = "1g",
    gpus: Annotated[int, containers_option(min=0, help="GPUs that a server gets.")] = 0,
    with_token: Annotated[
        bool, secrets_option("--with-token", help="Make a token and write it too, in plain text.")
    ] = False,
    writable_root: Annotated[
        bool, containers_option("--writable-root", help="Let servers write the image's files.")
    ] = False,
) -> None:
    """Write what Kubernetes needs to run an environment's servers, and print the next commands."""
    package = find_environment(read_target(environment, "deploy", PACKAGED, imports=False))
    deployment = DeploymentSettings(
        **{"name": name_from(package.name), **settings},
        resources=Resources(cpus=cpus, memory=memory, gpus=gpus),
        token=token_for({}) if with_token else None,
        read_only_root=not writable_root,
    )
    if deployment.tokens is not None:
        TokenFile(deployment.tokens)  # refused here if servers would refuse it
    folder = output or Path("deploy") / deployment.name
    as_chart = format_ == "chart"
    written = "".join(f"wrote {file}\n" for file in write_deployment(deployment, folder, as_chart=as_chart))
    typer.echo(f"{written}\n{next_steps(deployment, folder, as_chart=as_chart)}")
