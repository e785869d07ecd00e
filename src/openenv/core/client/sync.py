"""The blocking facade of a client."""

from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from openenv.core.client.blocking import background_loop, wait_for
from openenv.core.client.client import EnvClient
from openenv.core.client.results import ActT, ObsT, StateT, StepResult
from openenv.core.client.vector import SyncVectorEnv, VectorEnv
from openenv.core.wire.results import Picture

ResultT = TypeVar("ResultT")


class SyncEnvClient(Generic[ActT, ObsT, StateT]):
    """A client whose methods block, also inside a running event loop such as a notebook's.

    All of them in a process share one loop in one thread. Attributes that it does not have itself are those of the
    client, with coroutine functions made blocking::

        with EchoEnv(base_url="http://localhost:8000").sync() as env:
            result = env.reset()

    Args:
        async_client: The client to drive.
    """

    def __init__(self, async_client: EnvClient[ActT, ObsT, StateT]) -> None:
        self.async_client = async_client

    def connect(self) -> Self:
        """Open the session now instead of with the first call."""
        wait_for(self.async_client.connect)
        return self

    def disconnect(self) -> None:
        """End the session. The next call opens a new one."""
        wait_for(self.async_client.disconnect)

    def reset(self, /, **kwargs: Any) -> StepResult[ObsT]:
        """Start an episode; see ``EnvClient.reset``."""
        return cast("StepResult[ObsT]", wait_for(self.async_client.reset, **kwargs))

    def step(self, action: ActT, **kwargs: Any) -> StepResult[ObsT]:
        """Do one action; see ``EnvClient.step``."""
        return cast("StepResult[ObsT]", wait_for(self.async_client.step, action, **kwargs))

    def state(self) -> StateT:
        """Read where the episode stands."""
        return cast("StateT", wait_for(self.async_client.state))

    def render(self) -> Picture | None:
        """Have the environment show where the episode stands; see ``EnvClient.render``."""
        return cast("Picture | None", wait_for(self.async_client.render))

    def close(self) -> None:
        """End the session, and the server if a provider started it."""
        wait_for(self.async_client.close)

    def new_session(self) -> "SyncEnvClient[ActT, ObsT, StateT]":
        """Open a further session on the same server; it is closed with this one."""
        child: EnvClient[ActT, ObsT, StateT] = wait_for(self.async_client.new_session)
        return child.sync()

    def fork(self, count: int = 1) -> "list[SyncEnvClient[ActT, ObsT, StateT]]":
        """Open sessions that continue from where this one stands; see ``EnvClient.fork``."""
        children: list[EnvClient[ActT, ObsT, StateT]] = wait_for(self.async_client.fork, count)
        return [child.sync() for child in children]

    def vector(self, count: int, *, autoreset: bool = False) -> SyncVectorEnv[ActT, ObsT, StateT]:
        """Open many sessions on the server, to be stepped together; see ``EnvClient.vector``."""
        vector: VectorEnv[ActT, ObsT, StateT] = background_loop().run(self.async_client._open_vector(count, autoreset))
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
        if name == "async_client":  # not set yet: unpickling and copying ask for attributes before __init__
            raise AttributeError(name)
        value = getattr(self.async_client, name)
        function: Callable[..., Any] = getattr(value, "__wrapped__", value)
        return partial(wait_for, value) if iscoroutinefunction(function) else value
