"""The client of an environment: async by nature, blocking where no event loop runs."""

import asyncio
import copy
import logging
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib.util import find_spec
from ssl import SSLContext, SSLError, create_default_context
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from pydantic_core import to_json

from openenv.core.addresses import reachable_url, server_address, socket_url
from openenv.core.client.blocking import (
    LoopLock,
    awaited,
    background_loop,
    blocks_outside_loop,
    in_event_loop,
    run_in_thread,
    start_in_thread,
    wait_for,
)
from openenv.core.client.formats import WireFormat, foreign_observation_warning
from openenv.core.client.launch import Bootstrapping
from openenv.core.client.results import ActT, Done, ObsT, StateT, StepResult
from openenv.core.client.server_api import TaskAPIClient, fetch_metadata, fetch_schemas
from openenv.core.client.sync import SyncEnvClient
from openenv.core.client.transport.connection import Endpoint
from openenv.core.client.transport.pool import open_session
from openenv.core.client.transport.raw_socket import close_raw, exchange_raw, opens_socket
from openenv.core.client.transport.session import (
    RESET,
    ClientSession,
    given_up,
    no_fork,
    read_answer,
    session_here,
    timed_out,
)
from openenv.core.client.transport.waiter import ThreadWaiter
from openenv.core.client.vector import VectorEnv
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    RequestNotSentError,
    ResponseTimeoutError,
)
from openenv.core.plain_values import plain_value
from openenv.core.providers.base import Provider, RuntimeProvider
from openenv.core.providers.undeclared import as_provider
from openenv.core.tasks.row_cursor import RowCursor
from openenv.core.wire.messages import MessageType
from openenv.core.wire.names import API_KEY_HEADER, TOKEN_VARIABLE
from openenv.core.wire.results import ImageFile, Picture

logger = logging.getLogger(__name__)

_MODES = ("simulation", "production")
_MODE_VARIABLE = "OPENENV_CLIENT_MODE"
_TOKEN = re.compile("[!-~]+")
ResultT = TypeVar("ResultT")
# What is no subclass's own.
_OF_EVERY_CLIENT = frozenset(
    {
        "_arrays",
        "_base_url",
        "_capacity_wait_s",
        "_check_server",
        "_children",
        "_compared",
        "_connect_timeout_s",
        "_connecting",
        "_endings",
        "_facade",
        "_headers",
        "_client_session",
        "_has_provider_headers",
    }
    | {"_made_with", "_max_message_bytes", "_message_timeout_s", "_mode", "_own_headers", "_own_token", "_parent"}
    | {"_ping_interval_s", "_ping_timeout_s", "_provider", "_read_tasks", "_ssl", "_vectors"}
    | {"_ws_lock"}
)


