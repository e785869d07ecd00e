"""Settings of a deployment on Kubernetes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.kubernetes.manifests import USER, check_name
from openenv.core.providers.resources import Resources
from openenv.core.variables import Option
from openenv.core.wire.names import TOKEN_VARIABLE

PRE_STOP_S = 5
"""Seconds before a pod gets the signal to end, in which load balancers stop sending it new connections."""
CLOSE_S = 11
"""Seconds that a server takes to end once it has drained, at most."""
TOKENS_VARIABLE = "OPENENV_TOKENS"
_SET_BY_OPTIONS = {
    "PORT",
    "HOME",
    "MAX_CONCURRENT_ENVS",
    "OPENENV_DRAIN_S",
    TOKEN_VARIABLE,
    TOKENS_VARIABLE,
    "OPENENV_JOURNAL",
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL = 0.7
"""Share of a server's slots in use, on average, above which another server is added: it takes its time to start."""


class Autoscaler(StrEnum):
    """Controllers that add and remove servers."""

    NONE = "none"
    PROMETHEUS_ADAPTER = "prometheus-adapter"
    """Kubernetes' autoscaler, with sessions from the Prometheus adapter."""
    KEDA = "keda"


class Affinity(StrEnum):
    """Choice of the server that a client's connection goes to."""

    CLIENT_IP = "client-ip"
    """Server that all connections of the client's address go to."""
    NONE = "none"
    """Any server."""


class Egress(StrEnum):
    """Networks that environments may connect to."""

    NONE = "none"
    """No network, but for the journal's database."""
    ALL = "all"


# Headings of the options of `openenv deploy`.
_SERVERS, _NETWORK = Option(heading="Servers"), Option(heading="Network")


