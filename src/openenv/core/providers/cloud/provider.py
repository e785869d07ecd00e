"""What the providers of all cloud services have in common."""

import logging
import secrets as random_secrets
import time
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.base import LOG_END, ContainerProvider, token_for
from openenv.core.providers.cloud.sandbox import Address, Sandbox, check_encrypted
from openenv.core.providers.cloud.server_script import SERVER_PORT, check_names, server_script
from openenv.core.wire.names import AUTH_ALWAYS, AUTH_VARIABLE, TOKEN_VARIABLE
from openenv.core.wire.redaction import longest_first, without_secrets

logger = logging.getLogger(__name__)

READY_TIMEOUT_S = 120.0
"""Seconds that a server in a sandbox may take to get ready, by default."""

HOSTS_VARIABLE = "OPENENV_ALLOWED_HOSTS"

_LOOK_EVERY_S = 2.0
# So many characters of the end of an output services take away: line ends.
_TRIMMED = 8


class CloudProvider(ContainerProvider):
    """Starts a server from an image in a sandbox of a cloud service.

    The sandbox is removed by ``stop_container`` and ``close``, after a start that failed or was interrupted, and when
    the interpreter ends. After a ``kill`` of this process, SIGTERM included, the service removes it by itself, at the
    time that each provider names.

    Args:
        image: The image to start where ``start_container`` names none.
        env_vars: Environment variables of the sandbox, which those who see it in the service's pages see too.
        secrets: Further ones, for the server's process alone; neither errors nor logs show their values.
        cmd: The shell command that starts the server; by default the image's command ``server``, or the application
            that its ``openenv.yaml`` names.
        surface_server_logs: Whether errors and ``logs`` show the end of what the server printed.
    """

    service_name: ClassVar[str]
    """What people call the service."""

    _host: ClassVar[str] = "0.0.0.0"  # noqa: S104  # in the sandbox: the service's proxy comes from outside

    def __init__(
        self,
        *,
        image: str | None,
        env_vars: Mapping[str, str] | None,
        secrets: Mapping[str, str] | None,
        cmd: str | None,
        surface_server_logs: bool = True,
    ) -> None:
        check_names(secrets or ())
        self.image = image
        self.env_vars = dict(env_vars or {})
        self.secrets = dict(secrets or {})
        self.cmd = cmd
        self._shows_logs = surface_server_logs
        self._sandbox: Sandbox | None = None
        self._address: Address | None = None
        self._token: str | None = None
        self._looked_at = 0.0

    @abstractmethod
    def _new_sandbox(self, name: str, image: str, env_vars: Mapping[str, str]) -> Sandbox:
        """Describe a sandbox; nothing is sent yet."""

    @property
    def token(self) -> str | None:
        """What clients of the server must send; ``None`` before ``start_container``."""
        return self._token

    @property
    def headers(self) -> Mapping[str, str]:
        """What the service's proxy wants of each request to the server; ``EnvClient`` sends it by itself."""
        return {} if self._address is None else self._address.headers

    @property
    def base_url(self) -> str:
        """The server's address. Raises ``ProviderError`` without a sandbox."""
        if self._address is None:
            raise ProviderError("No sandbox is running; call start_container() first.")
        return self._address.url

    @property
    def sandbox_name(self) -> str | None:
        """The sandbox's name, by which the service's own tools find it; ``None`` without one."""
        return None if self._sandbox is None else self._sandbox.name

    def start_container(
        self,
        image: str | None = None,
        port: int | None = None,
        env_vars: Mapping[str, str] | None = None,
        *,
        cmd: str | None = None,
        **kwargs: Any,
    ) -> str:
        """Make a sandbox and start the server in it; return before the server is ready.

        Args:
            image: What to start; the constructor's if ``None``.
            port: ``None`` or 8000: the service chooses the port outside, and in the sandbox it is 8000.
            env_vars: Environment variables, on top of the constructor's.
            cmd: The shell command that starts the server; the constructor's if ``None``.
            **kwargs: There are none; this signature is every provider's.

        Returns:
            The server's address.

        Raises:
            ConfigurationError: There is no image, or an argument is unknown.
            ProviderError: The service refuses, the sandbox can't run, or this provider has a sandbox already.
            ServerNotReadyError: The sandbox did not run in time.
        """
        name = image or self.image
        self._check_start(name, port, kwargs)
        variables = {**self.env_vars, **(env_vars or {})}
        secrets = self._secrets_of(variables)
        sandbox = self._new_sandbox(f"openenv-{random_secrets.token_hex(6)}", str(name), variables)
        self._sandbox, self._looked_at = sandbox, 0.0
        self._stop_at_exit()
        try:
            sandbox.create()
            address = sandbox.address(SERVER_PORT)
            check_encrypted(address.url, self.service_name, "the server")
            secrets.setdefault(HOSTS_VARIABLE, variables.get(HOSTS_VARIABLE) or _host_of(address.url))
            sandbox.start_server(server_script(cmd or self.cmd, secrets, self._host))
        except BaseException:
            self._clean_up_after_failure()
            raise
        self._token, self._address = secrets.get(TOKEN_VARIABLE), address
        return address.url

    def stop_container(self) -> None:
        """Remove the sandbox. Without one this does nothing.

        Raises:
            ProviderError: The service can't remove it. Call this again; it is tried again when the interpreter ends.
        """
        self._address = self._token = None
        if self._sandbox is not None:
            self._sandbox.remove()
        self._sandbox = None
        self._stopped()

    def close(self) -> None:
        """Remove the sandbox, and release what the provider itself holds."""
        self.stop_container()

    def wait_for_ready(self, base_url: str, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Block until the server answers ``GET /health``; see ``ContainerProvider``."""
        super().wait_for_ready(base_url, timeout_s)

    def check_alive(self) -> None:
        """Raise ``ProviderError`` with the end of the log if the server has ended; looks every other second at most."""
        if self._sandbox is None or time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return
        why = self._sandbox.why_ended()
        if why is not None:
            hint = "" if self._shows_logs else " With surface_server_logs=True this shows what the server printed."
            raise ProviderError(f"The sandbox {self._sandbox.name} can't serve: {why}.{hint}", self.logs() or None)
        self._looked_at = time.monotonic()

    def logs(self, size: int = LOG_END) -> str:
        """Return the end of what the server has printed, without the values of secrets.

        Args:
            size: How many characters, at most.
        """
        if self._sandbox is None or not self._shows_logs:
            return ""
        hidden = longest_first([*self.secrets.values(), self._token])
        longest = len(hidden[0]) if hidden else 0
        printed = self._sandbox.logs(size + longest)
        shown = str(without_secrets(printed, hidden)).strip()
        # A log that was cut there may begin with the end of a secret, which can't be found as such.
        is_cut = len(printed.encode()) > size + longest - _TRIMMED
        return shown[max(longest if is_cut else 0, len(shown) - size) :]

    def _secrets_of(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables for the server's process alone; among them its token, which everybody needs.

        Connections from inside the sandbox need it, too: the service's tunnel may end there.
        """
        given = {**variables, **self.secrets}
        auth = given.get(AUTH_VARIABLE) or AUTH_ALWAYS
        return {**self.secrets, AUTH_VARIABLE: auth, TOKEN_VARIABLE: token_for(given)}

    def _check_start(self, image: str | None, port: int | None, unknown: Mapping[str, Any]) -> None:
        kind = type(self).__name__
        if self._sandbox is not None:
            raise ProviderError(f"The sandbox {self._sandbox.name} is there already; stop_container() it first.")
        if unknown:
            raise ConfigurationError(
                f"{kind}.start_container takes image, port, env_vars and cmd, but got {', '.join(unknown)} too. "
                "The rest is set where the provider is made."
            )
        if not image:
            raise ConfigurationError(f'Expected an image, as in {kind}(image="ghcr.io/me/echo-env:1.0"), got none.')
        if port not in (None, SERVER_PORT):
            raise ConfigurationError(
                f"Expected port to be {SERVER_PORT} or left out, got {port}: in the sandbox the server listens on "
                f"{SERVER_PORT}, and outside {self.service_name} chooses the address."
            )

    def _clean_up_after_failure(self) -> None:
        """Remove the sandbox; where even that fails, exit tries it again and the first error stands."""
        try:
            self.stop_container()
        except (ProviderError, OSError, ValueError, LookupError) as error:  # the last three come from libraries
            logger.warning(
                "the sandbox %s could not be removed; that is tried again at exit: %s", self.sandbox_name, error
            )


def _host_of(url: str) -> str:
    """Return the name by which clients reach the server: requests of a proxy on its own machine have to name it."""
    return urlsplit(url).hostname or ""
