"""``DaytonaProvider``: a server in a sandbox of Daytona, by its HTTP API."""

import base64
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError
from openenv.core.providers.cloud.errors import Service, ServiceError
from openenv.core.providers.cloud.provider import CloudProvider
from openenv.core.providers.cloud.sandbox import Address, Sandbox, ShellSandbox, check_encrypted
from openenv.core.providers.cloud.server_script import SERVER_PORT
from openenv.core.providers.resources import Resources

if TYPE_CHECKING:
    from openenv.core.providers.cloud.api import ServiceApi

KEY_VARIABLE = "DAYTONA_API_KEY"
URL_VARIABLE = "DAYTONA_API_URL"
TARGET_VARIABLE = "DAYTONA_TARGET"

_URL = "https://app.daytona.io/api"
_TOKEN_HEADER = "x-daytona-preview-token"  # noqa: S105  # its name, not a token
_SNAPSHOT = "snapshot:"
_SIGNED_FOR_S = 24 * 3600
_GIB = 2**30
_PAUSE_S = 0.5
_COMMAND_TIMEOUT_S = 30
_REMOVE_TIMEOUT_S = 60.0
_NOT_FOUND = 404
_FAILED = frozenset({"error", "build_failed", "destroyed", "destroying", "stopped", "archived"})
# Of a sandbox whose state is just changing; 400 is what older versions of Daytona answer.
_NOT_NOW = frozenset({400, 409})


class DaytonaProvider(CloudProvider):
    """Starts a server in a sandbox of Daytona, https://www.daytona.io.

    The server is reached by the sandbox's preview URL, with a token of Daytona's in a header. ``EnvClient`` sends both
    this and the server's own token by itself; other programs need ``provider.headers`` and ``provider.token``.

    Args:
        image: The image to start where ``start_container`` names none, from a registry that Daytona can read; or a
            snapshot of Daytona's, as ``snapshot:NAME``.
        env_vars: Environment variables of the sandbox, which Daytona's dashboard shows.
        secrets: Further ones, for the server's process alone.
        api_key: Daytona's key; ``DAYTONA_API_KEY`` if ``None``.
        public: Whether the preview URL needs no token of Daytona's; the server wants its own one in any case.
        resources: What the sandbox gets, in whole processors and GiB: ``Resources``, or an object with ``cpu``,
            ``memory``, ``disk`` and ``gpu`` as Daytona's SDK has it. Not for a snapshot, which has its own.
        auto_stop_interval: Minutes without any activity after which Daytona stops the sandbox, and thereby removes it;
            0 for never.
        target: The region; ``DAYTONA_TARGET``, or the organization's, if ``None``.
        on_snapshot_create_logs: Called with each state of a sandbox while it is made, such as ``building_snapshot``.
        cmd: The shell command that starts the server, in place of the one that is found in the image.
        create_timeout: Seconds that the sandbox may take until it runs, an image's build among them.

    Raises:
        ConfigurationError: There is no key.
        ImportError: ``httpx`` is not installed.

    Example::

        provider = DaytonaProvider(image="ghcr.io/me/echo-env:1.0", resources=Resources(cpus=2, memory="4g"))
        with EchoEnv(provider=provider).sync() as env:
            env.reset()
    """

    service_name: ClassVar[str] = "Daytona"

    def __init__(
        self,
        *,
        image: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        api_key: str | None = None,
        public: bool = False,
        resources: Any = None,
        auto_stop_interval: int = 15,
        target: str | None = None,
        on_snapshot_create_logs: Callable[[str], object] | None = None,
        cmd: str | None = None,
        create_timeout: float = 300.0,
    ) -> None:
        super().__init__(image=image, env_vars=env_vars, secrets=secrets, cmd=cmd)
        key = api_key or os.environ.get(KEY_VARIABLE)
        if not key:
            raise ConfigurationError(
                f"Expected Daytona's API key as api_key= or {KEY_VARIABLE}, got none. "
                "https://app.daytona.io/dashboard/keys makes them."
            )
        self._settings: dict[str, Any] = {
            "public": public,
            "autoStopInterval": auto_stop_interval,
            # A sandbox that has stopped, as one whose program was killed does some time, is deleted.
            "autoDeleteInterval": 0,
        }
        region = target or os.environ.get(TARGET_VARIABLE)
        if region:
            self._settings["target"] = region
        self._resources = _amounts(resources)
        self._on_state = on_snapshot_create_logs
        self._create_timeout_s = create_timeout
        self._api = _connect(key, [key, *self.secrets.values()])

    def refresh_preview_url(self) -> str:
        """Return an address of the server that holds Daytona's token in itself, for whatever can send no headers.

        Returns:
            The address, good for 24 hours. It is a secret; the server's own token is needed besides.

        Raises:
            ProviderError: There is no sandbox, or Daytona refuses.
        """
        if not isinstance(self._sandbox, DaytonaSandbox) or self._address is None:
            raise ProviderError("No sandbox is running; call start_container() first.")
        return self._sandbox.signed_url(SERVER_PORT)

    def close(self) -> None:
        """Remove the sandbox, and close the connections to Daytona."""
        super().close()
        self._api.close()

    def _new_sandbox(self, name: str, image: str, env_vars: Mapping[str, str]) -> Sandbox:
        wanted: dict[str, Any] = {"name": name, "env": dict(env_vars), "labels": {"openenv": "1"}, **self._settings}
        if image.startswith(_SNAPSHOT):
            wanted["snapshot"] = image.removeprefix(_SNAPSHOT)
        else:
            wanted["buildInfo"] = {"dockerfileContent": f"FROM {image}\n"}
            wanted.update(self._resources)
        return DaytonaSandbox(self._api, wanted, self._create_timeout_s, self._on_state)


