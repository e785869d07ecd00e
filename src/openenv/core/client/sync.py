"""The blocking facade of a client."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Generic, Protocol, Self, cast

from openenv.core.client.blocking import background_loop, wait_for
from openenv.core.client.results import ActT, ObsT, StateT, StepResult
from openenv.core.client.vector import SyncVectorEnv, VectorEnv
from openenv.core.wire.results import Picture


class AsyncClient(Protocol[ActT, ObsT, StateT]):
    """What the facade needs of a client; see ``EnvClient``, which is one."""

    def connect(self) -> Coroutine[Any, Any, object]:
        """Open the session."""

    def disconnect(self) -> Coroutine[Any, Any, None]:
        """End the session."""

    def close(self) -> Coroutine[Any, Any, None]:
        """End the session and those opened from it."""

    def reset(self, /, **kwargs: Any) -> Coroutine[Any, Any, StepResult[ObsT]]:
        """Start an episode."""

    def step(self, action: ActT, **kwargs: Any) -> Coroutine[Any, Any, StepResult[ObsT]]:
        """Do one action."""

    def state(self) -> Coroutine[Any, Any, StateT]:
        """Read where the episode stands."""

    def render(self) -> Coroutine[Any, Any, Picture | None]:
        """Have the environment show where the episode stands."""

    def new_session(self) -> "Coroutine[Any, Any, AsyncClient[ActT, ObsT, StateT]]":
        """Open a further session."""

    def fork(self, count: int = 1) -> "Coroutine[Any, Any, Sequence[AsyncClient[ActT, ObsT, StateT]]]":
        """Open sessions that continue from where this one stands."""

    def _open_vector(self, count: int, autoreset: bool) -> Coroutine[Any, Any, VectorEnv[ActT, ObsT, StateT]]:
        """Open many sessions, to be stepped together."""

    def sync(self) -> "SyncEnvClient[ActT, ObsT, StateT]":
        """Return the facade."""


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """A client whose methods block, also inside a running event loop such as a notebook's.

    All of them in a process share one loop in one thread. Attributes that it does not have itself are those of the
    client, with coroutine functions made blocking::

        with EchoEnv(base_url="http://localhost:8000").sync() as env:
            result = env.reset()

    Args:
        async_client: The client to drive.
    """

    def __init__(self, async_client: AsyncClient[ActT, ObsT, StateT]) -> None:
        self._client = async_client

    @property
    def async_client(self) -> Any:
        """The client that it drives."""
        return self._client

    def connect(self) -> Self:
        """Open the session now instead of with the first call."""
        wait_for(self._client.connect)
        return self

    def disconnect(self) -> None:
        """End the session. The next call opens a new one."""
        wait_for(self._client.disconnect)

    def reset(self, /, **kwargs: Any) -> StepResult[ObsT]:
        """Start an episode; see ``EnvClient.reset``."""
        return cast("StepResult[ObsT]", wait_for(self._client.reset, **kwargs))

    def step(self, action: ActT, **kwargs: Any) -> StepResult[ObsT]:
        """Do one action; see ``EnvClient.step``."""
        return cast("StepResult[ObsT]", wait_for(self._client.step, action, **kwargs))

    def state(self) -> StateT:
        """Read where the episode stands."""
        return cast("StateT", wait_for(self._client.state))

    def render(self) -> Picture | None:
        """Have the environment show where the episode stands; see ``EnvClient.render``."""
        return cast("Picture | None", wait_for(self._client.render))

    def close(self) -> None:
        """End the session, and the server if a provider started it."""
        wait_for(self._client.close)

    def new_session(self) -> "SyncEnvClient[ActT, ObsT, StateT]":
        """Open a further session on the same server; it is closed with this one."""
        child: AsyncClient[ActT, ObsT, StateT] = wait_for(self._client.new_session)
        return child.sync()

    def fork(self, count: int = 1) -> "list[SyncEnvClient[ActT, ObsT, StateT]]":
        """Open sessions that continue from where this one stands; see ``EnvClient.fork``."""
        children: list[AsyncClient[ActT, ObsT, StateT]] = wait_for(self._client.fork, count)
        return [child.sync() for child in children]

    def vector(self, count: int, *, autoreset: bool = False) -> SyncVectorEnv[ActT, ObsT, StateT]:
        """Open many sessions on the server, to be stepped together; see ``EnvClient.vector``."""
        vector: VectorEnv[ActT, ObsT, StateT] = background_loop().run(self._client._open_vector(count, autoreset))
        return SyncVectorEnv(vector)

    def __enter__(self) -> Self:
        """Connect."""
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def __getattr__(self, name: str) -> Any:
        """Hand out an attribute of the client, a coroutine function made blocking."""
        if name == "_client":  # not set yet: unpickling and copying ask for attributes before __init__
            raise AttributeError(name)
        value = getattr(self._client, name)
        function: Callable[..., Any] = getattr(value, "__wrapped__", value)
        return partial(wait_for, value) if iscoroutinefunction(function) else value
