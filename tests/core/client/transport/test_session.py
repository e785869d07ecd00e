"""A session of either wire, as its client uses it."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Gate, GatedEnvironment, HangingAsyncEnvironment
from tests.support.servers import RunningServer, eventually
from tests.support.vectors import HELD, ONE, total
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as websockets_server

from openenv.core.client.blocking import background_loop
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.transport.session import ClientSession, LegacySession
from openenv.core.client.transport.shared_session import SharedSession
from openenv.core.client.transport.waiter import ThreadWaiter
from openenv.core.exceptions import (
    ConnectionLostError,
    EpisodeOrderError,
    OpenEnvError,
    ResponseTimeoutError,
    ServerCapacityError,
)

FULL = b'{"type": "error", "data": {"message": "Full.", "code": "CAPACITY_REACHED"}}'


def link_of(client: GenericEnvClient) -> ClientSession:
    assert client._client_session is not None
    return client._client_session


async def test_the_server_chooses_the_wire(serve_on: Serve, wire: str) -> None:
    server = serve_on()
    async with GenericEnvClient(base_url=server.url) as client:
        assert isinstance(link_of(client), SharedSession if wire == "v1" else LegacySession)
        assert total(await client.reset()) == 0


class TestExchange:
    async def test_a_cancelled_call_does_not_mispair_the_answers_behind_it(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=16)
        clients = [GenericEnvClient(base_url=server.url) for _ in range(4)]
        await asyncio.gather(*(client.reset() for client in clients))
        for number in range(1, 90, 3):
            await asyncio.gather(*(client.reset() for client in clients))
            calls = [asyncio.ensure_future(client.step(ONE)) for client in clients for _ in range(3)]
            for _ in range(number % 4):
                await asyncio.sleep(0)
            for call in calls[1::3]:
                call.cancel()
            results = await asyncio.gather(*calls, return_exceptions=True)
            # One that was cancelled before it was sent was never played.
            assert {total(result) for result in results[0::3]} == {1}
            assert {total(result) for result in results[2::3]} <= {2, 3}
        await asyncio.gather(*(client.close() for client in clients))

    async def test_no_answer_in_time_ends_every_call_of_this_session_and_no_other(self, serve_on: Serve) -> None:
        server = serve_on(HangingAsyncEnvironment, step_timeout_s=1)
        patient = GenericEnvClient(base_url=server.url)
        hasty = GenericEnvClient(base_url=server.url, message_timeout_s=0.3)
        await asyncio.gather(patient.reset(), hasty.reset())
        results = await asyncio.gather(*(hasty.step(HELD) for _ in range(5)), return_exceptions=True)
        assert {type(result) for result in results} <= {ResponseTimeoutError, ConnectionLostError}
        assert ResponseTimeoutError in {type(result) for result in results}
        with pytest.raises(EpisodeOrderError):
            await hasty.step(ONE)
        assert total(await patient.step(ONE)) == 1
        await asyncio.gather(patient.close(), hasty.close())
        await asyncio.to_thread(server.wait_for_sessions, 0)

    def test_threads_that_share_a_client_never_hang_when_one_of_them_times_out(self, serve_on: Serve) -> None:
        server = serve_on(HangingAsyncEnvironment, max_concurrent_envs=600, step_timeout_s=1)
        client: Any = GenericEnvClient(base_url=server.url, message_timeout_s=0.2)

        def call(thread: int) -> list[type]:
            ends: list[type] = []
            for number in range(10):
                try:
                    client.step(HELD if (thread + number) % 4 == 0 else ONE)
                except OpenEnvError as error:
                    ends.append(type(error))
                if number % 3 == 0:
                    try:
                        client.reset()
                    except OpenEnvError as error:
                        ends.append(type(error))
            return ends

        begun = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            ends = {end for ends in pool.map(call, range(8)) for end in ends}
        assert time.monotonic() - begun < 60
        assert ends <= {ResponseTimeoutError, ConnectionLostError, EpisodeOrderError}
        client.close()
        server.wait_for_sessions(0)

    def test_a_request_that_comes_too_late_fails_at_once(self, serve_on: Serve) -> None:
        """The thread that asks may have looked before the connection went."""
        server = serve_on(resume_window_s=0)
        for how in ("abort", "lose", "close_soon", "close"):
            client: Any = GenericEnvClient(base_url=server.url)
            client.reset()
            link = link_of(client)
            if how == "close":
                background_loop().run(link.close())
            elif how == "lose":
                background_loop().run(lose(link))
            else:
                background_loop().run(call(getattr(link, how)))
            answer = ThreadWaiter()
            background_loop().call(link.send_request, b"state", None, answer)
            with pytest.raises(ConnectionLostError):
                assert answer.wait(60) is not None, f"no answer after {how}"
            client.close()


async def call(function: Any) -> None:
    function()
    await asyncio.sleep(0.05)


async def lose(link: ClientSession) -> None:
    link.connection.transport.abort()
    await link.connection.wait_closed()


class TestEnd:
    @pytest.mark.parametrize("sessions", [1, 2], ids=["the last one", "one of two"])
    async def test_of_a_session_that_hangs_takes_no_longer_than_a_moment(self, serve_on: Serve, sessions: int) -> None:
        server = serve_on(HangingAsyncEnvironment, step_timeout_s=3)
        clients = [GenericEnvClient(base_url=server.url) for _ in range(sessions)]
        await asyncio.gather(*(client.reset() for client in clients))
        hanging = asyncio.ensure_future(clients[0].step(HELD))
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        await clients[0].close()
        assert time.monotonic() - begun < 2.5
        with pytest.raises(ConnectionLostError, match=r"^The client closed"):
            await hanging
        for client in clients[1:]:
            assert total(await client.step(ONE)) == 1
            await client.close()
        await asyncio.to_thread(server.wait_for_sessions, 0)

    async def test_a_cancelled_one_ends_all_the_same(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=64)
        async with GenericEnvClient(base_url=server.url) as other:
            for turns in range(6):
                client = GenericEnvClient(base_url=server.url)
                await client.reset()
                closing = asyncio.ensure_future(client.close())
                for _ in range(turns):
                    await asyncio.sleep(0)
                closing.cancel()
                await asyncio.gather(closing, return_exceptions=True)
                await client.close()
            await asyncio.to_thread(server.wait_for_sessions, 1)
            assert total(await other.reset()) == 0
        await asyncio.to_thread(eventually, lambda: server.connections == 0, "no connection")

    def test_from_another_running_loop(self, serve_on: Serve) -> None:
        server = serve_on()
        client: Any = GenericEnvClient(base_url=server.url)
        client.reset()
        asyncio.run(link_of(client).close())
        server.wait_for_sessions(0)
        assert total(client.reset()) == 0
        client.close()

    async def test_by_the_server_is_reported_once_even_if_its_close_comes_in_the_same_packet(self) -> None:
        async def refuse(socket: ServerConnection) -> None:
            await socket.recv()
            socket.protocol.send_text(FULL)
            socket.protocol.send_close(1000)
            socket.transport.write(b"".join(socket.protocol.data_to_send()))
            await socket.wait_closed()

        async with websockets_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with GenericEnvClient(base_url=f"http://127.0.0.1:{port}") as client:
                for _ in range(3):
                    with pytest.raises(ServerCapacityError):
                        await client.step(ONE)


class TestThreads:
    def test_300_blocking_clients_in_300_threads(self, serve_on: Serve, wire: str) -> None:
        """Each gets its own answers, and none costs a thread or, on v1, a connection."""
        server = serve_on(max_concurrent_envs=300)
        count = 300 if wire == "v1" else 64
        GenericEnvClient(base_url=server.url).sync()
        background_loop()
        before = {thread.name for thread in threading.enumerate()}
        here, done = threading.Barrier(count + 1), threading.Barrier(count + 1)
        played: dict[int, list[int]] = {}

        def play(number: int) -> None:
            with GenericEnvClient(base_url=server.url).sync() as client:
                client.reset(seed=number)
                amount = 1 + number % 3
                totals = [total(client.step({"amount": amount})) for _ in range(3)]
                here.wait(60)
                done.wait(60)
                played[number] = totals

        threads = [threading.Thread(target=play, args=(number,), name="player") for number in range(count)]
        for thread in threads:
            thread.start()
        here.wait(60)
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("openenv-clients") == 1
        assert {name for name in names if name != "player"} - before == set()
        assert server.sessions.active_sessions == count
        assert server.connections == (1 if wire == "v1" else count)
        done.wait(60)
        for thread in threads:
            thread.join(60)
        assert played == {number: [n * (1 + number % 3) for n in (1, 2, 3)] for number in range(count)}
        server.wait_for_sessions(0)
        eventually(lambda: server.connections == 0, "no connection")

    def test_one_hanging_thread_holds_up_no_other(self, serve_on: Serve, gate: Gate) -> None:
        server: RunningServer = serve_on(partial(GatedEnvironment, gate))
        clients: list[Any] = [GenericEnvClient(base_url=server.url) for _ in range(4)]
        for client in clients:
            client.reset()
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(clients[0].step, HELD)
            gate.wait_until_entered()
            assert [[total(client.step(ONE)) for _ in range(5)] for client in clients[1:]] == [[1, 2, 3, 4, 5]] * 3
            assert not held.done()
            gate.opened.set()
            assert total(held.result(60)) == 9
        for client in clients:
            client.close()
