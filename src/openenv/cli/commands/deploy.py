"""``openenv deploy``: what a cluster needs to run an environment's servers by itself."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from openenv.auto.discovery import find_environment
from openenv.auto.target import PACKAGED
from openenv.cli.key_values import read_variables
from openenv.cli.options import environment_argument, variable_option
from openenv.cli.targets import read_target
from openenv.core.providers.base import token_for
from openenv.core.providers.kubernetes.manifests import name_from
from openenv.core.providers.resources import Resources
from openenv.deploy.files import write_deployment
from openenv.deploy.settings import Affinity, Autoscaler, DeploymentSettings, Egress
from openenv.deploy.steps import next_steps

Target = Annotated[Literal["k8s"], typer.Argument(metavar="k8s", help="What to deploy to: k8s, for Kubernetes.")]
EnvName = Annotated[str, environment_argument("Name, folder or file of an environment, or a Space.")]
Image = Annotated[str, typer.Option(help="Its image, where the cluster can pull it from.", show_default=False)]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where to write.  [default: deploy/NAME]")
]
Format = Annotated[
    Literal["manifests", "chart"], typer.Option("--format", help="Manifests for kubectl, or a chart for Helm.")
]
Name = Annotated[str | None, typer.Option(help="Name of the objects.  [default: the environment's]")]
Namespace = Annotated[str, typer.Option(help="Namespace to deploy to.")]
Replicas = Annotated[int, typer.Option(min=1, help="Servers; with --autoscale, at least.")]
MaxSessions = Annotated[
    int | None, typer.Option(min=1, help="Sessions that a server holds at once.  [default: the environment's]")
]
Autoscale = Annotated[Autoscaler, typer.Option(help="What adds and removes servers as sessions come and go.")]
MaxReplicas = Annotated[
    int | None, typer.Option(min=1, help="With --autoscale: servers at most.  [default: 4 times --replicas]")
]
PrometheusUrl = Annotated[
    str, typer.Option(metavar="URL", help="With --autoscale keda: where Prometheus is, seen from the cluster.")
]
MonitoringNamespace = Annotated[
    str, typer.Option(metavar="NAMESPACE", help="With --autoscale: where Prometheus runs, which is let in.")
]
Cpus = Annotated[float | None, typer.Option(min=0.01, help="Processors that a server may use.")]
Memory = Annotated[str | None, typer.Option(help="Memory that a server may use, as in 512m or 2g.")]
Gpus = Annotated[int, typer.Option(min=0, help="GPUs that a server gets.")]
EnvVar = Annotated[list[str] | None, variable_option("--env-var", "-e")]
SecretEnv = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Environment variable whose value the Secret has; may be given again."),
]
DrainS = Annotated[int, typer.Option(min=0, help="Seconds for episodes to end before a server does.")]
Journal = Annotated[
    bool, typer.Option("--journal", help="Share a journal in PostgreSQL, whose address the Secret has: sessions go on.")
]
AffinityOption = Annotated[Affinity, typer.Option("--affinity", help="Which of the servers a connection goes to.")]
EgressOption = Annotated[Egress, typer.Option("--egress", help="What environments may connect to.")]
AllowNamespace = Annotated[
    list[str] | None,
    typer.Option(metavar="NAMESPACE", help="Further namespace whose pods may connect; may be given again."),
]
Secret = Annotated[str | None, typer.Option(help="Name of the Secret with the token.  [default: the objects']")]
WithToken = Annotated[bool, typer.Option("--with-token", help="Make a token and write it too, in plain text.")]
User = Annotated[int, typer.Option(min=1, help="Number of the user that servers run as.")]
WritableRoot = Annotated[bool, typer.Option("--writable-root", help="Let servers write the image's files.")]


def deploy(
    _target: Target,
    environment: EnvName,
    image: Image,
    output: Output = None,
    format_: Format = "manifests",
    name: Name = None,
    namespace: Namespace = "default",
    replicas: Replicas = 1,
    max_sessions: MaxSessions = None,
    autoscale: Autoscale = Autoscaler.NONE,
    max_replicas: MaxReplicas = None,
    prometheus_url: PrometheusUrl = "http://prometheus-operated.monitoring.svc:9090",
    monitoring_namespace: MonitoringNamespace = "monitoring",
    cpus: Cpus = 1,
    memory: Memory = "1g",
    gpus: Gpus = 0,
    env_var: EnvVar = None,
    secret_env: SecretEnv = None,
    drain_s: DrainS = 60,
    journal: Journal = False,
    affinity: AffinityOption = Affinity.CLIENT_IP,
    egress: EgressOption = Egress.NONE,
    allow_namespace: AllowNamespace = None,
    secret: Secret = None,
    with_token: WithToken = False,
    user: User = 1000,
    writable_root: WritableRoot = False,
) -> None:
    """Write what Kubernetes needs to run an environment's servers, and say what to do with it."""
    name = name or name_from(find_environment(read_target(environment, "deploy", PACKAGED, imports=False)).name)
    settings = DeploymentSettings(
        name=name,
        image=image,
        namespace=namespace,
        replicas=replicas,
        max_replicas=max_replicas,
        autoscaler=autoscale,
        prometheus_url=prometheus_url,
        monitoring_namespace=monitoring_namespace,
        max_sessions=max_sessions,
        resources=Resources(cpus=cpus, memory=memory, gpus=gpus),
        env_vars=read_variables(env_var or [], "--env-var"),
        secret_env=tuple(secret_env or ()),
        drain_s=drain_s,
        journal=journal,
        affinity=affinity,
        egress=egress,
        allowed_namespaces=tuple(allow_namespace or ()),
        secret=secret,
        token=token_for({}) if with_token else None,
        user=user,
        read_only_root=not writable_root,
    )
    folder = output or Path("deploy") / name
    as_chart = format_ == "chart"
    for file in write_deployment(settings, folder, as_chart=as_chart):
        typer.echo(f"wrote {file}")
    typer.echo(f"\n{next_steps(settings, folder, as_chart=as_chart)}")
