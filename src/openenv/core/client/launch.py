"""The ways to a client that start its server first: from an image, or from a Space on the Hugging Face Hub.

Each of them gives a handle at once and starts nothing yet: a handle is awaited, entered, or just used as the client.
"""

import asyncio
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import partial
from inspect import CORO_CLOSED, Parameter, getcoroutinestate, isawaitable, signature
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from openenv.core import providers
from openenv.core.client.blocking import NOTHING, LoopLock, awaited, in_event_loop, start_in_thread, wait_for
from openenv.core.client.sync import SyncEnvClient
from openenv.core.exceptions import ConfigurationError, HandleUsedError
from openenv.core.providers.base import ContainerProvider, Provider, RuntimeProvider
from openenv.core.providers.spaces import space_image, space_repository
from openenv.core.providers.undeclared import as_container_provider, as_provider
from openenv.core.providers.venv.git import without_login

ClientT = TypeVar("ClientT", bound="Bootstrapping")

_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
# What UVProvider is made with; what else there is, its start takes.
_OF_PROJECT = frozenset({"project_path", "app", "host", "reload", "context_timeout_s"})


class Start(NamedTuple):
    """How a server is to be started.

    Attributes:
        what: What it is made of, for people.
        find_provider: Gives the provider, making it if need be.
        launch: Has the provider start it and wait until it is ready; returns its address.
    """

    what: str
    find_provider: Callable[[], Any]
    launch: Callable[[Any], str]


class Bootstrapping(ABC):
    """What clients have of this, and what it needs of them."""

    @abstractmethod
    def connect(self) -> Coroutine[Any, Any, Self]:
        """Open the session."""

    @abstractmethod
    def close(self) -> Coroutine[Any, Any, None]:
        """End the session, and stop the server."""

    @abstractmethod
    def sync(self) -> SyncEnvClient[Any, Any, Any]:
        """Return the blocking facade."""

    @classmethod
    def from_docker_image(
        cls,
        image: str,
        provider: ContainerProvider | None = None,
        *,
        wait_timeout: float | None = None,
        **options: Any,
    ) -> "ClientHandle[Self]":
        """Get a client of a container that is started from an image, and removed when the client is closed.

        Args:
            image: Name of the image, which has a server on port 8000.
            provider: Starts the container; by default this machine's Docker.
            wait_timeout: Seconds that the server may take to get ready; by default 30, or what the provider says.
            **options: Those of the client, such as ``message_timeout_s``; all others are the provider's, such as
                ``env_vars`` and ``port``.

        Returns:
            A handle: await it, call its ``sync()``, enter it, or use it as the client. The container starts then.

        Example:
            >>> with EchoEnv.from_docker_image("echo-env:latest") as env:  # doctest: +SKIP
            ...     env.reset()
        """
        own, others = _split(cls, options)
        return ClientHandle(cls, _image_start(image, provider, wait_timeout, others), own)

    @classmethod
    def from_env(
        cls,
        repo_id: str,
        *,
        use_docker: bool = True,
        provider: Provider | None = None,
        tag: str = "latest",
        wait_timeout: float | None = None,
        **options: Any,
    ) -> "ClientHandle[Self]":
        """Get a client of a Space's environment, which is run here and ends when the client is closed.

        Args:
            repo_id: The Space, as ``OWNER/NAME``.
            use_docker: Whether to run the Space's image. Otherwise its repository is fetched, and run as it is by this
                user, in a Python environment of its own: do that with Spaces that you trust.
            provider: Starts the server; by default this machine's Docker, or ``UVProvider``.
            tag: Of the image; or its digest, ``sha256:...``.
            wait_timeout: Seconds that the server may take to get ready; by default 30, or what the provider says.
            **options: Those of the client, such as ``message_timeout_s``; all others are the provider's: ``port``,
                ``env_vars`` and further ones. Without Docker, ``project_path`` names another place of the project.

        Returns:
            A handle, as ``from_docker_image`` gives it.

        Raises:
            ConfigurationError: ``repo_id`` is no Space's, or the provider is of the other kind.
        """
        own, others = _split(cls, options)
        provider = None if provider is None else as_provider(provider, without_container=not use_docker)
        if use_docker and not isinstance(provider, RuntimeProvider):
            return ClientHandle(cls, _image_start(space_image(repo_id, tag), provider, wait_timeout, others), own)
        return ClientHandle(cls, _project_start(repo_id, provider, wait_timeout, others), own)

    @classmethod
    def from_hub(
        cls,
        repo_id: str,
        provider: Provider | None = None,
        *,
        tag: str = "latest",
        use_docker: bool = True,
        wait_timeout: float | None = None,
        **options: Any,
    ) -> "ClientHandle[Self]":
        """Get a client of a Space's environment; the same as ``from_env``.

        Example:
            >>> env = EchoEnv.from_hub("openenv/echo-env")  # doctest: +SKIP
            >>> env.reset()  # doctest: +SKIP
        """
        return cls.from_env(
            repo_id, use_docker=use_docker, provider=provider, tag=tag, wait_timeout=wait_timeout, **options
        )