class DaytonaSandbox(ShellSandbox):
    """A sandbox of Daytona.

    Args:
        api: Daytona's API.
        wanted: The body of the call that makes it.
        timeout_s: Seconds that it may take until it runs.
        on_state: Called with each new state meanwhile.
    """

    def __init__(
        self,
        api: "ServiceApi",
        wanted: Mapping[str, Any],
        timeout_s: float,
        on_state: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(wanted["name"])
        self._api = api
        self._wanted = wanted
        self._timeout_s = timeout_s
        self._on_state = on_state
        self._toolbox = ""
        self._may_be_there = self._is_made = False

    def create(self) -> None:
        """Have it made, and wait until it runs."""
        ends_at = time.monotonic() + self._timeout_s
        found = self._make()
        last, state = None, _field(found, "state")
        while state != "started":
            if state != last and self._on_state is not None:
                self._on_state(state)
            if state in _FAILED:
                why = found.get("errorReason") or "Daytona gives no reason"
                raise ProviderError(f"The sandbox {self.name} of Daytona can't run, it is {state}: {why}.")
            if time.monotonic() > ends_at:
                raise ServerNotReadyError(
                    f"The sandbox {self.name} of Daytona did not run within {self._timeout_s:g} s; it is {state}. "
                    "A first start of an image takes longer: raise create_timeout, or make a snapshot of it."
                )
            time.sleep(_PAUSE_S)
            found = self._api.call("GET", f"/sandbox/{self.name}")
            last, state = state, _field(found, "state")
        toolbox = _field(found, "toolboxProxyUrl")
        check_encrypted(toolbox, "Daytona", "the commands")
        self._toolbox = f"{toolbox.rstrip('/')}/{_field(found, 'id')}"

    def run(self, command: str) -> str:
        """Run a short shell command and return what it printed."""
        # Versions of Daytona differ in whether a shell reads the command; this form means the same to all of them.
        encoded = base64.b64encode(command.encode()).decode()
        done = self._api.call(
            "POST",
            f"{self._toolbox}/process/execute",
            body={"command": f"sh -c \"echo '{encoded}' | base64 -d | sh\"", "timeout": _COMMAND_TIMEOUT_S},
            timeout_s=_COMMAND_TIMEOUT_S + 5,
            harmless=True,
        )
        return str(done.get("result") or "")

    def address(self, port: int) -> Address:
        """Return the preview URL, and the header that it wants."""
        link = self._api.call("GET", f"/sandbox/{self.name}/ports/{port}/preview-url")
        return Address(_field(link, "url"), {_TOKEN_HEADER: link["token"]} if link.get("token") else {})

    def signed_url(self, port: int) -> str:
        """Return a preview URL that needs no header, for as long as Daytona allows."""
        path = f"/sandbox/{self.name}/ports/{port}/signed-preview-url"
        return _field(self._api.call("GET", path, params={"expiresInSeconds": str(_SIGNED_FOR_S)}), "url")

    def remove(self) -> None:
        """Remove it, once its state has changed if that is just changing; wait for it if its creation had no answer."""
        now = time.monotonic()
        ends_at, appears_by = now + _REMOVE_TIMEOUT_S, now + (0.0 if self._is_made else self.appears_within_s)
        while self._may_be_there:
            try:
                self._api.call("DELETE", f"/sandbox/{self.name}")
                self._may_be_there = False
            except ServiceError as error:
                now = time.monotonic()
                if error.status == _NOT_FOUND:
                    self._may_be_there = not self._is_made and now < appears_by
                elif error.status not in _NOT_NOW or now > ends_at:
                    raise
                else:
                    self._is_made = True
                time.sleep(_PAUSE_S)

    def _make(self) -> Any:
        self._may_be_there = True
        try:
            made = self._api.call("POST", "/sandbox", body=self._wanted, timeout_s=self._timeout_s)
        except ServiceError as error:
            self._may_be_there = error.may_be_done
            raise
        self._is_made = True
        return made


def _field(answer: Any, name: str) -> str:
    """Return a text of an answer of Daytona."""
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, str):
        raise ProviderError(
            f"Expected {name!r} in an answer of Daytona, got none. Is the address of its API right ({URL_VARIABLE}), "
            "and its version recent?"
        )
    return found


def _connect(key: str, secrets: list[str]) -> "ServiceApi":
    try:
        from openenv.core.providers.cloud.api import ServiceApi
    except ImportError as error:
        raise ImportError(f"DaytonaProvider needs httpx: {install_command('daytona')}") from error
    service = Service(
        name="Daytona", credentials=f"{KEY_VARIABLE} or api_key=, from https://app.daytona.io/dashboard/keys"
    )
    url = os.environ.get(URL_VARIABLE) or _URL
    return ServiceApi(service, url, {"Authorization": f"Bearer {key}"}, secrets)


def _amounts(resources: Any) -> dict[str, int]:
    """Return resources in Daytona's units: whole processors and GiB."""
    if resources is None:
        return {}
    if isinstance(resources, Resources):
        memory = resources.memory_bytes
        found = {
            "cpu": None if resources.cpus is None else -int(-resources.cpus // 1),
            "memory": None if memory is None else -(-memory // _GIB),
            "gpu": resources.gpus or None,
        }
    else:
        found = {name: getattr(resources, name, None) for name in ("cpu", "memory", "disk", "gpu")}
    return {name: int(amount) for name, amount in found.items() if amount is not None}