class EnvClient(Bootstrapping, Done, ABC, Generic[ActT, ObsT, StateT]):
    """A session with an environment's server.

    Every method is a coroutine inside a running event loop::

        async with EchoEnv(base_url="http://localhost:8000") as env:
            result = await env.reset()

    and blocks where none runs::

        env = EchoEnv(base_url="http://localhost:8000")
        result = env.reset()
        env.close()

    For blocking code with a type checker, or inside a notebook's loop, use ``sync()``. One client stays with one of the
    two ways. It connects on its first use. A connection that is lost is made again where the server keeps the
    session for that (v1 of the wire), and each call is carried out once. A session that is lost is an error of the call
    that waits for its answer, or else of the next one that is no ``reset``; then another one is opened.

    Subclasses say how actions, results and states look on the wire, in three hooks; ``TypedEnvClient`` derives them
    from the classes.

    Args:
        base_url: Address of the server: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host; or of its
            socket or page, ``.../ws`` or ``.../web``. A query goes with each request.
        connect_timeout_s: Seconds that connecting may take.
        message_timeout_s: Seconds that an answer may take; ``None`` for no limit.
        max_message_size_mb: Longest answer that is accepted, in MiB.
        websocket_ping_interval_s: Seconds between the pings that find a dead connection.
        websocket_ping_timeout_s: Seconds to wait for the answer to a ping.
        provider: Starts the server on the first use, in place of ``base_url``, and stops it with the client.
        mode: ``simulation`` or ``production``; by default what ``OPENENV_CLIENT_MODE`` says, else simulation.
        headers: Further headers of the handshake.
        token: What the server asks for, by default the provider's, else what ``OPENENV_TOKEN`` says. It goes as
            ``Authorization: Bearer``, or as ``X-API-Key`` where ``headers``, or the provider's,
            have an ``Authorization`` for a proxy.
        capacity_wait_s: Seconds to wait in line for a session where every place is taken; on v1 of the wire only.
        ssl: Certificates to trust of a server at ``https://`` or ``wss://``: a context, or the path of a file in PEM;
            by default those of the system.
        arrays: Whether fields that the server declares as arrays or files come as arrays of NumPy, which can't be
            written to, and as ``bytes``. Otherwise, and from a server that has no binary frames, they come as nested
            lists and base64. The classes of a ``TypedEnvClient`` say it for themselves.

    Raises:
        ConfigurationError: There is neither an address nor a provider, no such mode, the token has other than visible
            ASCII characters, the time to wait is below 0, there is no NumPy for ``arrays``, or ``ssl`` has no
            certificates.
    """

    # The bare socket that a subclass has opened in a ``connect`` of its own, as those of the public project do: its
    # session is the client's then. Scripts look here, too, to raise a limit of a megabyte, which ours does not have.
    _ws: Any = None
    # The same socket, once a request was sent over it.
    _ws_with_requests: Any = None
    _made_with: tuple[tuple[Any, ...], dict[str, Any]]
    # Tasks of the resets, where the environment is a dataset's; set by AutoEnv, and the same for further sessions.
    _row_cursor: RowCursor | None = None
    # Index of the row of the last reset there.
    _row_index: int | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Note what it is made with, for further ones like it."""
        client = super().__new__(cls)
        client._made_with = (args, kwargs)
        return client

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float | None = 60.0,
        max_message_size_mb: float = 100.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Provider | None = None,
        mode: str | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        capacity_wait_s: float = 0.0,
        arrays: bool = False,
        ssl: SSLContext | str | os.PathLike[str] | None = None,
    ) -> None:
        """Make a client, which connects on its first use.

        The class has all arguments; ``mode`` is ``simulation`` or ``production``.
        """
        if base_url is None and provider is None:
            raise ConfigurationError("A client requires either base_url or provider (starts a server), got neither.")
        if not 0 <= capacity_wait_s < math.inf:
            raise ConfigurationError(f"Expected capacity_wait_s to be a number of seconds, got {capacity_wait_s!r}.")
        if arrays and find_spec("numpy") is None:
            raise ConfigurationError("arrays=True needs NumPy, and it is not installed: pip install numpy")
        self._arrays = arrays
        self._ssl = _ssl_context(ssl)
        self._base_url = None if base_url is None else reachable_url(server_address(base_url))
        self._connect_timeout_s = connect_timeout_s
        self._message_timeout_s = message_timeout_s
        self._max_message_bytes = int(max_message_size_mb * 1024 * 1024)
        self._ping_interval_s = websocket_ping_interval_s
        self._ping_timeout_s = websocket_ping_timeout_s
        self._provider = None if provider is None else as_provider(provider)
        # Further sessions have no provider of their own, and the same server.
        own = self._provider
        self._check_server = own.check_alive if isinstance(own, RuntimeProvider) else None
        self._mode = _checked_mode(mode)
        self._own_headers, self._own_token = headers, token
        self._headers = authorized_headers(headers, token)
        self._has_provider_headers = False
        self._capacity_wait_s = capacity_wait_s
        self._client_session: ClientSession | None = None
        # Whether a first observation was compared with its class; set by the first reset.
        self._compared = False
        self._connecting = LoopLock()
        self._ws_lock = LoopLock()
        # How often a session was ended: one that was being opened meanwhile is ended, too.
        self._endings = 0
        self._parent: Self | None = None
        self._children: set[Self] = set()
        self._vectors: list[VectorEnv[ActT, ObsT, StateT]] = []
        self._facade: SyncEnvClient[ActT, ObsT, StateT] | None = None
        # The headers with which the server's tasks were read, and the client that has read them; set on the first use.
        self._read_tasks: tuple[Mapping[str, str], TaskAPIClient] | None = None

    @abstractmethod
    def _step_payload(self, action: ActT) -> dict[str, Any]:
        """Return the fields that go on the wire for an action."""

    @abstractmethod
    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Make a result from ``{"observation", "reward", "done"[, "metadata"]}``."""

    @abstractmethod
    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        """Make a state from its fields."""

    def __getstate__(self) -> dict[str, Any]:
        """Refuse to be pickled or copied with what belongs to this process.

        Raises:
            TypeError: The client was used.
        """
        if self._connecting.used or self._ws is not None:
            raise TypeError(
                f"This {type(self).__name__} was used, and its session can't be pickled or copied. Pickle a client "
                f"before its first use, or make one in the other process, as in {type(self).__name__}(base_url=...)."
            )
        return vars(self)

    @property
    def base_url(self) -> str | None:
        """Address of the server; ``None`` until a provider has started it."""
        return self._base_url

    # Clients of the public project read the next two where they open a socket of their own.
    @property
    def _ws_url(self) -> str | None:
        return None if self._base_url is None else socket_url(self._base_url)

    @property
    def _connect_timeout(self) -> float:
        return self._connect_timeout_s

    @property
    def session_id(self) -> str | None:
        """Id of the session that is open, as the server's logs and traces have it.

        It is ``None`` where none is open, and on the legacy wire, which tells no ids.
        """
        return None if self._client_session is None else self._client_session.session_id

    @property
    def message_timeout_s(self) -> float | None:
        """Seconds that an answer may take; ``None`` for no limit."""
        return self._message_timeout_s

    @property
    def capacity_wait_s(self) -> float:
        """Seconds to wait in line for a session where every place is taken."""
        return self._capacity_wait_s

    @property
    def mode(self) -> str:
        """``simulation`` or ``production``."""
        return self._mode

    @blocks_outside_loop
    async def connect(self) -> Self:
        """Open the session now instead of with the first call, unless the class opens a socket of its own by ``_ws``.

        Raises:
            ConfigurationError: The address or a header is none.
            ConnectionFailedError: There is no server, or it refused.
            ProviderError: The provider could not start one.
            ServerError: The server opens no session; the subclass says why. The legacy wire tells it with the first
                answer only.
            ServerUnauthorizedError: The server asks for a token, or for another one.
        """
        if self._ws is None and opens_socket(type(self), EnvClient):
            await self._started()
        elif self._ws is None:
            await self._ensure_session()
        return self

    @blocks_outside_loop
    async def disconnect(self) -> None:
        """End the session. The next call opens a new one."""
        self._endings += 1
        session, self._client_session = self._client_session, None
        socket, self._ws = self._ws, None
        if session is not None:
            await session.close()
        if socket is not None:
            await close_raw(socket)

    @blocks_outside_loop
    async def close(self) -> None:
        """End the session and those opened by ``new_session``, ``fork`` and ``vector``; stop the provider's server."""
        if self._parent is not None:
            self._parent._children.discard(self)
        vectors, self._vectors = self._vectors, []
        children, self._children = self._children, set()
        try:
            closing = [*(vector.close() for vector in vectors), *(child.close() for child in children)]
            # A caller that is cancelled here has released all of these clients: they are closed none the less.
            await asyncio.shield(asyncio.gather(*closing, self.disconnect()))
        finally:
            provider, self._provider = self._provider, None
            if provider is not None:
                await run_in_thread(provider.shut_down)

    @blocks_outside_loop
    async def new_session(self) -> Self:
        """Open a further session on the same server; it is closed with this one."""
        if self._ws is None:
            await self._ensure_session()
        child = self._child()
        try:
            await child._ensure_session()
        except BaseException:
            self._children.discard(child)
            raise
        return child

    @blocks_outside_loop
    async def fork(self, count: int = 1) -> list[Self]:
        """Open sessions that continue from where this one stands, each on its own from there.

        Args:
            count: How many.

        Returns:
            Clients of the new sessions, which are closed with this one.

        Raises:
            ConfigurationError: ``count`` is below 1, or the server speaks the legacy wire, which has no fork.
            ServerCapacityError: The server has fewer places left. Nothing was opened.
            ServerExecutionError: The environment can't be forked; the message says what was tried.
            ConnectionFailedError: There is no server.
            ConnectionLostError: The connection went before the answer came, and the session is lost.
            ResponseTimeoutError: No answer came within ``message_timeout_s``.

        Example:
            >>> async with CatchEnv(base_url="http://localhost:8000") as env:  # doctest: +SKIP
            ...     await env.reset(seed=1)
            ...     group = [env, *await env.fork(7)]  # eight that share what has been played
        """
        if count < 1:
            raise ConfigurationError(f"Expected at least 1 session, got {count}.")
        if self._ws is not None:
            raise no_fork()
        session = await self._ensure_session()
        return [self._forked_child(forked) for forked in await session.fork(count, self._message_timeout_s)]

    def _child(self, session: ClientSession | None = None) -> Self:
        """Make a client of another session on the same server, to be closed with this one."""
        child = self._another()
        child._parent, child._client_session = self, session  # the same class
        self._children.add(child)
        return child

    def _forked_child(self, session: ClientSession) -> Self:
        """Make a client of a session that continues from this one's, with what the subclass keeps of the episode."""
        child = self._child(session)
        for name, value in vars(self).items():
            if name not in _OF_EVERY_CLIENT:
                setattr(child, name, _copied(value))
        return child

    def _another(self) -> Self:
        """Make another client of the same server: hooks may keep what they have seen, which is one session's."""
        args, kwargs = self._made_with
        other = type(self)(*args, **kwargs)
        other._base_url, other._headers, other._provider = self._base_url, self._headers, None  # the same class
        other._has_provider_headers = self._has_provider_headers
        other._row_cursor = self._row_cursor
        return other

    def _slot_formats(self, count: int) -> Sequence[WireFormat[ActT, ObsT, StateT]]:
        """Return how each slot of a vector writes its actions and reads its answers: by hooks of its own."""
        return [_Hooks(self._another()) for _ in range(count)]

    def vector(self, count: int, *, autoreset: bool = False) -> Coroutine[Any, Any, VectorEnv[ActT, ObsT, StateT]]:
        """Open many sessions on the server, to be stepped together; they are closed with this client.

        A session of the client's own that has not been used yet gives its place back; the next call opens it again. One
        that was forked from another stays as it is, beside the vector's.

        Args:
            count: How many.
            autoreset: Whether a step resets a session whose episode has ended, instead of stepping it.

        Returns:
            The sessions. Where no event loop runs, it is a ``SyncVectorEnv``, as from ``sync().vector(count)``.

        Raises:
            ConfigurationError: ``count`` is below 1, or the address or a header is none.
            ConnectionFailedError: There is no server, or it refused.
            ServerError: The server grants fewer sessions, or could not make the environments.

        Example:
            >>> async with CatchEnv(base_url="http://localhost:8000") as env:  # doctest: +SKIP
            ...     games = await env.vector(64)
            ...     results = await games.reset(seeds=range(64))
        """
        if in_event_loop():
            return self._open_vector(count, autoreset)
        blocking = self.sync().vector(count, autoreset=autoreset)
        return cast("Coroutine[Any, Any, VectorEnv[ActT, ObsT, StateT]]", blocking)

    @property
    def _is_unused(self) -> bool:
        """Return whether a session is open that was sent no request."""
        if self._ws is not None:
            return self._ws is not self._ws_with_requests
        return self._client_session is not None and not self._client_session.has_requests

    async def _open_vector(self, count: int, autoreset: bool) -> VectorEnv[ActT, ObsT, StateT]:
        if count < 1:
            raise ConfigurationError(f"Expected at least 1 slot, got {count}.")
        formats = self._slot_formats(count)
        vector = VectorEnv(formats, self._message_timeout_s, self._capacity_wait_s, autoreset=autoreset)
        self._vectors.append(vector)  # now: close() ends those that are being opened, too
        try:
            async with self._connecting.here():
                endpoint = await self._endpoint()
            if self._is_unused:  # ``async with`` has opened it, and its slot may be wanted
                await self.disconnect()
            await vector.open(endpoint)
        finally:
            self._vectors = [each for each in self._vectors if not each.closed]
        return vector

    @blocks_outside_loop
    async def schemas(self) -> dict[str, dict[str, Any]]:
        """Read the JSON Schemas that the server publishes.

        Returns:
            The schemas of ``action``, ``observation`` and ``state``.

        Raises:
            ConnectionFailedError: There is no server, or it has no schemas.
            ProviderError: The provider could not start one.
            ServerUnauthorizedError: The server asks for a token, or for another one.
        """
        await self._started()
        assert self._base_url is not None
        timeout_s = None if self._message_timeout_s is None else self._connect_timeout_s + self._message_timeout_s
        return await asyncio.to_thread(fetch_schemas, self._base_url, self._headers, timeout_s, self._ssl)

    async def _metadata(self) -> Any:
        """Read the name and description that the server publishes; ``None`` where it has none."""
        await self._started()
        assert self._base_url is not None
        return await asyncio.to_thread(fetch_metadata, self._base_url, self._headers, self._ssl)

    @blocks_outside_loop
    async def task_api(self) -> TaskAPIClient:
        """Return the client of the server's Task API, which blocks and needs no session; it has ``iter_tasks``.

        Raises:
            ProviderError: The provider could not start the server.
        """
        await self._started()
        assert self._base_url is not None
        if self._read_tasks is None or self._read_tasks[0] != self._headers:
            self._read_tasks = self._headers, TaskAPIClient(self._base_url, headers=self._headers, ssl=self._ssl)
        return self._read_tasks[1]

    @blocks_outside_loop
    async def splits(self) -> list[str]:
        """List the names of the splits of tasks, none where the environment lists none; raises as ``tasks`` does."""
        return await asyncio.to_thread((await self.task_api()).split_names)

    @blocks_outside_loop
    async def num_tasks(self, split: str = "train") -> int:
        """Count the tasks of a split; raises as ``tasks`` does, also where the tasks are not counted.

        Args:
            split: Name of the split.
        """
        return await asyncio.to_thread((await self.task_api()).num_tasks, split)

    @blocks_outside_loop
    async def task(self, split: str, index: int) -> dict[str, Any]:
        """Return what ``reset`` is passed for a task; raises as ``tasks`` does, also where there is no such task.

        Args:
            split: Name of its split.
            index: Its index there, from 0.
        """
        return await asyncio.to_thread((await self.task_api()).get_task, split, index)

    @blocks_outside_loop
    async def task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        """List the tasks of a split from one index up to another, fewer where the split ends; raises as ``tasks`` does.

        Args:
            split: Name of the split.
            start: Index of the first one.
            stop: Index after the last one; needed where the tasks are not counted.
        """
        return await asyncio.to_thread((await self.task_api()).get_task_range, split, start, stop)

    @blocks_outside_loop
    async def tasks(self, split: str = "train") -> list[dict[str, Any]]:
        """List the tasks of a split, where the environment lists them.

        Args:
            split: Name of the split.

        Returns:
            What ``reset`` is passed for each task.

        Raises:
            ConfigurationError: The environment lists no tasks, or there is no such split. It is a
                ``NotImplementedError`` too where there are no lists, and an ``IndexError`` where there is no such task.
            ConnectionFailedError: There is no server.
            ProviderError: The provider could not start one.
            ServerUnauthorizedError: The server asks for a token, or for another one.

        Example:
            >>> async with GenericEnvClient(base_url="http://localhost:8000") as env:  # doctest: +SKIP
            ...     for task in await env.tasks("test"):
            ...         await env.reset(**task)
        """
        return await asyncio.to_thread((await self.task_api()).list_tasks, split)

    def take_tasks(self, rows: RowCursor) -> None:
        """Have each reset pass the next row of a dataset, or that of an ``index``; ``AutoEnv`` calls this.

        Args:
            rows: The rows, which sessions that are opened from this one share.
        """
        self._row_cursor = rows

    @property
    def dataset(self) -> Any:
        """Rows of the dataset's split whose environment this is, as ``AutoEnv`` made it; ``None`` for any other."""
        return None if self._row_cursor is None else self._row_cursor.rows

    @property
    def dataset_ref(self) -> str | None:
        """Reference of that dataset's environment, on the Hub with its commit; ``None`` for any other."""
        return None if self._row_cursor is None else self._row_cursor.reference

    @property
    def dataset_index(self) -> int | None:
        """Index of the row of the episode; ``None`` before the first reset, and for any other environment."""
        return self._row_index

    @property
    def current_row(self) -> Mapping[str, Any] | None:
        """The row of the episode, with all its columns; ``None`` before the first reset."""
        if self._row_cursor is None or self._row_index is None:
            return None
        return self._row_cursor.row(self._row_index)

    def reset(self, /, **kwargs: Any) -> Coroutine[Any, Any, StepResult[ObsT]]:
        """Start an episode.

        Args:
            **kwargs: ``seed``, ``episode_id`` and the task's parameters, as the environment's ``reset`` takes them. For
                an environment of a dataset these are the next row's, or the row's at ``index``.

        Returns:
            The first observation.

        Raises:
            ServerError: The server refused or the environment failed; the subclass says how.
            ConnectionFailedError: There is no server.
            ConnectionLostError: The connection went before the answer came.
            ResponseTimeoutError: No answer came within ``message_timeout_s``.
            InvalidAnswerError: What came is no answer, or does not fit the client's classes.
        """
        if self._row_cursor is not None:
            self._row_index = self._row_cursor.choose(kwargs.pop("index", None))
            kwargs = self._row_cursor.arguments(self._row_index, kwargs)
        return self._exchange(RESET, to_json(kwargs, fallback=plain_value), MessageType.OBSERVATION, self._parse_reset)

    def _parse_reset(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        """Make the result of a reset; log a warning, once, where it seems to be another environment's."""
        result = self._parse_result(payload)
        if not self._compared:
            self._compared = True
            warning = foreign_observation_warning(payload.get("observation"), result.observation)
            if warning is not None:
                logger.warning("%s at %s: %s", type(self).__name__, self._base_url, warning)
        return result

    def step(self, action: ActT, **kwargs: Any) -> Coroutine[Any, Any, StepResult[ObsT]]:
        """Do one action.

        Args:
            action: The action.
            **kwargs: Not sent, since the wire has no place for it; accepted because the public client does.

        Returns:
            Observation, reward and done flag.

        Raises:
            ServerError: The action was refused or the environment failed; the subclass says how.
            ConnectionFailedError: There is no server.
            ConnectionLostError: The connection went before the answer came; the step may have happened.
            ResponseTimeoutError: No answer came within ``message_timeout_s``; the step may have happened.
            InvalidAnswerError: What came is no answer, or does not fit the client's classes.
        """
        data = to_json(self._step_payload(action), fallback=plain_value)
        return self._exchange(b"step", data, MessageType.OBSERVATION, self._parse_result)

    @blocks_outside_loop
    async def state(self) -> StateT:
        """Read where the episode stands.

        Raises:
            ServerError: The environment failed.
            ConnectionLostError: The connection went before the answer came.
            ResponseTimeoutError: No answer came within ``message_timeout_s``.
            InvalidAnswerError: What came is no answer, or does not fit the client's classes.
        """
        return await self._exchange_async(b"state", None, MessageType.STATE, self._parse_state)

    @blocks_outside_loop
    async def render(self) -> Picture | None:
        """Have the environment show where the episode stands.

        Returns:
            What its ``render`` gives: text, HTML, SVG or an image; ``None`` where it gives nothing.

        Raises:
            RequestRejectedError: The server speaks the legacy wire only, which has no pictures.
            ServerError: The environment failed.
            ConnectionLostError: The connection went before the answer came.
            ResponseTimeoutError: No answer came within ``message_timeout_s``.
        """
        return await self._exchange_async(b"render", None, MessageType.PICTURE, _read_picture)

    def sync(self) -> SyncEnvClient[ActT, ObsT, StateT]:
        """Return a facade with the same methods, blocking and typed so."""
        if self._facade is None:
            self._facade = SyncEnvClient(self)
        return self._facade

    async def __aenter__(self) -> Self:
        """Connect."""
        await awaited(self.connect)  # which a subclass may have extended, or replaced by one that blocks
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        await awaited(self.close)

    def __enter__(self) -> Self:
        """Connect, blocking."""
        wait_for(self.connect)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close, blocking."""
        wait_for(self.close)

    def _exchange(
        self, kind: bytes, data: bytes | None, expected: str, parse: Callable[[dict[str, Any]], ResultT]
    ) -> Coroutine[Any, Any, ResultT]:
        """Send a request and parse its answer, following the one rule for when a call blocks."""
        if in_event_loop():
            return self._exchange_async(kind, data, expected, parse)
        return cast("Coroutine[Any, Any, ResultT]", self._exchange_blocking(kind, data, expected, parse))

    async def _exchange_async(
        self, kind: bytes, data: bytes | None, expected: str, parse: Callable[[dict[str, Any]], ResultT]
    ) -> ResultT:
        if self._ws is not None:
            async with self._ws_lock.here():  # of calls that come together, each reads its own answer
                if self._ws is not None:
                    session, self._client_session = self._client_session, None
                    if session is not None:  # opened before the subclass made its socket
                        await session.close()
                    return read_answer(None, await self._exchange_raw(kind, data), expected, parse)
        session = self._session_here() or await self._ensure_session(kind)
        try:
            message = await session.exchange(kind, data, self._message_timeout_s)
        except RequestNotSentError:
            if kind != RESET:
                raise
            session = await self._ensure_session(kind)
            message = await session.exchange(kind, data, self._message_timeout_s)
        return read_answer(session, message, expected, parse)

    async def _exchange_raw(self, kind: bytes, data: bytes | None) -> Any:
        """Send a request over the socket that a subclass has opened; one that gives no answer is let go."""
        socket = self._ws_with_requests = self._ws
        try:
            return await exchange_raw(socket, kind, data, self._message_timeout_s)
        except (ConnectionLostError, ResponseTimeoutError, asyncio.CancelledError):
            self._ws = None
            raise

    def _exchange_blocking(
        self, kind: bytes, data: bytes | None, expected: str, parse: Callable[[dict[str, Any]], ResultT]
    ) -> ResultT:
        if self._ws is not None:
            return background_loop().run(self._exchange_async(kind, data, expected, parse))
        try:
            session, message = self._request_blocking(kind, data)
        except RequestNotSentError:
            if kind != RESET:
                raise
            session, message = self._request_blocking(kind, data)
        return read_answer(session, message, expected, parse)

    def _request_blocking(self, kind: bytes, data: bytes | None) -> tuple[ClientSession, Any]:
        """Hand a request to the loop's thread and do all else in this one: no task, no future."""
        background = background_loop()
        session = self._client_session
        if session is None or not session.answers or session.connection.loop is not background.loop:
            session = background.run(self._ensure_session(kind))
        answer = ThreadWaiter()
        background.call(session.send_request, kind, data, answer)
        message = answer.wait(self._message_timeout_s)
        if message is None:
            session.usable = False  # at once: this thread's next call must not find it
            background.call(session.abort)
            raise timed_out(self._message_timeout_s)
        return session, message

    async def _ensure_session(self, kind: bytes | None = None) -> ClientSession:
        """Return the session, opening one where there is none that answers.

        Args:
            kind: The ``type`` of the request that follows.

        Raises:
            OpenEnvError: The last session was lost, and no call has reported it. A reset need not report it.
        """
        session = self._session_here()
        if session is None:
            async with self._connecting.here():  # of calls that come together, the first one connects
                session = self._session_here()
                if session is None:
                    loss = None if self._client_session is None else self._client_session.unreported_loss()
                    if loss is not None and kind != RESET:
                        raise loss
                    session = self._client_session = await self._open_session()
        return session

    def _session_here(self) -> ClientSession | None:
        """Return the session if it answers in this loop; let go of one whose loop has ended."""
        return session_here(self._client_session, type(self).__name__)

    async def _open_session(self) -> ClientSession:
        endings = self._endings
        endpoint = await self._endpoint()
        try:
            session = await open_session(endpoint, self._message_timeout_s, self._capacity_wait_s)
        except ConnectionFailedError as error:
            raise error.with_traceback(None) from None  # its sentence says all; the frames are of sockets
        if self._endings != endings:  # by close() or disconnect(), which saw no session
            await session.close()
            raise given_up()
        return session

    async def _started(self) -> None:
        """Have the server started if that is still to be done."""
        async with self._connecting.here():
            await self._endpoint()

    def _takes_arrays(self) -> bool:
        """Return whether arrays and files are to come as bytes."""
        return self._arrays

    async def _endpoint(self) -> Endpoint:
        """Say where to connect to, having the server started if that is still to be done; needs the lock."""
        if self._base_url is None:
            assert self._provider is not None
            self._base_url = await start_in_thread(self._provider.launch, self._provider.shut_down)
        if self._provider is not None:
            self._headers = self._headers_for(self._provider)
            self._has_provider_headers = bool(self._provider.headers)
        return Endpoint(
            url=socket_url(self._base_url),
            connect_timeout_s=self._connect_timeout_s,
            max_message_bytes=self._max_message_bytes,
            ping_interval_s=self._ping_interval_s,
            ping_timeout_s=self._ping_timeout_s,
            headers=tuple(self._headers.items()),
            arrays=self._takes_arrays(),
            same_origin_only=self._has_provider_headers,
            check_server=self._check_server,
            ssl=self._ssl,
        )

    def _headers_for(self, provider: Provider) -> dict[str, str]:
        token = provider.token if self._own_token is None else self._own_token
        return authorized_headers({**provider.headers, **(self._own_headers or {})}, token)


class FormattedClient(EnvClient[ActT, ObsT, StateT]):
    """A client whose three hooks are those of a format without state."""

    @property
    @abstractmethod
    def _wire_format(self) -> WireFormat[ActT, ObsT, StateT]:
        """How actions, results and states look on the wire."""

    def _step_payload(self, action: ActT) -> dict[str, Any]:
        return self._wire_format.step_payload(action)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        return self._wire_format.parse_result(payload)

    def _parse_state(self, payload: dict[str, Any]) -> StateT:
        return self._wire_format.parse_state(payload)

    def _slot_formats(self, count: int) -> Sequence[WireFormat[ActT, ObsT, StateT]]:
        cls = type(self)
        hooks = (cls._step_payload, cls._parse_result)
        if hooks == (FormattedClient._step_payload, FormattedClient._parse_result):
            return [self._wire_format] * count
        return super()._slot_formats(count)  # a subclass's hooks may keep what they have seen


class _Hooks(WireFormat[ActT, ObsT, StateT]):
    """The format of one session of a client whose hooks may keep state.

    Args:
        client: A client that is used for nothing else.
    """

    def __init__(self, client: EnvClient[ActT, ObsT, StateT]) -> None:
        self._client = client

    def step_payload(self, action: ActT) -> dict[str, Any]:
        return self._client._step_payload(action)

    def parse_result(self, payload: dict[str, Any]) -> StepResult[ObsT]:
        return self._client._parse_result(payload)

    def parse_state(self, payload: dict[str, Any]) -> StateT:
        return self._client._parse_state(payload)


def authorized_headers(headers: Mapping[str, str] | None, token: str | None) -> dict[str, str]:
    """Return a client's headers with what authorizes it.

    Args:
        headers: Headers; an ``Authorization`` among them stays, as a proxy may want it. The token goes beside it then.
        token: The token; ``None`` for what ``OPENENV_TOKEN`` says, and empty for none.

    Raises:
        ConfigurationError: The token can't stand in a header.
    """
    given = dict(headers or {})
    names = {name.lower() for name in given}
    is_taken = "authorization" in names
    if token is None:  # the variable's may be meant for another server
        token = "" if is_taken else os.environ.get(TOKEN_VARIABLE, "")
    if not token or (is_taken and API_KEY_HEADER.lower() in names):
        return given
    if _TOKEN.fullmatch(token) is None:
        raise ConfigurationError(
            "Expected the token (OPENENV_TOKEN) to be visible ASCII characters without spaces; one of its "
            f"{len(token)} characters is none."
        )
    return {**given, API_KEY_HEADER: token} if is_taken else {**given, "Authorization": f"Bearer {token}"}


def _ssl_context(given: SSLContext | str | os.PathLike[str] | None) -> SSLContext | None:
    """Return a context that trusts the certificates of a file beside the system's; a context or ``None`` as it is."""
    if given is None or isinstance(given, SSLContext):
        return given
    context = create_default_context()
    try:
        context.load_verify_locations(given)
    except (OSError, SSLError, TypeError) as error:
        raise ConfigurationError(
            f"Expected ssl to be an ssl.SSLContext or the path of certificates in PEM, got {given!r}: {error}"
        ) from error
    return context


def _read_picture(data: dict[str, Any]) -> Picture | None:
    if not data:
        return None
    content = data.get("content")
    if isinstance(content, bytes):
        return ImageFile(str(data.get("media_type")), content).picture
    return Picture.model_validate(data)


def _copied(value: Any) -> Any:
    """Copy what a subclass keeps, with all that is in it; what can't be copied is shared."""
    try:
        return copy.deepcopy(value)
    except TypeError:
        return value


def _checked_mode(mode: str | None) -> str:
    given = os.environ.get(_MODE_VARIABLE, "simulation") if mode is None else mode
    if given.lower() not in _MODES:
        where = f" in {_MODE_VARIABLE}" if mode is None else ""
        raise ConfigurationError(f"Invalid mode{where}: expected 'simulation' or 'production', got {given!r}.")
    return given.lower()
