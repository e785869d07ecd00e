"""One container: made, started, looked at and removed through the engine."""

from collections.abc import Mapping
from typing import Any

from openenv.core.exceptions import ProviderError
from openenv.core.providers.base import LOG_END
from openenv.core.providers.docker.engine import ENGINE_ERRORS, DockerClient, NotFound, engine_failing
from openenv.core.providers.docker.leftovers import remove_container
from openenv.core.providers.docker.relay import HOST, Relay

_NO_NETWORK = "none"
_LOG_LINES = 400


class Container:
    """A container that has been made.

    Args:
        client: The engine.
        name: Its name.
        settings: What the engine makes it of, see Docker's ``POST /containers/create``.
        container_port: The port that its server listens on.

    Raises:
        ProviderError: The engine refuses.
    """

    def __init__(self, client: DockerClient, name: str, settings: Mapping[str, Any], container_port: int) -> None:
        self.name = name
        self.container_port = container_port
        self._client = client
        self._network = str(settings["HostConfig"]["NetworkMode"])
        self._relay: Relay | None = None
        with engine_failing(f"The container {name} could not be made"):
            made = client.api.create_container_from_config(dict(settings), name)  # type: ignore[no-untyped-call]
        self._id = str(made["Id"])

    def start(self, port: int | None) -> str:
        """Start it, and return the server's address.

        Args:
            port: The port to reach it on without a network; with one, its settings say.

        Raises:
            ProviderError: It can't be started, or has ended at once.
        """
        with engine_failing(f"The container {self.name} did not start"):
            self._client.api.start(self._id)
        return self._relayed(port) if self._network == _NO_NETWORK else self._published()

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with the end of the log if it has ended, or can never be reached."""
        state = self._inspect()["State"]
        if not state["Running"]:
            why = "it used more memory than it may" if state.get("OOMKilled") else f"exit status {state['ExitCode']}"
            raise ProviderError(f"The container {self.name} ended: {why}.", self.logs())
        if self._relay is not None and self._relay.failure:
            raise ProviderError(f"The container {self.name} can't be reached: {self._relay.failure}.", self.logs())

    def logs(self, size: int = LOG_END) -> str:
        """Return the last ``size`` characters of what it printed; empty if it is gone, or the engine can't tell."""
        try:
            printed = self._client.api.logs(self._id, tail=_LOG_LINES)
        except ENGINE_ERRORS:
            return ""
        return str(printed.decode(errors="replace").strip()[-size:])

    def remove(self, grace_s: float) -> None:
        """Stop and remove it; its server gets ``grace_s`` seconds to end by itself.

        Raises:
            ProviderError: The engine can't; it gets the request again when this process ends.
        """
        if self._relay is not None:
            self._relay.stop_listening()
        with engine_failing(
            f"The container {self.name} could not be removed; that is tried again at exit. Docker says"
        ):
            remove_container(self._client, self._id, grace_s=grace_s)
        if self._relay is not None:
            self._relay.wait_until_quiet()

    def _relayed(self, port: int | None) -> str:
        try:
            self._relay = Relay(self._client, self._id, self.container_port, port or 0)
        except OSError as error:
            raise ProviderError(f"Can't listen on {HOST}:{port}: {error.strerror}. Choose another, or none.") from error
        return self._relay.url

    def _published(self) -> str:
        published = self._inspect()["NetworkSettings"]["Ports"].get(f"{self.container_port}/tcp")
        if not published:  # it has ended, or its network publishes nothing
            self.check_alive()
            raise ProviderError(
                f"The network {self._network} publishes no ports, so the server can't be reached from this machine. "
                'Use "none", by which there is a way in but none out, or "bridge".'
            )
        return f"http://{HOST}:{published[0]['HostPort']}"

    def _inspect(self) -> dict[str, Any]:
        with engine_failing(f"Docker does not say how the container {self.name} is"):
            try:
                details: dict[str, Any] = self._client.api.inspect_container(self._id)
            except NotFound as error:
                raise ProviderError(f"The container {self.name} was removed by another process.") from error
        return details
