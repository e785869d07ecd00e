"""The blocking facade."""

import copy
import threading
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.servers import RunningServer

from openenv.core.client.blocking import blocks_outside_loop
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.sync import SyncEnvClient
from openenv.core.exceptions import ClientModeError, EpisodeOrderError

ONE = {"amount": 1}


class Notes(GenericEnvClient):
    """A client with methods of its own."""

    label = "notes"

    async def twice(self, amount: int) -> int:
        await self.step({"amount": amount})
        shown: int = (await self.step({"amount": amount})).observation["total"]
        return shown

    @blocks_outside_loop
    async def once(self, amount: int) -> int:
        shown: int = (await self.step({"amount": amount})).observation["total"]
        return shown

    def plain(self) -> str:
        return "plain"


def test_an_episode(counter_server: RunningServer) -> None:
    with GenericEnvClient(base_url=counter_server.url).sync() as client:
        assert client.reset(seed=1).metadata == {"seed": 1}
        assert client.step(ONE).observation["total"] == 1
        assert client.state()["step_count"] == 1


async def test_an_episode_inside_a_running_loop(counter_server: RunningServer) -> None:
    with GenericEnvClient(base_url=counter_server.url).sync() as client:
        client.reset()
        assert client.step(ONE).observation["total"] == 1
        assert client.state()["step_count"] == 1
        child = client.new_session()
        assert child.reset().observation["total"] == 0


def test_the_facade_is_made_once() -> None:
    client = GenericEnvClient(base_url="h")
    assert client.sync() is client.sync()
    assert client.sync().async_client is client


def test_connect_gives_the_facade_back_and_disconnect_ends_the_session(serve: Serve) -> None:
    server = serve(max_concurrent_envs=1)
    client = GenericEnvClient(base_url=server.url).sync()
    assert client.connect() is client
    server.wait_for_sessions(1)
    client.reset()
    client.disconnect()
    server.wait_for_sessions(0)
    with pytest.raises(EpisodeOrderError):
        client.step(ONE)
    client.close()
    server.wait_for_sessions(0)


def test_leaving_by_an_exception_closes(serve: Serve) -> None:
    server = serve(max_concurrent_envs=1)
    with pytest.raises(TypeError), GenericEnvClient(base_url=server.url).sync() as client:
        client.step(3)
    server.wait_for_sessions(0)


def test_the_client_s_own_attributes(counter_server: RunningServer) -> None:
    with Notes(base_url=counter_server.url).sync() as client:
        client.reset()
        assert client.label == "notes"
        assert client.plain() == "plain"
        assert client.base_url == counter_server.url
        assert client.twice(2) == 4
        assert client.once(amount=1) == 5
        with pytest.raises(AttributeError):
            client.nothing  # noqa: B018


async def test_the_client_s_own_methods_inside_a_running_loop(counter_server: RunningServer) -> None:
    with Notes(base_url=counter_server.url).sync() as client:
        client.reset()
        assert client.twice(2) == 4
        assert client.once(1) == 5


def test_a_blocking_call_from_a_client_s_own_coroutine_is_an_error_and_no_deadlock(
    counter_server: RunningServer,
) -> None:
    class Impatient(GenericEnvClient):
        async def play(self) -> Any:
            return self.sync().reset()

    with Impatient(base_url=counter_server.url).sync() as client:
        with pytest.raises(ClientModeError, match="Await"):
            client.play()
        assert client.reset().observation["total"] == 0


@pytest.mark.parametrize("name", ["function", "self", "args"])
def test_a_method_s_argument_may_have_any_name(name: str) -> None:
    class Taking(GenericEnvClient):
        async def take(this, **arguments: Any) -> dict[str, Any]:  # noqa: N805  # leaves the name self free
            return arguments

    assert Taking(base_url="h").sync().take(**{name: 1}) == {name: 1}


def test_the_hooks_are_reachable() -> None:
    client = GenericEnvClient(base_url="h").sync()
    assert client._step_payload({"a": 1}) == {"a": 1}  # part of the public interface
    assert client._parse_state({"a": 1}) == {"a": 1}


def test_an_unfinished_facade_can_be_copied() -> None:
    empty = SyncEnvClient.__new__(SyncEnvClient)
    assert isinstance(copy.copy(empty), SyncEnvClient)


def test_no_facade_starts_a_thread_of_its_own(counter_server: RunningServer) -> None:
    with GenericEnvClient(base_url=counter_server.url).sync() as first:
        first.reset()
        before = threading.active_count()
        others = [GenericEnvClient(base_url=counter_server.url).sync() for _ in range(20)]
        for client in others:
            client.reset()
        assert threading.active_count() == before
        for client in others:
            client.close()
