"""Opening and closing vectors, the loops that they live in, and what is left of them."""

import asyncio
import gc
import socket
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    HangingAsyncEnvironment,
    ThreadedCounterEnvironment,
)
from tests.support.servers import RunningServer, eventually
from tests.support.vectors import HELD, ONE, CountingClient, make_server, play, shown, total

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.vector import SyncVectorEnv, VectorEnv
from openenv.core.exceptions import (
    ClientModeError,
    ConfigurationError,
    ConnectionFailedError,
    ConnectionLostError,
    ServerCapacityError,
    ServerFactoryError,
)

pytestmark = pytest.mark.timeout(180)


class TestOpening:
    @pytest.mark.parametrize("count", [0, -1])
    def test_there_is_at_least_one_slot(self, client: Any, count: int) -> None:
        with pytest.raises(ConfigurationError, match=f"Expected at least 1 slot, got {count}"):
            client.vector(count)

    def test_a_server_that_grants_fewer_says_how_many_and_keeps_none(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=5)
        client: Any = GenericEnvClient(base_url=server.url)
        for _ in range(3):
            with pytest.raises(ServerCapacityError) as refused:
                client.vector(6)
            assert (refused.value.active_sessions, refused.value.max_sessions) == (5, 5)
            server.wait_for_sessions(0)
        assert play(client.vector(5)) == [0] * 5
        client.close()

    async def test_a_client_s_own_session_leaves_its_place_to_the_vector_unless_it_is_used(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=5)
        async with GenericEnvClient(base_url=server.url) as client:
            async with await client.vector(5) as vector:
                assert shown(await vector.reset()) == [0] * 5
                with pytest.raises(ServerCapacityError):
                    await client.reset()
            assert total(await client.reset()) == 0
            with pytest.raises(ServerCapacityError):
                await client.vector(5)
            assert total(await client.step(ONE)) == 1

    async def test_a_client_that_is_closed_meanwhile_ends_the_vector(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        async with GenericEnvClient(base_url=server.url) as holder:
            client = GenericEnvClient(base_url=server.url, capacity_wait_s=60)
            opening = asyncio.ensure_future(client.vector(1))
            await asyncio.sleep(0)
            await client.close()
            await holder.disconnect()  # which gives the vector its slot
            with pytest.raises((ConnectionLostError, ConfigurationError), match="closed"):
                await opening
            server.wait_for_sessions(0)

    def test_a_legacy_server_that_grants_fewer_says_so_in_the_slots(self) -> None:
        with make_server("legacy", max_concurrent_envs=5) as server:
            client: Any = GenericEnvClient(base_url=server.url)
            vector = client.vector(6)
            results = shown(vector.reset())
            assert (results.count(0), results.count(ServerCapacityError)) == (5, 1)
            results = shown(vector.step([ONE] * 6))
            assert (results.count(1), results.count(ServerCapacityError)) == (5, 1)
            client.close()

    def test_an_environment_that_cannot_be_made(self, serve: Serve) -> None:
        class Broken(CounterEnvironment):
            def __init__(self) -> None:
                raise RuntimeError("no licence")

        server = serve(Broken)
        client = GenericEnvClient(base_url=server.url).sync()
        with pytest.raises(ServerFactoryError):
            client.vector(3)
        server.wait_for_sessions(0)

    def test_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        client: Any = GenericEnvClient(base_url=f"http://127.0.0.1:{port}")
        with pytest.raises(ConnectionFailedError):
            client.vector(64)

    def test_a_host_that_never_answers_is_waited_for_once(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            client: Any = GenericEnvClient(base_url=url, connect_timeout_s=0.3)
            begun = time.monotonic()
            with pytest.raises(ConnectionFailedError):
                client.vector(64)
            assert time.monotonic() - begun < 15

    def test_environments_that_take_longer_to_make_than_a_connection(self, serve: Serve, gate: Gate) -> None:
        class Heavy(CounterEnvironment):
            BLOCKING = True

            def __init__(self) -> None:
                super().__init__()
                gate.pass_through()

        server = serve(Heavy)
        client: Any = GenericEnvClient(base_url=server.url, connect_timeout_s=2, message_timeout_s=60)
        opener = threading.Timer(2.5, gate.opened.set)
        opener.start()
        with client.sync() as opened:
            assert play(opened.vector(3)) == [0, 0, 0]
        opener.join()

    async def test_a_cancelled_one_leaves_no_session(self, serve_on: Serve, wire: str) -> None:
        server = serve_on(max_concurrent_envs=200)
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset()
            outcomes: list[Any] = []
            for delay in (0, 1, 2, 5, 10, 30):
                opening = asyncio.ensure_future(client.vector(32))
                for _ in range(delay):
                    await asyncio.sleep(0)
                opening.cancel()
                outcomes += await asyncio.gather(opening, return_exceptions=True)
            opened = [outcome for outcome in outcomes if isinstance(outcome, VectorEnv)]  # before it was cancelled
            for vector in opened:
                await vector.close()
            assert isinstance(outcomes[0], asyncio.CancelledError)
            assert all(isinstance(outcome, VectorEnv | asyncio.CancelledError) for outcome in outcomes)
            await asyncio.to_thread(server.wait_for_sessions, 1)
            assert total(await client.step(ONE)) == 1


class TestLifetime:
    async def test_async_with(self, serve_on: Serve) -> None:
        server = serve_on()
        async with GenericEnvClient(base_url=server.url) as client:
            async with await client.vector(4) as vector:
                assert isinstance(vector, VectorEnv)
                assert (len(vector), vector.num_envs) == (4, 4)
                assert shown(await vector.reset()) == [0] * 4
                await asyncio.to_thread(server.wait_for_sessions, 4)
            await asyncio.to_thread(server.wait_for_sessions, 0)
            with pytest.raises(KeyError):
                async with await client.vector(4):
                    raise KeyError
            await asyncio.to_thread(server.wait_for_sessions, 0)

    def test_with(self, serve_on: Serve) -> None:
        server = serve_on()
        with GenericEnvClient(base_url=server.url).sync() as client:
            with client.vector(4) as vector:
                assert isinstance(vector, SyncVectorEnv)
                assert (len(vector), vector.num_envs) == (4, 4)
                assert play(vector, [ONE] * 4) == [1] * 4
            server.wait_for_sessions(0)

    def test_a_closed_one_can_be_closed_again_and_not_be_used(self, serve_on: Serve) -> None:
        server = serve_on()
        with GenericEnvClient(base_url=server.url).sync() as client:
            vector = client.vector(3)
            vector.reset()
            for _ in range(3):
                vector.close()
            server.wait_for_sessions(0)
            for use in (vector.reset, partial(vector.step, [ONE] * 3), partial(vector.step, [None] * 3)):
                with pytest.raises(ConfigurationError, match="closed"):
                    use()
            assert server.sessions.active_sessions == 0

    def test_it_is_closed_with_its_client(self, serve_on: Serve) -> None:
        server = serve_on()
        client: Any = GenericEnvClient(base_url=server.url)
        vectors = [client.vector(2), client.vector(3)]
        vectors[0].close()
        server.wait_for_sessions(3)
        client.close()
        server.wait_for_sessions(0)
        with pytest.raises(ConfigurationError, match="closed"):
            vectors[1].reset()

    def test_a_client_does_not_remember_those_that_were_closed(self, serve: Serve) -> None:
        server = serve()
        client: Any = GenericEnvClient(base_url=server.url)
        remembered = [weakref.ref(self.closed_vector(client)) for _ in range(20)]
        gc.collect()
        assert sum(vector() is not None for vector in remembered) <= 1
        client.close()

    def closed_vector(self, client: Any) -> Any:
        vector = client.vector(2)
        vector.close()
        return vector.vector

    async def test_closing_while_a_slot_hangs_ends_the_step(self, serve_on: Serve) -> None:
        server = serve_on(HangingAsyncEnvironment)
        async with GenericEnvClient(base_url=server.url) as client:
            vector = await client.vector(3)
            await vector.reset()
            stepping = asyncio.ensure_future(vector.step([HELD, ONE, HELD]))
            following = asyncio.ensure_future(vector.step([ONE] * 3))
            await asyncio.sleep(0.05)
            await vector.close()
            assert shown(await stepping) == [ConnectionLostError, 1, ConnectionLostError]
            with pytest.raises(ConfigurationError, match="closed"):
                await following

    async def test_closing_while_sessions_are_opened_anew_keeps_none(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=64)
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset()
            for delay in range(0, 12, 3):
                vector = await client.vector(8)
                for link in vector._sessions:  # what a network does
                    assert link is not None
                    link.abort()
                resetting = asyncio.ensure_future(vector.reset())
                for _ in range(delay):
                    await asyncio.sleep(0)
                await vector.close()
                results = (await asyncio.gather(resetting, return_exceptions=True))[0]
                if not isinstance(results, ConfigurationError):
                    assert isinstance(results, list)
                    assert set(shown(results)) <= {0, ConnectionLostError}
            await asyncio.to_thread(server.wait_for_sessions, 1)

    async def test_vectors_and_single_sessions_of_one_client_share_nothing(self, serve_on: Serve, wire: str) -> None:
        server = serve_on(max_concurrent_envs=32)
        async with GenericEnvClient(base_url=server.url) as client:
            first, second = await asyncio.gather(client.vector(3), client.vector(4))
            child = await client.new_session()
            await asyncio.gather(first.reset(), second.reset(), client.reset(), child.reset())
            assert server.sessions.active_sessions == 9
            assert server.connections == (1 if wire == "v1" else 9)
            for number in range(1, 6):
                results = await asyncio.gather(
                    first.step([ONE] * 3), client.step(ONE), second.step([{"amount": 2}] * 4), child.step(ONE)
                )
                assert shown(results[0]) == [number] * 3
                assert (total(results[1]), total(results[3])) == (number, number)
                assert shown(results[2]) == [2 * number] * 4
        await asyncio.to_thread(server.wait_for_sessions, 0)
        await asyncio.to_thread(eventually, lambda: server.connections == 0, "no connection")

    async def test_a_cancelled_step_leaves_the_answers_in_order(self, serve_on: Serve, gate: Gate) -> None:
        server = serve_on(partial(GatedEnvironment, gate))
        async with GenericEnvClient(base_url=server.url) as client:
            vector = await client.vector(3)
            await vector.reset()
            held = asyncio.ensure_future(vector.step([HELD, ONE, {"amount": 2}]))
            await asyncio.to_thread(gate.wait_until_entered)
            held.cancel()
            following = asyncio.ensure_future(vector.step([ONE, ONE, ONE]))
            await asyncio.sleep(0)
            assert held.cancelled() or held.cancelling()
            gate.opened.set()
            assert shown(await following) == [10, 2, 3]

    async def test_autoreset_knows_how_a_cancelled_step_ended(self, serve_on: Serve, gate: Gate) -> None:
        server = serve_on(partial(GatedEnvironment, gate))
        async with CountingClient(base_url=server.url) as client:
            vector = await client.vector(2, autoreset=True)
            await vector.reset()
            await vector.step([ONE, ONE])
            CountingClient.come = 0
            held = asyncio.ensure_future(vector.step([HELD, ONE]))
            await asyncio.to_thread(gate.wait_until_entered)
            held.cancel()
            gate.opened.set()
            await asyncio.to_thread(eventually, lambda: CountingClient.come == 2, "both answers")
            assert shown(await vector.step([ONE, ONE])) == [0, 3]

    async def test_calls_at_the_same_time_are_played_one_after_another(self, server: RunningServer) -> None:
        async with GenericEnvClient(base_url=server.url) as client:
            vector = await client.vector(3)
            await vector.reset()
            calls = await asyncio.gather(*(vector.step([ONE, {"amount": 2}, None]) for _ in range(4)))
            assert [shown(results) for results in calls] == [[n, 2 * n, None] for n in range(1, 5)]


class TestLoops:
    def test_blocking_code_gets_a_blocking_vector(self, server: RunningServer) -> None:
        client: Any = GenericEnvClient(base_url=server.url)
        vector = client.vector(2)
        assert isinstance(vector, SyncVectorEnv)
        assert play(vector, [ONE, ONE]) == [1, 1]
        client.close()

    async def test_the_facade_s_vector_blocks_inside_a_running_loop(self, server: RunningServer) -> None:
        with GenericEnvClient(base_url=server.url).sync() as client, client.vector(2) as vector:
            assert isinstance(vector, SyncVectorEnv)
            assert play(vector, [ONE, ONE]) == [1, 1]

    async def test_another_loop_is_told_whose_it_is(self, server: RunningServer) -> None:
        async with GenericEnvClient(base_url=server.url) as client:
            vector = await client.vector(2)
            await vector.reset()
            with pytest.raises(ClientModeError, match="VectorEnv is already being used in async mode"):
                await asyncio.to_thread(SyncVectorEnv(vector).step, [ONE, ONE])
            assert shown(await vector.step([ONE, ONE])) == [1, 1]
            blocking = client.sync().vector(2)
            await asyncio.to_thread(blocking.reset)
            with pytest.raises(ClientModeError, match="VectorEnv is already being used in sync mode"):
                await blocking.vector.step([ONE, ONE])
            assert shown(await asyncio.to_thread(blocking.step, [ONE, ONE])) == [1, 1]

    @pytest.mark.usefixtures("abandoned_loops")
    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    def test_one_loop_after_another(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=4)
        client = GenericEnvClient(base_url=server.url, message_timeout_s=60)
        vectors: list[VectorEnv[Any, Any, Any]] = []

        async def use() -> None:
            if not vectors:
                vectors.append(await client.vector(4))
            calls = await asyncio.gather(vectors[0].reset(), vectors[0].step([ONE] * 4))
            assert [shown(results) for results in calls] == [[0] * 4, [1] * 4]

        for _ in range(3):
            asyncio.run(use())
        SyncVectorEnv(vectors[0]).close()
        server.wait_for_sessions(0)

    def test_closing_from_another_loop(self, serve_on: Serve) -> None:
        server = serve_on()
        client: Any = GenericEnvClient(base_url=server.url)
        vector = client.vector(3)
        vector.reset()
        asyncio.run(vector.vector.close())
        server.wait_for_sessions(0)
        client.close()

    def test_many_threads_with_a_vector_each(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=128)

        def use(number: int) -> list[Any]:
            with GenericEnvClient(base_url=server.url).sync() as client, client.vector(4) as vector:
                return play(vector, *[[{"amount": 1 + (number + slot) % 3} for slot in range(4)]] * 3)

        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(use, range(32))) == [
                [3 * (1 + (number + slot) % 3) for slot in range(4)] for number in range(32)
            ]
        server.wait_for_sessions(0)

    def test_threads_that_share_a_vector(self, client: Any) -> None:
        vector = client.vector(3)
        vector.reset()
        with ThreadPoolExecutor(8) as pool:
            calls = list(pool.map(vector.step, [[ONE, None, None]] * 8))
        assert sorted(total(results[0]) for results in calls) == list(range(1, 9))


OPEN_FILES = Path("/proc/self/fd")


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts files in /proc, which only Linux has")
class TestLeaks:
    def counts(self) -> tuple[int, int, int]:
        gc.collect()
        return threading.active_count(), len(list(OPEN_FILES.iterdir())), memory_kb()

    @pytest.mark.level("command")
    @pytest.mark.parametrize("environment", [CounterEnvironment, ThreadedCounterEnvironment], ids=["inline", "thread"])
    def test_memory_threads_and_files_return_to_where_they_began(
        self, serve_on: Serve, wire: str, environment: Any
    ) -> None:
        count = 64 if wire == "v1" else 16
        server = serve_on(environment, max_concurrent_envs=count)
        client: Any = GenericEnvClient(base_url=server.url)

        def use() -> None:
            vector = client.vector(count, autoreset=True)
            play(vector, *[[{"amount": 5}] * count] * 10)
            vector.close()
            server.wait_for_sessions(0)

        for _ in range(3):
            use()
        before = self.counts()
        for _ in range(12):
            use()
        eventually(lambda: self.counts()[:2] <= before[:2], f"{self.counts()} instead of {before}")
        assert self.counts()[2] - before[2] < 4096
        client.close()

    async def test_no_task_is_left(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=64)
        async with GenericEnvClient(base_url=server.url) as client:
            for _ in range(3):
                async with await client.vector(32) as vector:
                    await vector.reset()
                    await vector.step([ONE] * 32)
        await asyncio.sleep(0.05)
        assert len(asyncio.all_tasks()) == 1


def memory_kb() -> int:
    """Memory that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4
