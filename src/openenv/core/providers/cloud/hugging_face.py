"""``HFSandboxProvider``: a server in a sandbox of Hugging Face, by ``huggingface_hub``."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.cloud.errors import Service, ServiceError, retry_after
from openenv.core.providers.cloud.provider import CloudProvider
from openenv.core.providers.cloud.sandbox import Address, Sandbox
from openenv.core.providers.cloud.sdk_sandbox import COMMAND_TIMEOUT_S, SdkSandbox

if TYPE_CHECKING:
    from huggingface_hub import HfApi, JobInfo
    from huggingface_hub import Sandbox as HubSandbox

_SERVICE = Service(
    name="Hugging Face",
    credentials="HF_TOKEN or token= to one that may run jobs, from https://huggingface.co/settings/tokens",
)
_NAME_LABEL = "openenv"
_ENDED = frozenset({"COMPLETED", "ERROR", "DELETED", "CANCELED"})


class HFSandboxProvider(CloudProvider):
    """Starts a server in a sandbox of Hugging Face: a job of its own, billed as jobs are.

    The server is reached through the job's proxy only, which wants the Hub's token and one of the sandbox; the server
    wants its own, which goes as ``X-API-Key``, since ``Authorization`` has the Hub's. ``EnvClient`` sends all of
    them, and to no other origin; other programs need ``provider.headers`` and ``provider.token``.

    The sandbox's end of the proxy runs inside the job, among the files of the image, so the image's code may read both
    tokens from the requests. For images that you don't trust, give a ``token`` that may run jobs and nothing else.

    The job is canceled by ``stop_container``, after a start that failed or was interrupted, and when the interpreter
    ends; after a ``kill`` of this process, SIGTERM included, it runs until the Hub ends it, after 24 hours.
    ``hf jobs ps`` lists it.

    Args:
        image: The image to start where ``start_container`` names none: of Docker's registry, or of a Space as
            ``hf.co/spaces/OWNER/NAME``.
        env_vars: Environment variables of the job, which the Hub's pages show.
        secrets: Further ones, for the server's process alone.
        flavor: The hardware, as ``cpu-basic`` or ``a10g-small``.
        cmd: The shell command that starts the server, in place of the one that is found in the image.
        token: The Hub's token; the one that ``hf auth login`` stored, or ``HF_TOKEN``, if ``None``.
        namespace: The user or organization that the job is run and billed for; the token's user if ``None``.
        create_timeout: Seconds that the sandbox may take until it runs.

    Raises:
        ConfigurationError: There is no token.
        ImportError: ``huggingface_hub`` is not installed, or has no sandboxes yet.

    Example::

        provider = HFSandboxProvider(image="hf.co/spaces/openenv/echo_env")
        with EchoEnv(provider=provider).sync() as env:
            env.reset()
    """

    service_name: ClassVar[str] = "Hugging Face"
    _host: ClassVar[str] = "127.0.0.1"  # the proxy is a process in the sandbox

    def __init__(
        self,
        *,
        image: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        flavor: str = "cpu-basic",
        cmd: str | None = None,
        token: str | None = None,
        namespace: str | None = None,
        create_timeout: float = 300.0,
    ) -> None:
        super().__init__(image=image, env_vars=env_vars, secrets=secrets, cmd=cmd)
        self._api = _connect(token)
        self._settings: dict[str, Any] = {
            "flavor": flavor,
            "namespace": namespace,
            "start_timeout": create_timeout,
            "token": token,
        }

    def _new_sandbox(self, name: str, image: str, env_vars: Mapping[str, str]) -> Sandbox:
        settings = {"image": image, "env": dict(env_vars), **self._settings}
        return HuggingFaceSandbox(self._api, name, settings, self.secrets.values())


class HuggingFaceSandbox(SdkSandbox["HubSandbox", "HubSandbox | JobInfo"]):
    """A sandbox of Hugging Face.

    Args:
        api: The Hub.
        name: Its name, which is a label of the job.
        settings: What the SDK makes it of.
        secrets: Texts that no error shows, besides its own tokens and the Hub's.
    """

    service: ClassVar[Service] = _SERVICE

    def __init__(self, api: "HfApi", name: str, settings: Mapping[str, Any], secrets: Iterable[str]) -> None:
        super().__init__(name, secrets)
        self._api = api
        self._settings = settings

    def start_server(self, script: str) -> None:
        """Start the server in the background."""
        self._run_checked(self._write(script))
        self._called("the server's start", partial(self._running.run, self._serve, background=True), harmless=False)

    def address(self, port: int) -> Address:
        """Return the address at the job's proxy, and the headers that it wants."""
        scheme = "http://" if self._api.endpoint.startswith("http://") else "https://"
        url = self._running.proxy_url_for(port, scheme=scheme)
        headers = self._running.proxy_headers
        self._secrets.update(headers.values())
        return Address(url.rstrip("/"), headers)

    def remove(self) -> None:
        """Cancel its job, and close the connections to it."""
        made = self._made
        super().remove()
        if made is not None:
            made.close()

    def _make(self) -> "HubSandbox":
        from huggingface_hub import Sandbox as HubSandbox

        # Without the SDK's end of an idle sandbox: an episode may think for longer.
        return HubSandbox.create(labels={_NAME_LABEL: self.name}, idle_timeout=None, **self._settings)

    def _run(self, command: str) -> str:
        return self._running.run(command, check=False, timeout=COMMAND_TIMEOUT_S).stdout

    def _found(self) -> "Sequence[HubSandbox | JobInfo]":
        if self._made is not None:
            return [self._made]
        namespace = self._settings["namespace"] or self._called("whoami", self._api.whoami)["name"]
        return self._called("the list of jobs", partial(self._listed, namespace))

    def _listed(self, namespace: str) -> "Sequence[JobInfo]":
        labels = {_NAME_LABEL: self.name}
        return list(self._api.list_jobs(labels=labels, namespace=namespace, token=self._api.token))

    def _end(self, found: "HubSandbox | JobInfo") -> None:
        from huggingface_hub import JobInfo

        namespace = self._settings["namespace"]
        if isinstance(found, JobInfo):  # the SDK cancels a job whose start has failed, but not after an interruption
            if found.status.stage in _ENDED:
                return
            namespace = found.owner.name
        try:
            self._called("the end of a job", partial(self._api.cancel_job, job_id=found.id, namespace=namespace))
        except ServiceError as error:
            if error.status != 404:
                raise

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        from huggingface_hub.errors import HfHubHTTPError, HTTPError, SandboxError  # type: ignore[attr-defined]

        return (HfHubHTTPError, HTTPError, SandboxError)

    def _converted(self, what: str, error: Exception) -> ProviderError:
        from huggingface_hub.errors import HfHubHTTPError, SandboxError

        if isinstance(error, HfHubHTTPError):
            answer = error.response
            detail = self._without_secrets(error.server_message or answer.reason_phrase)
            wait_s = retry_after(answer.headers.get("Retry-After", ""))
            return self.service.refusal(what, answer.status_code, detail, wait_s)
        said = self._said(error)
        if not isinstance(error, SandboxError):
            return self.service.silence(f"for {what}", said)
        if error.status_code is None:
            return ProviderError(f"Hugging Face: {said}")
        return self.service.refusal(what, error.status_code, said)

    def _without_secrets(self, text: str) -> str:
        from huggingface_hub import get_token

        self._secrets.update(filter(None, (self._settings["token"], get_token())))
        return super()._without_secrets(text)


def _connect(token: str | None) -> "HfApi":
    try:
        from huggingface_hub import HfApi, get_token
        from huggingface_hub import Sandbox as _  # noqa: F401  # which releases before 2 lack
    except ImportError as error:
        raise ImportError(f"HFSandboxProvider needs huggingface_hub: {install_command('hub')}") from error
    if not (token or get_token()):
        raise ConfigurationError(
            f"Expected a token of the Hub, got none. Set {_SERVICE.credentials}; or `hf auth login`."
        )
    return HfApi(token=token)
