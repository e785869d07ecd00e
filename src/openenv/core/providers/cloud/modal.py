"""``ModalProvider``: a server in a sandbox of Modal, by the SDK ``modal``."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from openenv._extras import install_command
from openenv.core.exceptions import ConfigurationError, ProviderError
from openenv.core.providers.cloud.errors import Service, ServiceError
from openenv.core.providers.cloud.provider import CloudProvider
from openenv.core.providers.cloud.sandbox import Address, Sandbox
from openenv.core.providers.cloud.sdk_sandbox import COMMAND_TIMEOUT_S, IDLE_COMMAND, UNPROCESSABLE, SdkSandbox
from openenv.core.providers.cloud.server_script import SERVER_PORT

if TYPE_CHECKING:
    import modal

logger = logging.getLogger(__name__)

SECRET_VARIABLE = "MODAL_TOKEN_SECRET"  # noqa: S105  # its name, not a token

_SERVICE = Service(
    name="Modal",
    credentials=f"MODAL_TOKEN_ID and {SECRET_VARIABLE}, from https://modal.com/settings/tokens; or `modal token new`",
)
_DOCKERFILE = "dockerfile:"
_CONTEXT = "?context="
# What a sandbox reserves without any wish; `cpu` and `memory` are limits on top of that.
_RESERVED_CPU = 0.125
_RESERVED_MIB = 128
_OWN_OPTIONS = frozenset({"app", "cpu", "encrypted_ports", "env", "image", "memory", "name", "timeout"})
_CONFLICT = 409


class ModalProvider(CloudProvider):
    """Starts a server in a sandbox of Modal, https://modal.com.

    The server is reached by a tunnel of Modal's, which is encrypted but wants no key: the server's own token is its
    lock. ``EnvClient`` sends it by itself; other programs need ``provider.token``.

    The sandbox is terminated by ``stop_container``, after a start that failed or was interrupted, and when the
    interpreter ends; in any case Modal ends it after ``timeout`` seconds.

    Args:
        image: The image to start where ``start_container`` names none, from a registry that Modal can read; or what
            ``image_from_dockerfile`` returned.
        env_vars: Environment variables of the sandbox.
        secrets: Further ones, for the server's process alone.
        app_name: The app of Modal in which sandboxes are made; it is made too if there is none.
        use_sandbox_v2: Whether sandboxes have to be of Modal's V2. If not, the SDK chooses: now V2, or V1 with a GPU or
            ``MODAL_SANDBOX_V2=0``.
        timeout: Seconds after which Modal ends the sandbox, whatever it does: more than the longest use of it.
        cmd: The shell command that starts the server, in place of the one that is found in the image.
        cpu: The most processors that the sandbox may use; Modal's own limit if ``None``.
        memory: The most MiB of memory; Modal's own limit if ``None``.
        create_options: Further arguments of ``modal.Sandbox.create``, as ``{"gpu": "A10G", "region": "eu"}``; not those
            that this class has or sets itself.
        surface_server_logs: Whether errors and ``logs`` show the end of what the server printed.

    Raises:
        ConfigurationError: ``create_options`` has an argument that this class sets.
        ImportError: ``modal`` is not installed.

    Example::

        provider = ModalProvider(image="ghcr.io/me/echo-env:1.0", cpu=2, memory=4096)
        with EchoEnv(provider=provider).sync() as env:
            env.reset()
    """

    service_name: ClassVar[str] = "Modal"

    def __init__(
        self,
        *,
        image: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        app_name: str = "openenv",
        use_sandbox_v2: bool = False,
        timeout: int = 3600,
        cmd: str | None = None,
        cpu: float | None = None,
        memory: int | None = None,
        create_options: Mapping[str, Any] | None = None,
        surface_server_logs: bool = True,
    ) -> None:
        super().__init__(
            image=image, env_vars=env_vars, secrets=secrets, cmd=cmd, surface_server_logs=surface_server_logs
        )
        _check_sdk()
        self._app_name = app_name
        self._is_v2 = use_sandbox_v2
        if own := _OWN_OPTIONS.intersection(create_options or ()):
            raise ConfigurationError(
                f"Expected create_options without {', '.join(sorted(own))}, which ModalProvider sets."
            )
        self._options: dict[str, Any] = {**(create_options or {}), "timeout": timeout}
        if cpu is not None:
            self._options["cpu"] = (min(_RESERVED_CPU, cpu), cpu)
        if memory is not None:
            self._options["memory"] = (min(_RESERVED_MIB, memory), memory)

    @staticmethod
    def image_from_dockerfile(dockerfile_path: str | Path, context_dir: str | Path | None = None) -> str:
        """Return an image that Modal builds from a Dockerfile when it is first started.

        Args:
            dockerfile_path: The Dockerfile.
            context_dir: The folder that its ``COPY`` instructions are relative to; the one above the Dockerfile's if
                ``None``, as for ``ENVIRONMENT/server/Dockerfile``.

        Returns:
            What to pass as ``image``.

        Raises:
            FileNotFoundError: There is no such Dockerfile.
            ConfigurationError: There is no such folder.
        """
        path = Path(dockerfile_path).resolve()
        if not path.is_file():
            raise FileNotFoundError(f"Expected a Dockerfile at {path}, found none.")
        context = path.parent.parent if context_dir is None else Path(context_dir).resolve()
        if not context.is_dir():
            raise ConfigurationError(f"Expected a folder as context_dir, found none at {context}.")
        return f"{_DOCKERFILE}{path}{_CONTEXT}{context}"

    def _new_sandbox(self, name: str, image: str, env_vars: Mapping[str, str]) -> Sandbox:
        options = {**self._options, "image": self._image(image), "env": dict(env_vars)}
        from modal.config import config

        secrets = [*self.secrets.values(), config.get("token_secret") or ""]  # of the variable, or of the user's file
        return ModalSandbox(self._app_name, name, options, secrets, is_v2=self._is_v2)

    def _image(self, image: str) -> "modal.Image":
        from modal import Image

        if not image.startswith(_DOCKERFILE):
            return Image.from_registry(image)
        path, _, context = image.removeprefix(_DOCKERFILE).partition(_CONTEXT)
        return Image.from_dockerfile(path, context_dir=context or Path(path).parent.parent)


class ModalSandbox(SdkSandbox["modal.Sandbox", "modal.Sandbox"]):
    """A sandbox of Modal.

    Args:
        app_name: The app in which it is made.
        name: Its name, which no other running sandbox of the app has.
        options: What the SDK makes it of.
        secrets: Texts that no error shows.
        is_v2: Whether the sandbox has to be of Modal's V2.
    """

    service: ClassVar[Service] = _SERVICE
    _sdk_repeats: ClassVar[bool] = True

    def __init__(
        self, app_name: str, name: str, options: Mapping[str, Any], secrets: Iterable[str], *, is_v2: bool
    ) -> None:
        super().__init__(name, secrets)
        self._app_name = app_name
        self._options = options
        self._is_v2 = is_v2
        self._app: modal.App | None = None

    def create(self) -> None:
        """Find its app, have it made, and wait until it runs."""
        import modal

        # Before the creation: a search that has no answer leaves no sandbox behind.
        find = partial(modal.App.lookup, self._app_name, create_if_missing=True)
        self._app = self._called("the search for its app", find)
        super().create()

    def remove(self) -> None:
        """End it, and close the connections to it."""
        made = self._made
        super().remove()
        if made is not None:
            self._close_connections(made)

    def address(self, port: int) -> Address:
        """Return the address of its tunnel."""
        tunnels = self._called("its tunnels", self._running.tunnels)
        if port not in tunnels:
            raise ProviderError(f"Expected a tunnel of Modal to port {port} of the sandbox {self.name}, got none.")
        return Address(tunnels[port].url)

    def why_ended(self) -> str | None:
        """Look whether it runs, and for the note of how the server ended."""
        if self._called("its state", self._running.poll) is not None:
            return f"Modal has ended it, at the latest after the {self._options['timeout']} s of timeout="
        return super().why_ended()

    def _make(self) -> "modal.Sandbox":
        import modal

        create = modal.Sandbox._experimental_create if self._is_v2 else modal.Sandbox.create
        return create(*IDLE_COMMAND, app=self._app, name=self.name, encrypted_ports=[SERVER_PORT], **self._options)

    def _run(self, command: str) -> str:
        process = self._running.exec("sh", "-c", command, timeout=COMMAND_TIMEOUT_S)
        printed = process.stdout.read()
        process.wait()
        return printed

    def _may_be_made(self, error: ServiceError) -> bool:
        # The SDK repeats a call whose answer was lost; no other sandbox has this name.
        return super()._may_be_made(error) or error.status == _CONFLICT

    def _found(self) -> "Sequence[modal.Sandbox]":
        import modal

        if self._made is not None:
            return [self._made]
        find = modal.Sandbox._experimental_from_name if self._is_v2 else modal.Sandbox.from_name
        try:
            return [self._called("the search for a sandbox", partial(find, self._app_name, self.name))]
        except ServiceError as error:
            if error.status != 404:
                raise
            return []

    def _end(self, found: "modal.Sandbox") -> None:
        self._called("the end of a sandbox", found.terminate)

    def _close_connections(self, made: "modal.Sandbox") -> None:
        """Close the SDK's connections to it; the sandbox has gone, so a failure is for the log only."""
        try:
            self._called("the end of a sandbox's connection", made.detach)
        except ProviderError as error:
            logger.warning("the connection to the sandbox %s could not be closed: %s", self.name, error)

    def _sdk_errors(self) -> tuple[type[Exception], ...]:
        from modal import exception

        return (exception.Error,)

    def _converted(self, what: str, error: Exception) -> ProviderError:
        from modal import exception

        said, status = self._said(error), _status(error)
        if isinstance(error, exception.ImageBuildError):
            return ServiceError(f"Modal can't build the image: {said}", UNPROCESSABLE)
        if isinstance(error, exception.ConnectionError | exception.TimeoutError):
            return self.service.silence(f"for {what}", said)
        return self._failed(what, said) if status is None else self.service.refusal(what, status, said)


def _status(error: Exception) -> int | None:
    """Return the HTTP status that means the same as an error of Modal's, whose API has other ones."""
    from modal import exception

    statuses = {
        exception.AuthError: 401,
        exception.PermissionDeniedError: 403,
        exception.NotFoundError: 404,
        exception.AlreadyExistsError: 409,
        exception.ConflictError: 409,
        exception.InvalidError: 400,
        exception.ResourceExhaustedError: 429,
        exception.InternalError: 500,
        exception.ServiceError: 503,
    }
    return next((status for kind, status in statuses.items() if isinstance(error, kind)), None)


def _check_sdk() -> None:
    try:
        import modal as _  # noqa: F401
    except ImportError as error:
        raise ImportError(f"ModalProvider needs modal: {install_command('modal')}") from error
