"""``NovitaSandboxProvider``: a server in a sandbox of Novita, by the SDK ``novita-sandbox``."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.cloud.errors import Service, ServiceError
from openenv.core.providers.cloud.provider import CloudProvider
from openenv.core.providers.cloud.sandbox import Address, Sandbox
from openenv.core.providers.cloud.sdk_sandbox import COMMAND_TIMEOUT_S, IDLE_COMMAND, UNPROCESSABLE, SdkSandbox
from openenv.core.providers.cloud.server_script import command_in

if TYPE_CHECKING:
    from novita_sandbox import Sandbox as NovitaSdkSandbox

KEY_VARIABLE = "NOVITA_API_KEY"

_SERVICE = Service(name="Novita", credentials=f"{KEY_VARIABLE} or api_key=, from https://novita.ai/settings")
_TEMPLATE = "template:"
_NAME_LABEL = "openenv"
_TRAFFIC_HEADER = "E2B-Traffic-Access-Token"
_IDLE_IS_READY = "sleep 1"
# The SDK begins its errors with the status of the answer.
_STATUS = re.compile(r"([1-5]\d\d): ")


class NovitaSandboxProvider(CloudProvider):
    """Starts a server in a sandbox of Novita, https://novita.ai/sandbox.

    The server is reached at a host name of the sandbox's; its own token is its lock. ``EnvClient`` sends it by itself;
    other programs need ``provider.token``.

    The sandbox is removed by ``stop_container``, after a start that failed or was interrupted, and when the interpreter
    ends; in any case Novita ends it after ``timeout`` seconds.

    Args:
        image: The image to start where ``start_container`` names none, from a registry that Novita can read, of which
            it makes a template once; or a template that is there, as ``template:NAME``.
        env_vars: Environment variables of the sandbox.
        secrets: Further ones, for the server's process alone.
        api_key: Novita's key; ``NOVITA_API_KEY`` if ``None``.
        domain: The region's domain; ``NOVITA_DOMAIN``, or the SDK's, if ``None``.
        timeout: Seconds after which Novita ends the sandbox, whatever it does: more than the longest use of it.
        metadata: Labels of the sandbox; ``{"idle_timeout": "900"}`` has Novita end it after so many idle seconds.
        secure: Whether commands need a token of the sandbox, which the SDK sends; ``True`` if ``None``, in
            all regions: without it, any program that has the sandbox's address can run commands in it.
        cmd: The shell command that starts the server, in place of the one that is found in the image.
        working_directory: The folder in which ``cmd`` runs.
        surface_server_logs: Whether errors and ``logs`` show the end of what the server printed.
        cpu_count: The processors of a template that is made of an image.
        memory_mb: Its memory in MiB.
        on_build_logs: Called with each entry of the log while a template is made.

    Raises:
        ConfigurationError: There is no key, or a working directory without a command.
        ImportError: ``novita-sandbox`` is not installed.

    Example::

        provider = NovitaSandboxProvider(image="ghcr.io/me/echo-env:1.0")
        with EchoEnv(provider=provider).sync() as env:
            env.reset()
    """

    service_name: ClassVar[str] = "Novita"

    def __init__(
        self,
        *,
        image: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        api_key: str | None = None,
        domain: str | None = None,
        timeout: int = 3600,
        metadata: Mapping[str, str] | None = None,
        secure: bool | None = None,
        cmd: str | None = None,
        working_directory: str | None = None,
        surface_server_logs: bool = True,
        cpu_count: int = 2,
        memory_mb: int = 1024,
        on_build_logs: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(
            image=image,
            env_vars=env_vars,
            secrets=secrets,
            cmd=command_in(working_directory, cmd),
            surface_server_logs=surface_server_logs,
        )
        _check_sdk()
        key = api_key or os.environ.get(KEY_VARIABLE)
        if not key:
            raise ConfigurationError(f"Expected Novita's API key, got none. Set {_SERVICE.credentials}.")
        self._access = {"api_key": key, **({"domain": domain} if domain else {})}
        self._metadata = dict(metadata or {})
        self._settings: dict[str, Any] = {"timeout": timeout, "secure": True if secure is None else secure}
        self._build: dict[str, Any] = {
            "cmd": " ".join(IDLE_COMMAND),
            "ready_cmd": _IDLE_IS_READY,
            "cpu_count": cpu_count,
            "memory_mb": memory_mb,
            # Without either, the SDK prints the log; it takes only one of them.
            **({"on_build_logs": on_build_logs} if on_build_logs else {"build_logs": False}),
        }

    def _new_sandbox(self, name: str, image: str, env_vars: Mapping[str, str]) -> Sandbox:
        settings = {**self._settings, "envs": dict(env_vars), "metadata": {**self._metadata, _NAME_LABEL: name}}
        if image.startswith(_TEMPLATE):
            settings["template"] = image.removeprefix(_TEMPLATE)
        else:
            settings |= {"image": image, "build": self._build}
        return NovitaSandbox(name, settings, self._access, [*self.secrets.values(), self._access["api_key"]])


class NovitaSandbox(SdkSandbox["NovitaSdkSandbox", str]):
    """A sandbox of Novita.

    Args:
        name: Its name, which is a label of it.
        settings: What the SDK makes it of.
        access: The key, and the region.
        secrets: Texts that no error shows.
    """

    service: ClassVar[Service] = _SERVICE

    def __init__(
        self, name: str, settings: Mapping[str, Any], access: Mapping[str, Any], secrets: Iterable[str]
    ) -> None:
        super().__init__(name, secrets)
        self._settings = settings
        self._access = access
        # Of an image, Novita keeps the files but not always whose they are; a template has its own user.
        self._user = "root" if "image" in settings else None

    def address(self, port: int) -> Address:
        """Return the address at its host name, and the header that it wants where its traffic is not public."""
        host, token = self._running.get_host(port), self._running.traffic_access_token
        return Address(f"https://{host}", {_TRAFFIC_HEADER: token} if token else {})

    def why_ended(self) -> str | None:
        """Look whether the sandbox runs, and for the note of how the server ended."""
        if not self._called("a look at the sandbox", self._running.is_running):
            return f"Novita has ended it, at the latest after the {self._settings['timeout']} s of timeout="
        return super().why_ended()

    def _make(self) -> "NovitaSdkSandbox":
        from novita_sandbox import Sandbox as NovitaSdkSandbox

        # It waits for the template, too, if that is made first.
        return NovitaSdkSandbox.create(**self._settings, **self._access)

    def _run(self, command: str) -> str:
        from novita_sandbox import CommandExitException

        try:
            done = self._running.commands.run(command, user=self._user, timeout=COMMAND_TIMEOUT_S)
        except CommandExitException as error:
            return str(error.stdout)
        return str(done.stdout)

    def _found(self) -> Sequence[str]:
        if self._made is not None:
            return [self._made.sandbox_id]
        return self._called("the list of sandboxes", self._listed)

    def _listed(self) -> Sequence[str]:
        from novita_sandbox import Sandbox as NovitaSdkSandbox
        from novita_sandbox import SandboxQuery

        pages = NovitaSdkSandbox.list(query=SandboxQuery(metadata={_NAME_LABEL: self.name}), **self._access)
        return [found.sandbox_id for found in pages.next_items()]

    def _end(self, found: str) -> None:
        from novita_sandbox import Sandbox as NovitaSdkSandbox

        # It says False of a sandbox that has gone already.
        self._called("the end of a sandbox", partial(NovitaSdkSandbox.kill, found, **self._access))

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        from novita_sandbox import AuthenticationException, SandboxException
        from novita_sandbox.core import BuildException

        return (*_silent_errors(), AuthenticationException, BuildException, SandboxException)

    def _converted(self, what: str, error: Exception) -> ProviderError:
        from novita_sandbox import TimeoutException
        from novita_sandbox.core import BuildException

        said = self._said(error)
        status = _STATUS.match(said)
        if isinstance(error, _silent_errors()):
            return self.service.silence(f"for {what}", said)
        if status is not None:
            return self.service.refusal(what, int(status[1]), said.removeprefix(status[0]))
        if isinstance(error, BuildException):  # it is raised before any sandbox is made
            return ServiceError(f"Novita can't make a template of the image: {said}", UNPROCESSABLE)
        if isinstance(error, TimeoutException):
            return self.service.silence(f"for {what}", said)
        return self._failed(what, said)


def _silent_errors() -> tuple[type[Exception], ...]:
    """Return the errors of calls without an answer that the SDK passes on as they are."""
    import httpcore
    import httpx

    return (httpx.TransportError, httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


def _check_sdk() -> None:
    try:
        import novita_sandbox as _  # noqa: F401
    except ImportError as error:
        raise ImportError(f"NovitaSandboxProvider needs novita-sandbox: {install_command('novita')}") from error
