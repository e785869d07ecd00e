"""``ACASandboxProvider``: a server in a sandbox of Azure Container Apps, by the SDK ``azure-containerapps-sandbox``."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError
from openenv.core.providers.cloud.errors import Service, ServiceError, retry_after
from openenv.core.providers.cloud.provider import CloudProvider
from openenv.core.providers.cloud.sandbox import Address, Sandbox
from openenv.core.providers.cloud.sdk_sandbox import SdkSandbox
from openenv.core.providers.cloud.server_script import command_in

if TYPE_CHECKING:
    from azure.containerapps.sandbox import SandboxClient, SandboxGroupClient

logger = logging.getLogger(__name__)

_SERVICE = Service(
    name="Azure",
    credentials="credential=, or log in by `az login`, to an account with the role Container Apps SandboxGroup Data "
    "Owner on the resource group",
)
_PUBLIC_DISK = "disk:"
_PRIVATE_DISK = "disk-id:"
_NAME_LABEL = "openenv"
_SUSPEND_MODES = ("Memory", "Disk")
_ENDED = frozenset({"deleting", "failed"})
_UNAUTHORIZED = 401
_NOT_FOUND = 404


class ACASandboxProvider(CloudProvider):
    """Starts a server in a sandbox of Azure Container Apps, whose SDK is a preview: its calls may still change.

    The server is reached by a port of the sandbox's, which is encrypted but open to everybody: the server's own token
    is its lock. ``EnvClient`` sends it by itself; other programs need ``provider.token``.

    The sandbox is deleted by ``stop_container``, after a start that failed or was interrupted, and when the
    interpreter ends; after a ``kill`` of this process Azure suspends it once it was idle for ``auto_suspend_seconds``.

    Args:
        subscription_id: The subscription; ``AZURE_SUBSCRIPTION_ID`` if ``None``.
        resource_group: The resource group; ``AZURE_RESOURCE_GROUP`` if ``None``.
        sandbox_group: The group of sandboxes; ``AZURE_SANDBOX_GROUP`` if ``None``.
        region: The region of the group, as ``eastus2``; ``AZURE_REGION`` if ``None``.
        endpoint: The address of the region's API, in place of ``region``.
        credential: What ``azure.identity`` has to log in with; its ``DefaultAzureCredential`` if ``None``.
        cpu: The processors, as ``1000m``.
        memory: The memory, as ``2048Mi``.
        disk_size: The size of the disk, as ``20Gi``; Azure's own if ``None``.
        auto_suspend_seconds: Seconds without use after which Azure suspends the sandbox.
        auto_suspend_mode: Whether its memory is kept then, or its disk only.
        labels: Further labels of the sandbox.
        egress_policy: Where the sandbox's programs may connect to, as ``deny_all_egress`` returns; everywhere if
            ``None``, the cloud's own addresses among that.
        anonymous_port: ``True`` says that the port may be open to everybody, which it has to be for clients.
        image: The disk image to start where ``start_container`` names none: a public one as ``NAME`` or ``disk:NAME``,
            one of the group as ``disk-id:ID``.
        env_vars: Environment variables of the sandbox.
        secrets: Further ones, for the server's process alone.
        cmd: The shell command that starts the server, in place of the one that is found in the image.
        working_directory: The folder in which ``cmd`` runs.
        surface_server_logs: Whether errors and ``logs`` show the end of what the server printed, without the values of
            secrets.
        create_timeout: Seconds that the sandbox may take until it runs.
        polling_interval: Seconds between two looks whether it does.
        sdk_kwargs: Further arguments of the SDK's ``SandboxGroupClient``.

    Raises:
        ConfigurationError: ``anonymous_port`` is not ``True``, the group is not known, or a value is none of those
            that may be.
        ImportError: ``azure-containerapps-sandbox`` is not installed.

    Example::

        egress = ACASandboxProvider.deny_all_egress(allow=["models.example.com"])
        provider = ACASandboxProvider(image="disk-id:0c1f", anonymous_port=True, egress_policy=egress)
        with EchoEnv(provider=provider).sync() as env:
            env.reset()
    """

    service_name: ClassVar[str] = "Azure"

    def __init__(
        self,
        *,
        subscription_id: str | None = None,
        resource_group: str | None = None,
        sandbox_group: str | None = None,
        region: str | None = None,
        endpoint: str | None = None,
        credential: Any = None,
        cpu: str = "1000m",
        memory: str = "2048Mi",
        disk_size: str | None = None,
        auto_suspend_seconds: int = 900,
        auto_suspend_mode: Literal["Memory", "Disk"] = "Memory",
        labels: Mapping[str, str] | None = None,
        egress_policy: Any = None,
        anonymous_port: bool | None = None,
        image: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        cmd: str | None = None,
        working_directory: str | None = None,
        surface_server_logs: bool = False,
        create_timeout: int = 300,
        polling_interval: int = 3,
        sdk_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            image=image,
            env_vars=env_vars,
            secrets=secrets,
            cmd=command_in(working_directory, cmd),
            surface_server_logs=surface_server_logs,
        )
        if anonymous_port is not True:
            raise ConfigurationError(
                f"Expected anonymous_port=True, got {anonymous_port!r}: clients reach a port of Azure's only if it is "
                "open to everybody. The server's own token is its lock."
            )
        if auto_suspend_mode not in _SUSPEND_MODES:
            raise ConfigurationError(f"Expected auto_suspend_mode to be 'Memory' or 'Disk', got {auto_suspend_mode!r}.")
        self._connect = _connection(
            {
                "subscription_id": _given(subscription_id, "subscription_id"),
                "resource_group": _given(resource_group, "resource_group"),
                "sandbox_group": _given(sandbox_group, "sandbox_group"),
            },
            endpoint,
            region,
            credential,
            sdk_kwargs or {},
        )
        self._group: SandboxGroupClient | None = None
        self._labels = dict(labels or {})
        self._settings: dict[str, Any] = {
            "cpu": cpu,
            "memory": memory,
            "disk_size": disk_size,
            "auto_suspend_seconds": auto_suspend_seconds,
            "auto_suspend_mode": auto_suspend_mode,
            "egress_policy": egress_policy,
            "polling_timeout": create_timeout,
            "polling_interval": polling_interval,
        }

    @staticmethod
    def deny_all_egress(allow: Iterable[str] | None = None) -> Any:
        """Return an ``egress_policy`` that lets a sandbox's programs connect to named hosts only.

        Args:
            allow: The hosts' names; ``*.example.com`` stands for all below it.

        Raises:
            ImportError: ``azure-containerapps-sandbox`` is not installed.
        """
        try:
            from azure.containerapps.sandbox import EgressHostRule, EgressPolicy
        except ImportError as error:
            raise ImportError(_missing_packages()) from error
        rules = [EgressHostRule(pattern=pattern, action="Allow") for pattern in allow or ()]
        return EgressPolicy(default_action="Deny", host_rules=rules)

    def close(self) -> None:
        """Delete the sandbox, and close the connections to Azure; a further start opens new ones."""
        super().close()
        if self._group is not None:
            self._group.close()
        self._group = None

    def _new_sandbox(self, name: str, image: str, env_vars: Mapping[str, str]) -> Sandbox:
        if self._settings["egress_policy"] is None:
            logger.warning(
                "the sandbox %s may connect to everything, the cloud's own addresses included; for code that you don't "
                "trust, pass egress_policy=ACASandboxProvider.deny_all_egress()",
                name,
            )
        labels = {**self._labels, _NAME_LABEL: name}
        settings = {**self._settings, **_source(image), "environment": dict(env_vars), "labels": labels}
        if self._group is None:
            self._group = self._connect()
        return AzureSandbox(self._group, name, settings, self.secrets.values())


class AzureSandbox(SdkSandbox["SandboxClient", str]):
    """A sandbox of Azure Container Apps.

    Args:
        group: The SDK's client of its group.
        name: Its name, which is a label of it.
        settings: What the SDK makes it of.
        secrets: Texts that no error shows.
    """

    service: ClassVar[Service] = _SERVICE

    def __init__(
        self, group: "SandboxGroupClient", name: str, settings: Mapping[str, Any], secrets: Iterable[str]
    ) -> None:
        super().__init__(name, secrets)
        self._group = group
        self._settings = settings

    def address(self, port: int) -> Address:
        """Open the port to everybody, and return its address."""
        opened = self._called("a port", partial(self._running.add_port, port, anonymous=True), harmless=False)
        if not opened.url:
            raise ProviderError(f"Expected Azure to name the address of port {port} of {self.name}, got none.")
        return Address(opened.url.rstrip("/"))

    def why_ended(self) -> str | None:
        """Look whether it can run, and for the note of how the server ended."""
        found = self._called("its state", self._running.get)
        is_disabled = found.state_details is not None and not found.state_details.is_auto_resume_allowed()
        if is_disabled or (found.state or "").lower() in _ENDED:
            return f"it is {'disabled' if is_disabled else found.state} at Azure"
        return super().why_ended()

    def _make(self) -> "SandboxClient":
        poller = self._group.begin_create_sandbox(**self._settings)
        try:
            return poller.result()  # type: ignore[no-any-return, unused-ignore]  # the SDK says Any
        except TimeoutError:
            seconds = self._settings["polling_timeout"]
            raise ServerNotReadyError(
                f"The sandbox {self.name} of Azure did not run within {seconds} s; raise create_timeout."
            ) from None
        except RuntimeError as error:
            raise ProviderError(f"The sandbox {self.name} of Azure can't run: {self._said(error)}") from None

    def _run(self, command: str) -> str:
        return str(self._running.exec(command).stdout)

    def _found(self) -> Sequence[str]:
        if self._made is not None:
            return [self._made.sandbox_id]
        return self._called("the list of sandboxes", self._listed)

    def _listed(self) -> Sequence[str]:
        return [str(found.id) for found in self._group.list_sandboxes(labels={_NAME_LABEL: self.name})]

    def _end(self, found: str) -> None:
        try:
            self._called("the end of a sandbox", partial(self._group.delete_sandbox, found))
        except ServiceError as error:
            if error.status != _NOT_FOUND:
                raise

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        from azure.core.exceptions import AzureError

        return (AzureError,)

    def _converted(self, what: str, error: Exception) -> ProviderError:
        from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

        if isinstance(error, HttpResponseError) and error.status_code is not None:
            # The text of the error has what the answer says twice.
            detail = error.error.message if error.error is not None else error.reason
            headers: Mapping[str, str] = getattr(error.response, "headers", {})
            wait_s = retry_after(headers.get("Retry-After") or "")
            return self.service.refusal(what, error.status_code, self._without_secrets(detail or ""), wait_s)
        said = self._said(error)
        if isinstance(error, ClientAuthenticationError):  # nothing was sent: there is nothing to log in with
            return self.service.refusal(what, _UNAUTHORIZED, said)
        return self.service.silence(f"for {what}", said)


def _given(value: str | None, name: str) -> str:
    """Return an argument, or what its variable says."""
    variable = f"AZURE_{name.upper()}"
    found = value or os.environ.get(variable)
    if not found:
        raise ConfigurationError(f"Expected {name}= or {variable}, got neither.")
    return found


def _missing_packages() -> str:
    return f"ACASandboxProvider needs azure-containerapps-sandbox and azure-identity: {install_command('aca')}"


def _source(image: str) -> dict[str, str]:
    """Return what the SDK takes for the disk image of a name."""
    if image.startswith(_PRIVATE_DISK):
        return {"disk_id": image.removeprefix(_PRIVATE_DISK)}
    name = image.removeprefix(_PUBLIC_DISK)
    if "/" in name or ":" in name:
        raise ConfigurationError(
            f"Expected a disk image of Azure's as image, NAME, disk:NAME or disk-id:ID, got {image!r}. Azure makes one "
            "of a container image: the SDK's SandboxGroupClient.begin_create_disk_image."
        )
    return {"disk": name}


def _connection(
    group: Mapping[str, Any], endpoint: str | None, region: str | None, credential: Any, options: Mapping[str, Any]
) -> "Callable[[], SandboxGroupClient]":
    """Check what leads to a group of sandboxes, and return what connects to it."""
    try:
        from azure.containerapps.sandbox import SandboxGroupClient, endpoint_for_region
        from azure.identity import DefaultAzureCredential
    except ImportError as error:
        raise ImportError(_missing_packages()) from error
    if endpoint is None:
        endpoint = endpoint_for_region(_given(region, "region"))
    if not endpoint.startswith("https://"):
        raise ConfigurationError(f"Expected endpoint to begin with https://, got {endpoint!r}.")
    # Without the SDK's own repetitions: a creation whose answer was lost would be carried out again.
    options = {"retry_total": 0, **options}
    return partial(SandboxGroupClient, endpoint, credential or DefaultAzureCredential(), **group, **options)
