"""Servers in several containers behind one port, by Docker Swarm."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.base import LOG_END, ContainerProvider, token_for
from openenv.core.providers.docker.engine import connect
from openenv.core.providers.docker.image import find_image
from openenv.core.providers.docker.leftovers import remove_leftovers
from openenv.core.providers.docker.relay import HOST
from openenv.core.providers.resources import Resources
from openenv.core.providers.swarm.membership import make_network, node_id
from openenv.core.providers.swarm.service import Service, Wanted
from openenv.core.wire.names import TOKEN_VARIABLE

_REPLICAS = 2


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What a service gets besides its image and variables; see ``DockerSwarmProvider.start_container``."""

    replicas: int | None = None
    cpu_limit: float | str | None = None
    memory_limit: str | int | None = None
    constraints: Sequence[str] | None = None
    labels: Mapping[str, str] | None = None
    command: Sequence[str] | str | None = None

    @staticmethod
    def of(given: Mapping[str, Any]) -> "_Options":
        known = [option.name for option in fields(_Options)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ConfigurationError(
                f"DockerSwarmProvider does not know {', '.join(unknown)}; besides image, port and env_vars it takes "
                f"{', '.join(known)}."
            )
        return _Options(**given)

    @property
    def arguments(self) -> Sequence[str]:
        """What replaces the image's command."""
        return shlex.split(self.command) if isinstance(self.command, str) else self.command or ()

    @property
    def resources(self) -> Resources:
        """The limits of each container."""
        try:
            cpus = None if self.cpu_limit is None else float(self.cpu_limit)
        except ValueError as error:
            raise ConfigurationError(f"Expected cpu_limit to be a number, got {self.cpu_limit!r}.") from error
        return Resources(cpus=cpus, memory=self.memory_limit)

    def replicas_of(self, publish: str) -> int:
        """Return how many containers there are, for a way of publishing.

        Raises:
            ConfigurationError: It is none, or more than can be published.
        """
        replicas = (1 if publish == "host" else _REPLICAS) if self.replicas is None else int(self.replicas)
        if replicas < 1:
            raise ConfigurationError(f"Expected replicas to be at least 1, got {self.replicas}.")
        if replicas > 1 and publish == "host":
            raise ConfigurationError(f"publish='host' reaches one replica, got replicas={replicas}.")
        return replicas


class DockerSwarmProvider(ContainerProvider):
    """Starts a server from an image as a service of Docker Swarm: several containers behind one port.

    The swarm spreads *connections* over the containers, and a session is in the container that its connection came to.
    A connection that breaks may come back to another container, where its session is only if all of them share a
    journal; with ``replicas=1`` it always finds its session.

    The servers have no capabilities of root and require a token of every client, which ``EnvClient`` sends by itself;
    ``docker service inspect`` shows it. The service is removed by ``stop_container``, when this interpreter ends, and
    when it is killed. The swarm stays.

    Args:
        image: The image to start where ``start_container`` names none.
        auto_init_swarm: Whether this machine becomes a swarm of its own, which no other can join, where it is in none.
        overlay_network: An overlay network that the service joins; it is made where there is none of this name.
        publish: ``"ingress"`` publishes the port on every machine of the swarm, which spread connections; ``"host"``
            publishes it on this machine only, for one container, without the kernel's IPVS.
        env_vars: Environment variables for the servers.

    Raises:
        ProviderError: Docker can't be used, or this machine manages no swarm; the message says what brings it.

    Example::

        provider = DockerSwarmProvider("echo-env:latest")
        url = provider.start_container(replicas=4, cpu_limit=1, memory_limit="512m")
        provider.wait_for_ready(url)
        with EchoEnv(base_url=url, token=provider.token).sync() as env:
            env.reset()
        provider.shut_down()
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        auto_init_swarm: bool = True,
        overlay_network: str | None = None,
        publish: Literal["ingress", "host"] = "ingress",
        env_vars: Mapping[str, str] | None = None,
    ) -> None:
        if publish not in ("ingress", "host"):
            raise ConfigurationError(f"Expected publish to be ingress or host, got {publish!r}.")
        self.image = image
        self.env_vars = dict(env_vars or {})
        self._publish = publish
        self._network = overlay_network
        self._service: Service | None = None
        self._token: str | None = None
        self._base_url = ""
        self._client = connect()
        try:
            self._node = node_id(self._client, may_init=auto_init_swarm)
            if overlay_network is not None:
                make_network(self._client, overlay_network)
        except BaseException:
            self._client.close()
            raise

    @property
    def token(self) -> str | None:
        """What clients of the servers must send; ``None`` before ``start_container``."""
        return self._token

    @property
    def base_url(self) -> str:
        """The servers' address, as ``http://127.0.0.1:port``. Raises ``ProviderError`` without a service."""
        if self._service is None:
            raise ProviderError("No service is running; call start_container() first.")
        return self._base_url

    @property
    def service_name(self) -> str | None:
        """The running service's name, for ``docker service ps`` and the like; ``None`` without one."""
        return None if self._service is None else self._service.name

    def start_container(
        self,
        image: str | None = None,
        port: int | None = None,
        env_vars: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> str:
        """Start a service and return once its port is known, before its servers are ready.

        Args:
            image: Name of the image; the constructor's if ``None``. It is pulled if this machine does not have it.
                Other machines of the swarm pull it by themselves.
            port: Port to reach the servers on; the swarm chooses if ``None``.
            env_vars: Environment variables for the servers, on top of the constructor's. ``PORT`` says where they
                listen in their containers, where that is not 8000.
            **kwargs: ``replicas``, the number of containers (2; 1 with ``publish="host"``); ``cpu_limit`` and
                ``memory_limit`` of each; ``constraints`` on machines, as ``["node.labels.gpu==yes"]``; ``labels`` of
                the service; ``command``, in place of the image's.

        Returns:
            The servers' address, as ``http://127.0.0.1:port``.

        Raises:
            ConfigurationError: No image was named, a keyword is unknown, or its value is none.
            ProviderError: The service could not be started, or this provider is running one already.
        """
        if self._service is not None:
            raise ProviderError(f"The service {self._service.name} is running already; stop_container() it first.")
        name = image or self.image
        if name is None:
            raise ConfigurationError("No image was named: DockerSwarmProvider('echo-env:latest'), for example.")
        wanted = self._wanted(name, port, {**self.env_vars, **(env_vars or {})}, _Options.of(kwargs))
        remove_leftovers(self._client)
        self._service = Service(self._client, wanted)
        try:
            self._stop_at_exit()
            self._base_url = f"http://{HOST}:{self._service.published_port()}"
        except BaseException:
            self.stop_container()
            raise
        return self._base_url

    def stop_container(self) -> None:
        """Remove the service, and with it its containers. Without one this does nothing."""
        service, self._service = self._service, None
        if service is None:
            return
        self._stopped()
        service.remove()

    def close(self) -> None:
        """Close the connection to the engine."""
        self._client.close()

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with the end of the log if the service was removed, or its containers only end."""
        if self._service is not None:
            self._service.check_alive()

    def logs(self, size: int = LOG_END) -> str:
        """Return the end of what the servers have printed; empty without a service."""
        return "" if self._service is None else self._service.logs(size)

    def _wanted(self, image: str, port: int | None, variables: Mapping[str, str], options: _Options) -> Wanted:
        self._token = token_for(variables)
        return Wanted(
            image=image,
            variables={**variables, TOKEN_VARIABLE: self._token},
            container_port=find_image(self._client, image).port(variables),
            port=port,
            node=self._node if self._publish == "host" else None,
            replicas=options.replicas_of(self._publish),
            resources=options.resources,
            constraints=options.constraints or (),
            labels=options.labels,
            arguments=options.arguments,
            network=self._network,
        )