class ClientHandle(Coroutine[Any, Any, ClientT], Generic[ClientT]):
    """A client whose server is still to be started: by the first of these, and only once.

    - ``await handle`` gives the client, connected; so does ``asyncio.run(handle)``.
    - ``handle.sync()`` gives its blocking facade, connected.
    - ``with handle as env`` and ``async with handle as env`` give the client and close it.
    - ``handle.reset()``, or whatever else clients have, is the client's: it blocks where no event loop runs, and is to
      be awaited inside one.

    A start that fails leaves nothing running.

    Args:
        client_class: The client's class.
        start: How its server is started.
        options: What else the client is made with.
    """

    def __init__(self, client_class: type[ClientT], start: Start, options: Mapping[str, Any]) -> None:
        self._client_class = client_class
        self._start = start
        self._options = options
        self._used = False
        self._client: ClientT | None = None
        self._resolving = LoopLock()
        self._coroutine: Coroutine[Any, Any, ClientT] | None = None

    def __repr__(self) -> str:
        """Say what it stands for."""
        state = "used" if self._used else "not started"
        return f"<{type(self).__name__} of {self._client_class.__name__} from {self._start.what}: {state}>"

    def resolve(self) -> ClientT:
        """Start the server and return its client, connected; this blocks.

        Raises:
            HandleUsedError: That was done before.
            ProviderError: The server could not be started; a ``ServerNotReadyError`` if it was not ready in time.
            ConnectionFailedError: It takes no connections.
        """
        self._use()
        provider = self._start.find_provider()
        client = make_client(self._client_class, provider, self._start.launch(provider), self._options)
        try:
            wait_for(client.connect)
        except BaseException:
            wait_for(client.close)
            raise
        return client

    def sync(self) -> SyncEnvClient[Any, Any, Any]:
        """Start the server and return its client's blocking facade, connected."""
        return (self._client or self.resolve()).sync()

    def __enter__(self) -> ClientT:
        """Start the server, blocking."""
        self._client = self._client or self.resolve()
        return self._client

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client, blocking."""
        assert self._client is not None
        wait_for(self._client.close)

    async def __aenter__(self) -> ClientT:
        """Start the server."""
        return await self._resolved()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        assert self._client is not None
        await awaited(self._client.close)

    def __getattr__(self, name: str) -> Any:
        """Hand out an attribute of the client, having its server started for the first of them."""
        if name.startswith("_"):  # what copies, pickles and inspects asks for such
            raise AttributeError(name)
        if self._client is None:
            member = getattr(self._client_class, name)  # which starts nothing where there is no such attribute
            if in_event_loop():
                return self._for_later(name, member)
            self._client = self.resolve()
        return getattr(self._client, name)

    def _for_later(self, name: str, member: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
        if not callable(member):
            raise HandleUsedError(f"The handle's client is still to come; await the handle before you read {name}.")
        return partial(self._call, name)

    async def _call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        result = getattr(await self._resolved(), name)(*args, **kwargs)
        return await result if isawaitable(result) else result

    async def _resolved(self) -> ClientT:
        async with self._resolving.here():  # of calls that come together, the first one starts the server
            if self._client is None:
                self._client = await self._resolve()
        return self._client

    async def _resolve(self) -> ClientT:
        self._use()
        provider = await asyncio.to_thread(self._start.find_provider)
        base_url = await start_in_thread(partial(self._start.launch, provider), provider.shut_down)
        client = make_client(self._client_class, provider, base_url, self._options)
        try:
            await awaited(client.connect)
        except BaseException:
            await awaited(client.close)
            raise
        return client

    def _use(self) -> None:
        if self._used:
            raise HandleUsedError("This handle has given its client, or failed to, already; make another one.")
        self._used = True

    # What makes it a coroutine.

    def __await__(self) -> Generator[Any, Any, ClientT]:
        """Start the server and give its client."""
        return self._resolve().__await__()

    def send(self, value: Any) -> Any:
        """Go on as a coroutine does."""
        return self._running().send(value)

    def throw(self, *error: Any) -> Any:
        """Go on as a coroutine does, with an error."""
        return self._running().throw(*error)

    def close(self) -> Any:
        """Close the client; where none is there or on its way, see to it that there will be none.

        Inside an event loop, to be awaited.
        """
        if self._client is not None:
            return self._client.close()
        self._used = True
        if self._coroutine is not None:
            self._coroutine.close()
        if not in_event_loop():
            return NOTHING
        closed = asyncio.get_running_loop().create_future()
        closed.set_result(None)
        return closed

    def _running(self) -> Coroutine[Any, Any, ClientT]:
        if self._coroutine is None or getcoroutinestate(self._coroutine) == CORO_CLOSED:
            self._coroutine = self._resolve()
        return self._coroutine


def make_client(client_class: type[ClientT], provider: Provider, base_url: str, options: Mapping[str, Any]) -> ClientT:
    """Make a client of a server that was started for it; if that fails, the server is stopped.

    Args:
        client_class: The client's class; of one that extends no client of ours, the server ends when it is collected.
        provider: What has started the server, and stops it with the client.
        base_url: The server's address.
        options: What else the client is made with.
    """
    make: Any = client_class
    try:
        if issubclass(make, Bootstrapping):
            client: ClientT = make(base_url=base_url, provider=provider, **options)
        else:
            client = make(base_url=base_url, **options)
            weakref.finalize(client, provider.shut_down)
    except BaseException:
        provider.shut_down()
        raise
    return client


def _image_start(image: str, provider: Provider | None, timeout_s: float | None, options: Mapping[str, Any]) -> Start:
    containers = None if provider is None else as_container_provider(provider, image)
    launch: Callable[[ContainerProvider], str] = partial(_launch_image, image, timeout_s, options)
    return Start(image, partial(_this_or_docker, containers), launch)


def _this_or_docker(provider: ContainerProvider | None) -> ContainerProvider:
    return providers.LocalDockerProvider() if provider is None else provider


def _launch_image(image: str, timeout_s: float | None, options: Mapping[str, Any], provider: ContainerProvider) -> str:
    return provider.launch_image(image, timeout_s=timeout_s, **options)


def _project_start(
    repo_id: str, provider: Provider | None, timeout_s: float | None, options: Mapping[str, Any]
) -> Start:
    if provider is not None and not isinstance(provider, RuntimeProvider):
        raise ConfigurationError(f"Without Docker, expected a RuntimeProvider, got {provider!r}.")
    of_project = {name: value for name, value in options.items() if name in _OF_PROJECT}
    to_start = {name: value for name, value in options.items() if name not in of_project}
    if provider is not None and of_project:
        raise ConfigurationError(f"The provider was made with what {', '.join(of_project)} says; give one of them.")
    project = {"project_path": space_repository(repo_id), **of_project}
    launch: Callable[[RuntimeProvider], str] = partial(_launch_project, timeout_s, to_start)
    return Start(without_login(str(project["project_path"])), partial(_this_or_uv, provider, project), launch)


def _this_or_uv(provider: RuntimeProvider | None, project: Mapping[str, Any]) -> RuntimeProvider:
    return providers.UVProvider(**project) if provider is None else provider


def _launch_project(timeout_s: float | None, options: Mapping[str, Any], provider: RuntimeProvider) -> str:
    return provider.launch(timeout_s, **options)


def _split(client_class: type, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part options into the client's, as its constructor names them, and all others."""
    named = _constructor_options(client_class) - {"base_url", "provider"}
    own = {name: value for name, value in options.items() if name in named}
    return own, {name: value for name, value in options.items() if name not in own}


def _constructor_options(client_class: type) -> set[str]:
    """Name what a class is made with: by its constructor and, where that hands on ``**kwargs``, by those above it."""
    named: set[str] = set()
    for cls in client_class.__mro__:
        if "__init__" not in vars(cls):
            continue
        parameters = signature(vars(cls)["__init__"]).parameters.values()
        named.update(parameter.name for parameter in parameters if parameter.kind in _NAMED)
        if all(parameter.kind is not Parameter.VAR_KEYWORD for parameter in parameters):
            break
    return named - {"self"}
