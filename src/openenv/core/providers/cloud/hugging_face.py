"""``HFSandboxProvider``: a server in a sandbox of Hugging Face, by ``huggingface_hub``."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.cloud.errors import Service, ServiceError, repeated, retry_after, shortened
from openenv.core.providers.cloud.provider import CloudProvider
from openenv.core.providers.cloud.sandbox import Address, Sandbox, ShellSandbox
from openenv.core.wire.redaction import longest_first, without_secrets

if TYPE_CHECKING:
    from huggingface_hub import HfApi, JobInfo
    from huggingface_hub import Sandbox as HubSandbox

_ResultT = TypeVar("_ResultT")

_SERVICE = Service(
    name="Hugging Face",
    credentials="HF_TOKEN or token= to one that may run jobs, from https://huggingface.co/settings/tokens",
)
_NAME_LABEL = "openenv"
_COMMAND_TIMEOUT_S = 30
_PAUSE_S = 0.5
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


class HuggingFaceSandbox(ShellSandbox):
    """A sandbox of Hugging Face.

    Args:
        api: The Hub.
        name: Its name, which is a label of the job.
        settings: What the SDK makes it of.
        secrets: Texts that no error shows, besides its own tokens and the Hub's.
    """

    def __init__(self, api: "HfApi", name: str, settings: Mapping[str, Any], secrets: Iterable[str]) -> None:
        super().__init__(name)
        self._api = api
        self._secrets = set(secrets)
        self._settings = settings
        self._may_be_there = False
        self._made: HubSandbox | None = None

    def create(self) -> None:
        """Have it made, and wait until it runs."""
        from huggingface_hub import Sandbox as HubSandbox

        self._may_be_there = True
        labels = {_NAME_LABEL: self.name}
        # Without the SDK's end of an idle sandbox: an episode may think for longer.
        make = partial(HubSandbox.create, labels=labels, idle_timeout=None, **self._settings)
        try:
            self._made = self._called("the creation of a sandbox", make, harmless=False)
        except ServiceError as error:
            self._may_be_there = error.may_be_done
            raise

    def run(self, command: str) -> str:
        """Run a short shell command and return what it printed."""
        run = partial(self._running.run, command, check=False, timeout=_COMMAND_TIMEOUT_S)
        return self._called("a command", run).stdout

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
        """Cancel its job."""
        if not self._may_be_there:
            return
        if self._made is None:
            self._remove_by_label()
        else:
            self._cancel(self._made.id)
            self._made.close()
        self._may_be_there = False

    @property
    def _running(self) -> "HubSandbox":
        if self._made is None:
            raise ProviderError(f"The sandbox {self.name} of Hugging Face does not run.")
        return self._made

    def _remove_by_label(self) -> None:
        """Cancel the job whose creation failed half-way; the SDK does that too, but not after an interruption."""
        namespace = self._settings["namespace"] or self._called("whoami", self._api.whoami)["name"]
        appears_by = time.monotonic() + self.appears_within_s
        jobs = self._jobs(namespace)
        while not jobs and time.monotonic() < appears_by:
            time.sleep(_PAUSE_S)
            jobs = self._jobs(namespace)
        for job in jobs:
            if job.status.stage not in _ENDED:
                self._cancel(job.id, namespace)

    def _jobs(self, namespace: str) -> "list[JobInfo]":
        return self._called("the list of jobs", partial(self._listed, namespace))

    def _listed(self, namespace: str) -> "list[JobInfo]":
        labels = {_NAME_LABEL: self.name}
        return list(self._api.list_jobs(labels=labels, namespace=namespace, token=self._api.token))

    def _cancel(self, job_id: str, namespace: str | None = None) -> None:
        namespace = namespace or self._settings["namespace"]
        try:
            self._called("the end of a job", partial(self._api.cancel_job, job_id=job_id, namespace=namespace))
        except ServiceError as error:
            if error.status != 404:
                raise

    def _called(self, what: str, call: Callable[[], _ResultT], *, harmless: bool = True) -> _ResultT:
        """Make a call of the SDK, repeated as ``repeated`` has it."""
        return repeated(partial(self._tried, what, call), harmless=harmless)

    def _tried(self, what: str, call: Callable[[], _ResultT]) -> _ResultT:
        """Make a call of the SDK, whose errors become ours, without secrets and the SDK's own text."""
        from huggingface_hub.errors import HfHubHTTPError, HTTPError, SandboxError  # type: ignore[attr-defined]

        try:
            return call()
        except HfHubHTTPError as error:
            answer = error.response
            detail = self._without_secrets(error.server_message or answer.reason_phrase)
            wait_s = retry_after(answer.headers.get("Retry-After", ""))
            raise _SERVICE.refusal(what, answer.status_code, detail, wait_s) from None
        except SandboxError as error:
            said = self._without_secrets(str(error))
            if error.status_code is None:
                raise ProviderError(f"Hugging Face: {said}") from None
            raise _SERVICE.refusal(what, error.status_code, said) from None
        except HTTPError as error:
            raise _SERVICE.silence(f"for {what}", self._without_secrets(str(error)) or type(error).__name__) from None
        except (OSError, ValueError, LookupError) as error:
            said = self._without_secrets(f"{type(error).__name__}: {error}")
            raise ProviderError(f"Hugging Face: {what} failed with {shortened(said)}") from None

    def _without_secrets(self, text: str) -> str:
        from huggingface_hub import get_token

        known = {self._settings["token"], get_token(), *self._secrets}
        return str(without_secrets(text, longest_first(known)))


def _connect(token: str | None) -> "HfApi":
    try:
        from huggingface_hub import HfApi, get_token
        from huggingface_hub import Sandbox as _  # noqa: F401  # which releases before 2 lack
    except ImportError as error:
        raise ImportError('HFSandboxProvider needs huggingface_hub: pip install "openenv-core[hub]"') from error
    if not (token or get_token()):
        raise ConfigurationError(
            f"Expected a token of the Hub, got none. Set {_SERVICE.credentials}; or `hf auth login`."
        )
    return HfApi(token=token)
