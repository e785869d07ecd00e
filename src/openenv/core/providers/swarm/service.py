"""One service of a swarm: made, found at its port, looked at and removed through the engine."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from openenv.core.exceptions import ProviderError, ServerNotReadyError
from openenv.core.providers.base import LOG_END
from openenv.core.providers.docker.engine import (
    ENGINE_ERRORS,
    DockerClient,
    EndpointSpec,
    Healthcheck,
    NotFound,
    ServiceMode,
    engine_failing,
)
from openenv.core.providers.docker.engine import Resources as ServiceResources
from openenv.core.providers.docker.image import new_name
from openenv.core.providers.docker.labels import OWNER
from openenv.core.providers.docker.reaper import REAPERS
from openenv.core.providers.resources import Resources

PORT_TIMEOUT_S = 60.0
"""Seconds that a swarm may take to publish a port."""

_PAUSE_S = 0.1
_LOG_LINES = 400
_NANO = 10**9
_ENDED = frozenset({"rejected", "failed", "complete", "shutdown", "orphaned", "remove"})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a service is made of.

    Attributes:
        image: Name of the image.
        variables: Environment variables of its servers.
        container_port: The port that its servers listen on.
        port: The port by which it is published; the swarm chooses if ``None``.
        node: The only machine that runs it, which then publishes the port by itself, past the swarm's balancing; with
            ``None`` every machine of the swarm publishes it.
        replicas: How many containers.
        resources: What each of them may use.
        constraints: Which machines may run them, in Docker's words.
        labels: The service's labels.
        arguments: What replaces the image's command; empty to leave it.
        network: An overlay network that it joins.
    """

    image: str
    variables: Mapping[str, str]
    container_port: int
    port: int | None = None
    node: str | None = None
    replicas: int = 1
    resources: Resources = field(default_factory=Resources)
    constraints: Sequence[str] = ()
    labels: Mapping[str, str] | None = None
    arguments: Sequence[str] = ()
    network: str | None = None

    def settings(self) -> dict[str, Any]:
        """Return the arguments of the SDK's ``services.create``; from here on the owner's reaper watches over it."""
        cpus = self.resources.cpus
        published: dict[str, Any] = {"TargetPort": self.container_port}
        published["PublishMode"] = "ingress" if self.node is None else "host"
        if self.port is not None:
            published["PublishedPort"] = self.port
        settings: dict[str, Any] = {
            "name": new_name(self.image),
            "env": [f"{name}={value}" for name, value in self.variables.items()],
            "labels": {**(self.labels or {}), OWNER: str(REAPERS.start())},
            "mode": ServiceMode("replicated", self.replicas),
            "endpoint_spec": EndpointSpec(ports=[published]),
            "constraints": [*self.constraints, *([] if self.node is None else [f"node.id=={self.node}"])],
            "resources": ServiceResources(
                cpu_limit=None if cpus is None else round(cpus * _NANO), mem_limit=self.resources.memory_bytes
            ),
            "cap_drop": ["ALL"],
            "init": True,
        }
        if self.replicas == 1:
            # Of several, the swarm connects to those whose image's check passes; a start waits for a single one.
            settings["healthcheck"] = Healthcheck(test=["NONE"])
        if self.network is not None:
            settings["networks"] = [self.network]
        if self.arguments:
            settings["args"] = list(self.arguments)
        return settings


class Service:
    """A service that has been made.

    Args:
        client: The engine of a machine that manages the swarm.
        wanted: What it is made of.

    Raises:
        ProviderError: The engine refuses.
    """

    def __init__(self, client: DockerClient, wanted: Wanted) -> None:
        self._wanted = wanted
        with engine_failing(f"The service of {wanted.image} could not be made"):
            self._service = client.services.create(wanted.image, **wanted.settings())  # type: ignore[no-untyped-call]
        self.name = str(self._service.name)

    def published_port(self, timeout_s: float = PORT_TIMEOUT_S) -> int:
        """Wait for the port by which it is published, and return it.

        Raises:
            ProviderError: None of its containers can run.
            ServerNotReadyError: There was none in time.
        """
        ends_at = time.monotonic() + timeout_s
        while time.monotonic() < ends_at:
            for port in self._ports():
                if port["TargetPort"] == self._wanted.container_port and port.get("PublishedPort"):
                    return int(port["PublishedPort"])
            self.check_alive()
            time.sleep(_PAUSE_S)
        raise ServerNotReadyError(
            f"The swarm published no port of the service {self.name} in {timeout_s:.0f} s; "
            f"`docker service ps --no-trunc {self.name}` says why.",
            self.logs() or None,
        )

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with the end of the log if it was removed, or its containers only end.

        The swarm replaces a container that has ended; that more have ended than should run, while none runs, means that
        they never will.
        """
        states = [task["Status"] for task in self._tasks()]
        ended = [status for status in states if status["State"] in _ENDED]
        is_running = any(status["State"] == "running" for status in states)
        if not is_running and len(ended) > self._wanted.replicas:
            why = next((status["Err"] for status in ended if status.get("Err")), "its servers end by themselves")
            raise ProviderError(f"The service {self.name} does not run: {why}.", self.logs() or None)

    def logs(self, size: int = LOG_END) -> str:
        """Return the last ``size`` characters of what its servers printed; empty if the engine can't tell."""
        try:
            printed = b"".join(self._service.logs(stdout=True, stderr=True, tail=_LOG_LINES))
        except ENGINE_ERRORS:
            return ""
        return printed.decode(errors="replace").strip()[-size:]

    def remove(self) -> None:
        """Remove it, and with it its containers; a service that is gone already is fine.

        Raises:
            ProviderError: The engine can't; it gets the request again when this process ends.
        """
        failure = f"The service {self.name} could not be removed; that is tried again at exit. Docker says"
        with engine_failing(failure), suppress(NotFound):
            self._service.remove()

    def _ports(self) -> list[dict[str, Any]]:
        if self._wanted.node is not None:  # by the machine that runs it, not by the service
            statuses = [task["Status"].get("PortStatus") or {} for task in self._tasks()]
            return [port for status in statuses for port in status.get("Ports") or []]
        with engine_failing(f"Docker does not say how the service {self.name} is"):
            self._service.reload()
        ports: list[dict[str, Any]] = self._service.attrs["Endpoint"].get("Ports") or []
        return ports

    def _tasks(self) -> list[dict[str, Any]]:
        with engine_failing(f"Docker does not say how the service {self.name} is"):
            try:
                tasks: list[dict[str, Any]] = self._service.tasks()
            except NotFound as error:
                raise ProviderError(f"The service {self.name} was removed by another process.") from error
        return tasks