@dataclass(frozen=True)
class DeploymentSettings:
    """Settings of a deployment.

    Attributes:
        name: Name of the objects; default: the environment's.
        image: Image of the server, under a name by which the cluster can pull it.
        namespace: Namespace to deploy to.
        replicas: Servers; with an autoscaler, at least.
        max_replicas: Servers at most, with an autoscaler; default: 4 times the servers at least.
        autoscaler: Autoscaler, which adds and removes servers as sessions come and go.
        prometheus_url: Address of Prometheus, seen from the cluster, for the autoscaler KEDA.
        monitoring_namespace: Namespace of Prometheus, which is let in where there is an autoscaler.
        max_sessions: Sessions that a server holds at once; default: the environment's.
        resources: What a server may take.
        env_vars: Environment variable that is no secret.
        secret_env: Environment variable whose value the Secret has, under its name.
        drain_s: Seconds for episodes to end before a server does.
        journal: Share a journal in PostgreSQL, whose address the Secret has: sessions continue.
        affinity: Choice of the server for a client's connection.
        egress: Addresses that environments may connect to.
        allowed_namespaces: Further namespace whose pods may connect to the servers.
        secret: Name of the Secret with the token; default: that of the objects.
        token: The token, where the Secret is to be written too.
        tokens: File with named tokens, for a Secret that servers read again; default: none.
        user: Number of the user that servers run as.
        read_only_root: Whether the image's files can't be written.

    Raises:
        ConfigurationError: A setting makes no sense.
    """

    name: Annotated[str, Option()]
    image: Annotated[str, Option()]
    namespace: Annotated[str, Option()] = "default"
    replicas: Annotated[int, Field(ge=1), _SERVERS] = 1
    max_replicas: Annotated[int | None, Field(ge=1), _SERVERS] = None
    autoscaler: Annotated[Autoscaler, Option(("--autoscale",), heading="Servers")] = Autoscaler.NONE
    prometheus_url: Annotated[str, Option(metavar="URL", heading="Servers")] = (
        "http://prometheus-operated.monitoring.svc:9090"
    )
    monitoring_namespace: Annotated[str, Option(metavar="NAMESPACE", heading="Servers")] = "monitoring"
    max_sessions: Annotated[int | None, Field(ge=1), _SERVERS] = None
    resources: Resources = field(default_factory=lambda: Resources(cpus=1, memory="1g"))
    env_vars: Annotated[
        Mapping[str, str], Option(("--env-var", "-e"), metavar="NAME=VALUE", heading="Variables and secrets")
    ] = field(default_factory=dict)
    secret_env: Annotated[tuple[str, ...], Option(metavar="NAME", heading="Variables and secrets")] = ()
    drain_s: Annotated[int, Field(ge=0), _SERVERS] = 60
    journal: Annotated[bool, _SERVERS] = False
    affinity: Annotated[Affinity, _NETWORK] = Affinity.CLIENT_IP
    egress: Annotated[Egress, _NETWORK] = Egress.NONE
    allowed_namespaces: Annotated[
        tuple[str, ...], Option(("--allow-namespace",), metavar="NAMESPACE", heading="Network")
    ] = ()
    secret: Annotated[str | None, Option(heading="Variables and secrets")] = None
    token: str | None = field(default=None, repr=False)
    tokens: Annotated[str | None, Option(metavar="FILE", heading="Variables and secrets")] = None
    user: Annotated[int, Field(ge=1), Option(heading="Containers")] = USER
    read_only_root: bool = True

    def __post_init__(self) -> None:
        check_name(self.name, "name")
        check_name(self.namespace, "namespace")
        for secret in (self.secret_name, self.tokens_secret_name):
            check_name(secret, "name of a Secret")
        for namespace in (*self.allowed_namespaces, self.monitoring_namespace):
            check_name(namespace, "namespace")
        if not self.image.strip():
            raise ConfigurationError("Expected the name of an image, got none.")
        if self.user == 0:
            raise ConfigurationError("Expected the number of a user other than root, got 0; 1000 is the default.")
        self._check_variables()
        self._check_replicas()

    def _check_variables(self) -> None:
        for name in (*self.env_vars, *self.secret_env):
            if not _VARIABLE.fullmatch(name):
                raise ConfigurationError(f"Expected the name of an environment variable, got {name!r}.")
            if name in _SET_BY_OPTIONS:
                raise ConfigurationError(f"Expected no {name} among the environment variables: other settings set it.")
        if twice := self.env_vars.keys() & set(self.secret_env):
            raise ConfigurationError(f"Expected each variable once, got {', '.join(sorted(twice))} as a secret too.")

    def _check_replicas(self) -> None:
        if self.replicas < 1:
            raise ConfigurationError(f"Expected at least 1 replica, got {self.replicas}.")
        if self.autoscaler is Autoscaler.NONE:
            if self.max_replicas is not None:
                raise ConfigurationError(
                    f"Expected an autoscaler for up to {self.max_replicas} replicas, got none: "
                    f"choose {Autoscaler.PROMETHEUS_ADAPTER} or {Autoscaler.KEDA}."
                )
            return
        if self.max_sessions is None:
            raise ConfigurationError(
                "Expected the number of sessions that a server holds, got none: the autoscaler has to know when it is "
                "full."
            )
        if self.most_replicas < self.replicas:
            raise ConfigurationError(
                f"Expected at least as many replicas at most as at least, got {self.most_replicas} and {self.replicas}."
            )

    @property
    def selector(self) -> dict[str, str]:
        """Labels by which its pods are found."""
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/instance": self.name}

    @property
    def tokens_secret_name(self) -> str:
        """Name of the Secret with the file of named tokens."""
        return f"{self.secret_name}-tokens" if self.tokens is not None else self.secret_name

    @property
    def secret_name(self) -> str:
        """Name of the Secret with the token, and with the journal's address."""
        return self.secret or self.name

    @property
    def most_replicas(self) -> int:
        """Maximum number of servers."""
        return self.max_replicas if self.max_replicas is not None else 4 * self.replicas

    @property
    def sessions_per_replica(self) -> int:
        """Sessions for each server, on average, above which another one is added."""
        return max(1, int(_FULL * (self.max_sessions or 1)))

    @property
    def grace_s(self) -> int:
        """Seconds from the signal to end a pod until it is killed."""
        return PRE_STOP_S + self.drain_s + CLOSE_S
