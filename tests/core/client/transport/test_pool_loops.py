"""Shared connections and the event loops that they live in."""

import asyncio
import gc
import json
import subprocess
import sys
import weakref
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.servers import PROGRAMS, RunningServer, eventually
from tests.support.vectors import ONE, total

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.transport.connection import Connection
from openenv.core.client.transport.pool import ConnectionPool, open_session
from openenv.core.client.transport.shared_connection import SharedConnection


def client_of(url: str, **settings: Any) -> GenericEnvClient:
    settings.setdefault("message_timeout_s", 60)
    return GenericEnvClient(base_url=url, **settings)


@pytest.mark.usefixtures("abandoned_loops")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
class TestLoops:
    def test_a_loop_that_has_ended_is_not_kept(self, serve_on: Serve) -> None:
        server = serve_on()
        loops: list[weakref.ref[Any]] = []

        async def use() -> None:
            loops.append(weakref.ref(asyncio.get_running_loop()))
            clients = [client_of(server.url) for _ in range(2)]
            await asyncio.gather(*(client.reset() for client in clients))  # and none of them is closed

        for _ in range(5):
            asyncio.run(use())
        gc.collect()
        assert [loop() for loop in loops] == [None] * 5

    def test_what_a_client_needed_goes_with_it(self, serve_on: Serve) -> None:
        """A client with headers of its own has a connection of its own, of which nothing stays."""
        server = serve_on()

        def hubs() -> int:
            gc.collect()
            return sum(type(one) in (Connection, SharedConnection, ConnectionPool) for one in gc.get_objects())

        before = hubs()
        for number in range(10):
            with client_of(server.url, headers={"X-Number": str(number)}).sync() as client:
                client.reset()
        eventually(lambda: hubs() <= before, "everything is collected")

    @pytest.mark.parametrize("library", ["asyncio", "uvloop"])
    def test_ending_one_session_of_a_loop_that_is_stopped_leaves_the_others(
        self, serve_on: Serve, library: str
    ) -> None:
        module = pytest.importorskip(library, reason="uvloop is not made for this platform")
        server = serve_on()
        loop = module.new_event_loop()
        first, second = client_of(server.url), client_of(server.url)
        loop.run_until_complete(do(first.reset))
        loop.run_until_complete(do(second.reset))
        blocking: Any = first
        blocking.close()
        assert total(loop.run_until_complete(do(second.step, ONE))) == 1
        loop.run_until_complete(asyncio.sleep(0.05))
        server.wait_for_sessions(1)
        loop.run_until_complete(do(second.close))
        server.wait_for_sessions(0)
        loop.close()

    def test_the_last_session_of_a_loop_that_is_stopped_takes_the_connection_along(self, serve_on: Serve) -> None:
        server = serve_on()
        loop = asyncio.new_event_loop()
        clients: list[Any] = [client_of(server.url) for _ in range(3)]
        for client in clients:
            loop.run_until_complete(do(client.reset))
        for client in clients:
            client.close()
        server.wait_for_sessions(0)
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()

    def test_a_loop_that_has_ended_leaves_its_place_to_the_next(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=1)
        client: Any = client_of(server.url)
        for _ in range(3):
            assert total(asyncio.run(do(client.reset))) == 0
        client.close()
        server.wait_for_sessions(0)

    def test_a_program_that_ends_leaves_no_warning(self, serve_on: Serve) -> None:
        server: RunningServer = serve_on(max_concurrent_envs=4)
        program = [sys.executable, "-X", "dev", "-W", "error", str(PROGRAMS / "tidy_client.py"), server.url]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
        assert (ended.stderr, ended.stdout, ended.returncode) == ("", "done\n", 0)
        server.wait_for_sessions(0)


async def do(method: Any, *arguments: Any) -> Any:
    """Call a client's method inside a loop."""
    return await method(*arguments)


async def test_open_link_is_what_clients_use(serve: Serve) -> None:
    client = client_of(serve().url)
    settings = await client._endpoint()
    first, second = await asyncio.gather(open_session(settings, 5), open_session(settings, None))
    assert first.connection is second.connection
    answer = json.loads(json.dumps(await first.exchange(b"reset", b"{}", 5)))
    assert (answer["type"], answer["data"]["observation"]["total"]) == ("observation", 0)
    await asyncio.gather(first.close(), second.close())
    assert first.connection.usable is False
