"""Clients of the public form, whose hooks keep what they have seen: each session has an instance of its own."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
import websockets
from pydantic import Field
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Gate, GatedEnvironment, Total
from tests.support.servers import RunningServer
from websockets.sync.client import connect as connect_blocking

from openenv.core.client.client import _OF_EVERY_CLIENT, EnvClient
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.results import StepResult
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.types import Observation
from openenv.core.exceptions import (
    ClientModeError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    RequestRejectedError,
    ResponseTimeoutError,
    ServerCapacityError,
)


class RememberingEnv(EnvClient[int, int, dict[str, Any]]):
    """Notes what went out and what came back, and sums it up in its own way."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sent: list[int] = []
        self.seen: list[int] = []

    def _step_payload(self, action: int) -> dict[str, Any]:
        self.sent.append(action)
        return {"amount": action}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[int]:
        total = payload["observation"]["total"]
        if not total:
            self.sent.clear()
            self.seen.clear()
        self.seen.append(total)
        return StepResult(sum(self.sent), payload["reward"], payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(create_fastapi_app(CounterEnvironment, max_concurrent_envs=16)) as server:
        yield server


def test_each_slot_of_a_vector_has_hooks_of_its_own(server: RunningServer) -> None:
    with RememberingEnv(base_url=server.url).sync() as client, client.vector(4) as vector:
        vector.reset()
        vector.step([1, 2, 3, None])
        results = vector.step([1, 1, None, 1])
        seen = [result.observation if isinstance(result, StepResult) else result for result in results]
        assert seen == [2, 3, None, 1]
        assert isinstance(client.async_client, RememberingEnv)
        assert client.async_client.sent == []


async def test_a_further_session_has_hooks_of_its_own_and_a_fork_goes_on(server: RunningServer) -> None:
    async with RememberingEnv(base_url=server.url) as client:
        await client.reset()
        await client.step(2)
        other = await client.new_session()
        assert other.sent == []
        await other.reset()
        await other.step(1)
        (fork,) = await client.fork()
        assert (await fork.step(1)).observation == 3
        assert [client.sent, other.sent, fork.sent] == [[2], [1], [2, 1]]


def test_what_is_of_every_client_is_known_by_name() -> None:
    assert vars(GenericEnvClient(base_url="http://127.0.0.1:1")).keys() == _OF_EVERY_CLIENT


class SocketEnv(RememberingEnv):
    """Opens a socket of its own and notes that it connects, as clients of the public project do."""

    connected = 0

    async def connect(self) -> Any:
        self.connected += 1
        return await super().connect()

    async def direct_reset(self) -> Any:
        assert self._ws_url is not None
        async with websockets.connect(self._ws_url, open_timeout=self._connect_timeout) as socket:
            await socket.send('{"type": "reset", "data": {}}')
            return json.loads(await socket.recv())


async def test_a_client_with_a_socket_of_its_own(server: RunningServer) -> None:
    async with SocketEnv(base_url=server.url) as env:
        assert env.connected == 1
        assert (await env.direct_reset())["data"]["observation"]["total"] == 0


class BlockingSocketEnv(RememberingEnv):
    """Connects by itself and blocks, and leaves the requests to the client."""

    def connect(self) -> Any:
        if self._ws is None:
            connecting = connect_blocking(str(self._ws_url), open_timeout=self._connect_timeout, ping_timeout=120)
            self._ws = connecting.__enter__()
        return self


class AsyncSocketEnv(RememberingEnv):
    """The same in a coroutine, with the frame that ends a session when it is closed."""

    async def connect(self) -> Any:
        if self._ws is None:
            self._ws = await websockets.connect(str(self._ws_url), open_timeout=self._connect_timeout)
        return self

    async def close(self) -> None:
        if self._ws is not None:
            await self._ws.send('{"type": "close"}')
        await super().close()


SOCKET_CLIENTS = (BlockingSocketEnv, AsyncSocketEnv)


@pytest.fixture
def small_server(serve: Serve) -> RunningServer:
    """Serve one session at a time, so that a second one beside it is refused."""
    return serve(max_concurrent_envs=1)


@pytest.mark.parametrize("client_class", SOCKET_CLIENTS)
def test_a_socket_of_the_subclass_s_making_is_used(small_server: RunningServer, client_class: type[Any]) -> None:
    with client_class(base_url=small_server.url) as env:
        env.reset(seed=3)
        assert env.step(2).observation == 2
        assert env.state()["step_count"] == 1
        small_server.wait_for_sessions(1)
    small_server.wait_for_sessions(0)
    with client_class(base_url=small_server.url).sync() as env:
        assert env.reset().observation == 0


@pytest.mark.parametrize("client_class", SOCKET_CLIENTS)
async def test_and_in_a_running_loop(small_server: RunningServer, client_class: type[Any]) -> None:
    async with client_class(base_url=small_server.url) as env:
        await env.reset()
        assert (await env.step(2)).observation == 2
        with pytest.raises(RequestRejectedError):
            await env.step("much")
        with pytest.raises(ServerCapacityError):
            await (await env.new_session()).reset()
        with pytest.raises(ConfigurationError, match="legacy wire"):
            await env.fork()
        await env.disconnect()
        small_server.wait_for_sessions(0)
        assert (await env.reset()).observation == 0, "the next call opens a session"


class ResettingEnv(RememberingEnv):
    """Opens its socket in ``reset`` alone."""

    async def reset(self, **arguments: Any) -> Any:
        if self._ws is None:
            self._ws = await websockets.connect(str(self._ws_url))
        return await super().reset(**arguments)


class BlockingResettingEnv(RememberingEnv):
    """The same, blocking, in a method that ``reset`` calls, with a request of its own."""

    def reset(self, **arguments: Any) -> Any:
        self._hello()
        return super().reset(**arguments)

    def _hello(self) -> None:
        self._ws = connect_blocking(str(self._ws_url)).__enter__()
        self._ws.send('{"type": "state"}')
        assert json.loads(self._ws.recv())["type"] == "state"


class InheritingEnv(ResettingEnv):
    """The same as its base, and extends ``connect``."""

    async def connect(self) -> Any:
        return await super().connect()


LATE_SOCKET_CLIENTS = (ResettingEnv, BlockingResettingEnv, InheritingEnv)


@pytest.mark.parametrize("client_class", LATE_SOCKET_CLIENTS)
async def test_a_socket_that_only_reset_opens_is_the_only_session(
    small_server: RunningServer, client_class: type[Any]
) -> None:
    async with client_class(base_url=small_server.url) as env:
        assert (await env.reset()).observation == 0
        assert (await env.step(2)).observation == 2
        small_server.wait_for_sessions(1)
    small_server.wait_for_sessions(0)


def test_and_outside_a_loop(small_server: RunningServer) -> None:
    client: Any = BlockingResettingEnv(base_url=small_server.url)
    with client as env:
        assert env.reset().observation == 0
        assert env.step(2).observation == 2
        small_server.wait_for_sessions(1)
    small_server.wait_for_sessions(0)


async def test_a_session_that_was_opened_before_the_socket_is_closed(serve: Serve) -> None:
    server = serve(max_concurrent_envs=2)
    async with ResettingEnv(base_url=server.url) as env:
        await env.state()
        before = env.session_id
        assert (await env.reset()).observation == 0
        assert (before is not None, env.session_id) == (True, None)
        server.wait_for_sessions(1)


def test_a_subclass_that_only_reads_the_socket_connects_at_once(small_server: RunningServer) -> None:
    class ReadingEnv(RememberingEnv):
        def limit(self) -> Any:
            return self._ws

    with ReadingEnv(base_url=small_server.url):
        small_server.wait_for_sessions(1)


@pytest.mark.parametrize("client_class", SOCKET_CLIENTS)
async def test_calls_that_come_together_take_turns(small_server: RunningServer, client_class: type[Any]) -> None:
    async with client_class(base_url=small_server.url) as env:
        *_, state = await asyncio.gather(env.reset(), *(env.step(1) for _ in range(4)), env.state())
        assert env.seen == [0, 1, 2, 3, 4]
        assert state["step_count"] == 4


@pytest.mark.parametrize("client_class", SOCKET_CLIENTS)
async def test_one_that_was_not_used_leaves_its_slot_to_a_vector(
    small_server: RunningServer, client_class: type[Any]
) -> None:
    async with client_class(base_url=small_server.url) as env:
        games = await env.vector(1)
        await games.reset()
        await games.close()
        small_server.wait_for_sessions(0)
        await env.connect()
        await env.reset()
        with pytest.raises(ServerCapacityError):
            await env.vector(1)
        assert (await env.step(2)).observation == 2, "one that was used goes on"


@pytest.mark.parametrize("client_class", SOCKET_CLIENTS)
async def test_when_it_ends_the_call_says_so_and_the_next_one_connects_anew(
    small_server: RunningServer, client_class: type[Any]
) -> None:
    async with client_class(base_url=small_server.url) as env:
        await env.reset()
        small_server.stop()
        with pytest.raises(ConnectionLostError, match="own socket ended"):
            await env.step(1)
        with pytest.raises(ConnectionFailedError):
            await env.reset()


@pytest.mark.parametrize("client_class", SOCKET_CLIENTS)
async def test_an_answer_that_does_not_come_in_time(serve: Serve, gate: Gate, client_class: type[Any]) -> None:
    server = serve(lambda: GatedEnvironment(gate), Add, Total)
    async with client_class(base_url=server.url, message_timeout_s=0.1) as env:
        with pytest.raises(ResponseTimeoutError, match="message_timeout_s"):
            await env.reset(episode_id="held")
        assert env._ws is None


async def test_a_socket_of_another_loop_is_refused(server: RunningServer) -> None:
    client: Any = AsyncSocketEnv(base_url=server.url)
    async with client as env:
        with pytest.raises(ClientModeError, match="another event loop"):
            await asyncio.to_thread(env.reset)


class Transcript(Observation):
    """What a game says, with a default for everything."""

    prompt: str = ""
    messages: list[str] = Field(default_factory=list)


class TranscriptEnv(EnvClient[int, Transcript, dict[str, Any]]):
    """Reads the observations of a game by ``get``, as public clients do."""

    def _step_payload(self, action: int) -> dict[str, Any]:
        return {"amount": action}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Transcript]:
        shown = payload.get("observation", {})
        read = Transcript(prompt=shown.get("prompt", ""), messages=shown.get("messages", []))
        return StepResult(read, payload["reward"], payload["done"])

    def _parse_state(self, payload: dict[str, Any]) -> dict[str, Any]:
        return payload


class GameEnvironment(CounterEnvironment):
    def reset(self, seed: int | None = None, **task: Any) -> Any:  # type: ignore[override]
        super().reset(seed=seed)
        return Transcript(messages=["begin"])


def test_an_observation_of_another_environment_is_warned_of_once(
    server: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    with TranscriptEnv(base_url=server.url).sync() as client:
        for _ in range(2):
            with pytest.raises(IndexError):
                client.reset().observation.messages[0]
    (message,) = [record.message for record in caplog.records if "another environment's" in record.message]
    assert message.startswith(f"TranscriptEnv at {server.url}: the server's observation has the fields total, ")
    assert "and Transcript has none of them but messages, prompt." in message


def test_an_observation_with_a_field_in_common_is_no_other_s(caplog: pytest.LogCaptureFixture) -> None:
    app = create_fastapi_app(GameEnvironment, Add, Transcript)
    with RunningServer(app) as game, TranscriptEnv(base_url=game.url).sync() as client:
        assert client.reset().observation.messages == ["begin"]
    assert "another environment's" not in caplog.text
