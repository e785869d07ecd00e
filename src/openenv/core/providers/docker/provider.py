"""Servers in containers of this machine's Docker engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.base import LOG_END, ContainerProvider, token_for
from openenv.core.providers.docker.confinement import confinement
from openenv.core.providers.docker.container import Container
from openenv.core.providers.docker.engine import connect
from openenv.core.providers.docker.image import FoundImage, find_image, new_name
from openenv.core.providers.docker.labels import OWNER
from openenv.core.providers.docker.leftovers import remove_leftovers
from openenv.core.providers.docker.reaper import REAPERS
from openenv.core.providers.docker.relay import HOST
from openenv.core.providers.docker.secrets import SecretFile
from openenv.core.providers.resources import Resources
from openenv.core.wire.names import TOKEN_VARIABLE

# The public provider takes it and does nothing with it.
_IGNORED = frozenset({"workers"})


@dataclass(frozen=True, kw_only=True)
class _Options:
    """What a container gets besides its image and variables; see ``LocalDockerProvider``."""

    resources: Resources | None = None
    network: str | None = None
    read_only: bool | None = None
    digest: str | None = None
    secrets: Mapping[str, str] | None = None
    capabilities: Sequence[str] = ()

    def changed(self, changes: Mapping[str, Any]) -> "_Options":
        known = [option.name for option in fields(self)]
        unknown = [name for name in changes if name not in known and name not in _IGNORED]
        if unknown:
            raise ConfigurationError(
                f"LocalDockerProvider does not know {', '.join(unknown)}; besides image, port and env_vars it takes "
                f"{', '.join(known)}."
            )
        return replace(self, **{name: value for name, value in changes.items() if name in known})


class LocalDockerProvider(ContainerProvider):
    """Starts a server from an image, in a container that may do as little as possible.

    The container has no capabilities of root and can get no new privileges, no more than 1,024 processes, and a
    read-only file system where the image is labelled for it, as ``openenv build`` makes them. Its port is published on
    127.0.0.1 only, and its server requires a token of every client, which ``EnvClient`` sends by itself. It is
    removed by ``stop_container``, when this interpreter ends, and when it is killed.

    Args:
        image: The image to start where ``start_container`` names none.
        resources: What the container may use.
        network: ``"none"``, ``"bridge"``, or the name of a network of Docker's. Without a network the server is
            reached all the same, but reaches nothing. Where ``None``, the image's label decides; most have the bridge.
        read_only: Whether the container's file system is, but for the folders that the image's label names; where
            ``None``, it is if there is such a label.
        digest: ``sha256:...``: what the image must be.
        env_vars: Environment variables for the server.
        secrets: Further ones, which ``docker inspect`` does not show; the token is one of them then. Needs a shell in
            the image and a local engine.
        capabilities: Capabilities of root that the container keeps, such as ``"CHOWN"``.
        grace_s: Seconds that ``stop_container`` leaves the server to end by itself.

    Raises:
        ProviderError: Docker can't be used; the message says what brings it.

    Example::

        provider = LocalDockerProvider("echo-env:latest", resources=Resources(cpus=1, memory="512m"))
        with EchoEnv(provider=provider).sync() as env:
            env.reset()
    """

    def __init__(
        self,
        image: str | None = None,
        *,
        resources: Resources | None = None,
        network: str | None = None,
        read_only: bool | None = None,
        digest: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        capabilities: Sequence[str] = (),
        grace_s: float = 5.0,
    ) -> None:
        self.image = image
        self.env_vars = dict(env_vars or {})
        self.grace_s = grace_s
        self._options = _Options(
            resources=resources,
            network=network,
            read_only=read_only,
            digest=digest,
            secrets=secrets,
            capabilities=capabilities,
        )
        self._client = connect()
        self._container: Container | None = None
        self._token: str | None = None
        self._base_url = ""

    @property
    def token(self) -> str | None:
        """What clients of the server must send; ``None`` before ``start_container``."""
        return self._token

    @property
    def base_url(self) -> str:
        """The server's address, as ``http://127.0.0.1:port``. Raises ``ProviderError`` without a container."""
        if self._container is None:
            raise ProviderError("No container is running; call start_container() first.")
        return self._base_url

    @property
    def container_name(self) -> str | None:
        """The running container's name, for ``docker exec`` and the like; ``None`` without one."""
        return None if self._container is None else self._container.name

    def start_container(
        self,
        image: str | None = None,
        port: int | None = None,
        env_vars: dict[str, str] | None = None,
        **kwargs: Any,
    ) -> str:
        """Start a container and return at once, before the server in it is ready.

        Args:
            image: Name of the image, also as ``name@sha256:...``; the constructor's if ``None``. It is pulled if the
                engine does not have it.
            port: Port of 127.0.0.1 to reach the server on; a free one is taken if ``None``.
            env_vars: Environment variables for the server, on top of the constructor's. ``PORT`` says where it listens
                in the container, where that is not 8000.
            **kwargs: ``resources``, ``network``, ``read_only``, ``digest``, ``secrets`` and ``capabilities``, for this
                container only.

        Returns:
            The server's address, as ``http://127.0.0.1:port``.

        Raises:
            ConfigurationError: No image was named, or a keyword is unknown.
            ProviderError: The container could not be started, or this provider is running one already.
        """
        if self._container is not None:
            raise ProviderError(f"The container {self._container.name} is running already; stop_container() it first.")
        name = image or self.image
        if name is None:
            raise ConfigurationError("No image was named: LocalDockerProvider('echo-env:latest'), for example.")
        options = self._options.changed(kwargs)
        variables = {**self.env_vars, **(env_vars or {})}
        secrets = dict(options.secrets or {})
        self._token = token_for({**variables, **secrets})
        # Where there is a file for secrets the token is in it too.
        (secrets or variables)[TOKEN_VARIABLE] = self._token
        found = find_image(self._client, name, options.digest)
        remove_leftovers(self._client)
        return self._start(found, name, port, variables, replace(options, secrets=secrets))

    def stop_container(self) -> None:
        """Stop and remove the container. Without one this does nothing."""
        container, self._container = self._container, None
        if container is None:
            return
        self._stopped()
        container.remove(self.grace_s)

    def close(self) -> None:
        """Close the connection to the engine."""
        self._client.close()

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with the end of the log if the container has ended."""
        if self._container is not None:
            self._container.check_alive()

    def logs(self, size: int = LOG_END) -> str:
        """Return the end of what the server has printed; empty without a container."""
        return "" if self._container is None else self._container.logs(size)

    def _start(
        self, image: FoundImage, name: str, port: int | None, variables: Mapping[str, str], options: _Options
    ) -> str:
        secret_file = SecretFile(options.secrets) if options.secrets else None
        try:
            settings = _settings(image, port, variables, options, secret_file)
            container = Container(self._client, new_name(name), settings, image.port(variables))
            self._container = container
            self._stop_at_exit()
            self._base_url = container.start(port)
            return self._base_url
        except BaseException:
            self.stop_container()
            raise
        finally:
            if secret_file is not None:
                secret_file.remove()


def _settings(
    image: FoundImage,
    port: int | None,
    variables: Mapping[str, str],
    options: _Options,
    secret_file: SecretFile | None,
) -> dict[str, Any]:
    """Write down the container in the engine's words; from here on its owner's reaper watches over it."""
    network = options.network or image.labels.network
    host = confinement(image.labels, options.resources or Resources(), options.read_only, options.capabilities)
    host["NetworkMode"] = network
    settings: dict[str, Any] = {
        "Image": image.id,
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Labels": {OWNER: str(REAPERS.start())},
        "HostConfig": host,
        # The image's own would start a process in the container every few seconds, and its result is not used.
        "Healthcheck": {"Test": ["NONE"]},
    }
    if network != "none":
        served = f"{image.port(variables)}/tcp"
        settings["ExposedPorts"] = {served: {}}
        host["PortBindings"] = {served: [{"HostIp": HOST, "HostPort": str(port or "")}]}
    if secret_file is not None:
        host["Binds"] = [secret_file.mount]
        settings["Entrypoint"] = secret_file.entry_point(image.command)
    return settings
