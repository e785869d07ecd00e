"""The client: the rule for when a call blocks, what is lost and what is not, providers, and its addresses."""

import asyncio
import copy
import gc
import pickle
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    Add,
    CounterEnvironment,
    Gate,
    GatedEnvironment,
    HangingAsyncEnvironment,
    SingleSessionEnvironment,
    Total,
)
from tests.support.servers import RunningServer, ServerProcess, answering, eventually
from websockets.sync.server import ServerConnection

from openenv.core.client.client import EnvClient
from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.results import StepResult
from openenv.core.client.sync import SyncEnvClient
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig
from openenv.core.exceptions import (
    ClientModeError,
    ConfigurationError,
    ConnectionLostError,
    EpisodeOrderError,
    ProviderError,
    RequestRejectedError,
    ResponseTimeoutError,
    ServerCapacityError,
    ServerExecutionError,
    ServerFactoryError,
    ServerSessionError,
    ServerTimeoutError,
)
from openenv.core.providers.base import ContainerProvider, RuntimeProvider

ONE = {"amount": 1}
HELD = {"amount": 9}
OPEN_FILES = Path("/proc/self/fd")


def total(result: Any) -> int:
    shown: int = result.observation["total"]
    return shown


def queued(server: RunningServer) -> int:
    """How many requests wait for a slot."""
    with urlopen(f"{server.url}/metrics", timeout=60) as answer:  # a server of this test's
        (line,) = [line for line in answer.read().decode().splitlines() if line.startswith("openenv_clients_waiting")]
    return int(float(line.split()[-1]))


def run_until_complete(call: Any) -> Any:
    with asyncio.Runner() as runner:
        return runner.get_loop().run_until_complete(call)


async def awaited_with_a_limit(call: Any) -> Any:
    return await asyncio.wait_for(call, 60)


class TestRule:
    """A method blocks where no event loop runs and is awaitable inside one."""

    @pytest.mark.parametrize(
        "run", [asyncio.run, run_until_complete, lambda call: asyncio.run(awaited_with_a_limit(call))]
    )
    def test_what_a_blocking_call_returned_may_be_awaited(
        self, counter_server: RunningServer, run: Callable[[Any], Any]
    ) -> None:
        client: Any = GenericEnvClient(base_url=counter_server.url)
        assert run(client.connect()) is client
        assert run(client.reset()).observation["total"] == 0
        assert run(client.step(ONE)).observation["total"] == 1
        other = run(client.new_session())
        assert run(other.reset()).observation["total"] == 0
        assert len(run(client.vector(2)).reset()) == 2
        assert run(client.disconnect()) is None
        assert run(client.close()) is None
        assert not client.close()

    def test_a_client_of_blocking_calls_says_in_a_loop_what_to_do(self, counter_server: RunningServer) -> None:
        async def later() -> None:
            await client.reset()

        client: Any = GenericEnvClient(base_url=counter_server.url)
        asyncio.run(client.reset())
        with pytest.raises(ClientModeError, match=r"client\.sync\(\).*one async function"):
            asyncio.run(later())
        client.close()

    def test_a_client_is_pickled_before_its_first_use_and_says_so_afterwards(
        self, counter_server: RunningServer
    ) -> None:
        client: Any = pickle.loads(pickle.dumps(GenericEnvClient(base_url=counter_server.url)))
        assert total(client.reset()) == 0
        for used in (client, client.sync(), client.vector(1)):
            for copied in (pickle.dumps, copy.deepcopy):
                with pytest.raises(TypeError, match=r"was used.*make one in the other process"):
                    copied(used)
        client.close()

    def test_calls_made_outside_of_a_loop_are_gathered(self, counter_server: RunningServer) -> None:
        async def gathered() -> list[Any]:
            return await asyncio.gather(*calls)

        clients: list[Any] = [GenericEnvClient(base_url=counter_server.url) for _ in range(3)]
        calls = [client.reset() for client in clients]
        assert [total(result) for result in asyncio.run(gathered())] == [0, 0, 0]
        calls = [client.step({"amount": amount}) for amount, client in enumerate(clients, 1)]
        assert [total(result) for result in asyncio.run(gathered())] == [1, 2, 3]
        calls = [client.close() for client in clients]
        assert asyncio.run(gathered()) == [None] * 3

    def test_blocking(self, counter_server: RunningServer) -> None:
        client: Any = GenericEnvClient(base_url=counter_server.url)
        result = client.reset(seed=5)
        assert isinstance(result, StepResult)
        assert (result.reward, result.done, result.metadata) == (None, False, {"seed": 5})
        result = client.step(ONE)
        assert (total(result), result.reward, result.done, result.metadata) == (1, 1, False, None)
        assert client.state()["step_count"] == 1
        client.close()

    async def test_async(self, counter_server: RunningServer) -> None:
        client = GenericEnvClient(base_url=counter_server.url)
        waiting = client.reset(seed=5)
        assert asyncio.iscoroutine(waiting)
        await waiting
        assert total(await client.step(ONE)) == 1
        assert (await client.state())["step_count"] == 1
        await client.close()

    def test_with(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        client: Any
        with GenericEnvClient(base_url=server.url) as client:
            assert isinstance(client, GenericEnvClient)
            server.wait_for_sessions(1)
            assert total(client.reset()) == 0
        server.wait_for_sessions(0)

    async def test_async_with(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        async with GenericEnvClient(base_url=server.url) as client:
            assert total(await client.reset()) == 0
            assert server.sessions.active_sessions == 1
        await asyncio.to_thread(server.wait_for_sessions, 0)

    def test_constructing_connects_to_nothing(self) -> None:
        assert GenericEnvClient(base_url="http://127.0.0.1:1").base_url == "http://127.0.0.1:1"

    def test_sync_use_then_async_use_at_the_same_time_is_refused(self, counter_server: RunningServer) -> None:
        client: Any = GenericEnvClient(base_url=counter_server.url)
        client.reset()

        async def use() -> None:
            await client.reset()

        with pytest.raises(ClientModeError, match="already being used in sync mode") as refused:
            asyncio.run(use())
        assert isinstance(refused.value, RuntimeError)
        assert total(client.step(ONE)) == 1
        client.close()

    async def test_async_use_then_sync_use_at_the_same_time_is_refused(self, counter_server: RunningServer) -> None:
        client = GenericEnvClient(base_url=counter_server.url)
        await client.reset()
        with pytest.raises(ClientModeError, match="already being used in async mode"):
            await asyncio.to_thread(client.sync().reset)
        assert total(await client.step(ONE)) == 1
        await client.close()

    @pytest.mark.usefixtures("abandoned_loops")
    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    def test_async_use_hands_over_to_sync_use_once_its_loop_has_ended(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=2)
        client: Any = GenericEnvClient(base_url=server.url)

        async def use() -> None:
            await client.reset()
            assert total(await client.step(ONE)) == 1

        asyncio.run(use())
        with pytest.raises(EpisodeOrderError):
            client.step(ONE)  # it is a new session
        assert total(client.reset()) == 0
        assert total(client.step(ONE)) == 1
        client.close()

    @pytest.mark.usefixtures("abandoned_loops")
    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    def test_a_hand_over_gives_the_old_place_back(self, serve: Serve) -> None:
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1)
        client: Any = GenericEnvClient(base_url=server.url)

        async def use() -> None:
            await client.reset()

        for _ in range(3):
            asyncio.run(use())
        assert total(client.reset()) == 0
        client.close()
        server.wait_for_sessions(0)

    @pytest.mark.usefixtures("abandoned_loops")
    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    def test_calls_that_come_together_in_one_loop_after_another(self, serve: Serve) -> None:
        client = GenericEnvClient(base_url=serve().url)

        async def use() -> list[int]:
            results = await asyncio.gather(*(client.reset() for _ in range(5)))
            return [total(result) for result in results]

        for _ in range(3):
            assert asyncio.run(use()) == [0] * 5

    @pytest.mark.usefixtures("abandoned_loops")
    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    @pytest.mark.parametrize("closed", [True, False], ids=["closed", "stopped"])
    @pytest.mark.parametrize("library", ["asyncio", "uvloop"])
    def test_a_hand_over_from_any_loop_gives_the_old_place_back(self, serve: Serve, library: str, closed: bool) -> None:
        module = pytest.importorskip(library, reason="uvloop is not made for this platform")
        # uvloop closes the sockets with the loop, which looks like a lost connection.
        window_s = 0 if closed and library == "uvloop" else 30
        server = serve(SingleSessionEnvironment, max_concurrent_envs=1, resume_window_s=window_s)
        client: Any = GenericEnvClient(base_url=server.url)

        async def use() -> None:
            await client.reset()

        loops = [module.new_event_loop() for _ in range(2)]
        for loop in loops:
            loop.run_until_complete(use())
            if closed:
                loop.close()
        assert total(client.reset()) == 0
        client.close()
        server.wait_for_sessions(0)
        for loop in loops:
            loop.close()

    def test_closing_from_a_loop_what_was_used_in_blocking_code_gives_the_place_back(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        client: Any = GenericEnvClient(base_url=server.url)
        client.reset()

        async def close() -> None:
            await client.close()

        asyncio.run(close())
        server.wait_for_sessions(0)

    def test_the_first_calls_of_many_threads_open_one_session(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        client: Any = GenericEnvClient(base_url=server.url)
        with ThreadPoolExecutor(16) as pool:
            assert [total(result) for result in pool.map(lambda _: client.reset(), range(64))] == [0] * 64
        assert server.sessions.active_sessions == 1
        client.close()

    def test_64_threads_with_a_client_each(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=64)

        def play(_: int) -> list[int]:
            with GenericEnvClient(base_url=server.url).sync() as client:
                client.reset()
                return [total(client.step(ONE)) for _ in range(9)]

        with ThreadPoolExecutor(64) as pool:
            assert list(pool.map(play, range(64))) == [list(range(1, 10))] * 64
        server.wait_for_sessions(0)

    async def test_64_async_clients_and_a_65th_that_gets_the_counts(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=64)
        clients = [GenericEnvClient(base_url=server.url) for _ in range(65)]

        async def play(client: GenericEnvClient) -> list[int]:
            await client.reset()
            return [total(await client.step(ONE)) for _ in range(9)]

        assert await asyncio.gather(*(play(client) for client in clients[:64])) == [list(range(1, 10))] * 64
        for attempt in (clients[64].connect, clients[64].reset):
            with pytest.raises(ServerCapacityError, match="64/64") as refused:
                await attempt()
        assert (refused.value.active_sessions, refused.value.max_sessions) == (64, 64)
        await clients[0].close()
        await asyncio.to_thread(server.wait_for_sessions, 63)
        assert total(await clients[64].reset()) == 0
        await asyncio.gather(*(client.close() for client in clients))
        await asyncio.to_thread(server.wait_for_sessions, 0)


class TestErrors:
    def test_each_answer_is_its_error_and_the_session_goes_on(self, counter_server: RunningServer) -> None:
        with GenericEnvClient(base_url=counter_server.url).sync() as client:
            with pytest.raises(EpisodeOrderError):
                client.step(ONE)
            client.reset()
            client.step(ONE)
            with pytest.raises(
                ServerExecutionError, match=r"^Server error: kaboom \(code: EXECUTION_ERROR\)$"
            ) as failed:
                client.step({"amount": 0})
            assert isinstance(failed.value, RuntimeError)
            with pytest.raises(RequestRejectedError, match="Invalid message") as refused:
                client.step({"amont": 1})
            assert [entry["type"] for entry in refused.value.errors] == ["missing", "extra_forbidden"]
            with pytest.raises(RequestRejectedError, match="Expected a positive amount"):
                client.step({"amount": -1})
            assert total(client.step(ONE)) == 2
            assert client.step({"amount": 8}).done is True
            with pytest.raises(EpisodeOrderError):
                client.step(ONE)
            assert total(client.reset()) == 0

    def test_a_factory_that_fails(self, serve: Serve) -> None:
        class BadEnvironment(CounterEnvironment):
            def __init__(self) -> None:
                raise RuntimeError("no licence")

        server = serve(BadEnvironment)
        client = GenericEnvClient(base_url=server.url).sync()
        for attempt in (client.connect, client.reset):
            with pytest.raises(ServerFactoryError) as failed:
                attempt()
        assert failed.value.details == {"factory_name": "BadEnvironment"}
        client.close()

    def test_a_message_above_the_server_s_limit(self, serve: Serve) -> None:
        server = serve(max_message_size_mb=0.01)
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            with pytest.raises(RequestRejectedError, match="this server accepts") as refused:
                client.step({"amount": 1, "metadata": {"x": "x" * 20_000}})
            assert refused.value.code == "TOO_LARGE"
            assert total(client.step(ONE)) == 1

    def test_a_timeout_of_the_server_says_that_it_may_have_happened(self, serve: Serve) -> None:
        server = serve(HangingAsyncEnvironment, step_timeout_s=0.1)
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            with pytest.raises(ServerTimeoutError) as late:
                client.step(HELD)
            assert isinstance(late.value, TimeoutError)
            assert late.value.details["may_have_happened"] is True
            assert total(client.step(ONE)) == 1

    def test_at_capacity_every_try_gets_the_capacity_error(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        with GenericEnvClient(base_url=server.url).sync() as first:
            first.reset()
            second = GenericEnvClient(base_url=server.url).sync()
            for _ in range(100):
                with pytest.raises(ServerCapacityError):
                    second.reset()
            first.close()
            server.wait_for_sessions(0)
            assert total(second.reset()) == 0
            second.close()

    async def test_at_capacity_every_try_gets_the_capacity_error_async(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        async with GenericEnvClient(base_url=server.url) as first:
            await first.reset()
            second = GenericEnvClient(base_url=server.url)
            for _ in range(100):
                with pytest.raises(ServerCapacityError):
                    await second.reset()
            await second.close()

    def test_a_session_closed_for_idleness_says_so_and_a_later_reset_starts_anew(self, serve: Serve) -> None:
        server = serve(concurrency_config=ConcurrencyConfig(max_concurrent_envs=1, session_timeout=0.1))
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            server.wait_for_sessions(0)
            with pytest.raises((ServerSessionError, ConnectionLostError)):
                client.step(ONE)
            assert total(client.reset()) == 0
            assert total(client.step(ONE)) == 1

    @pytest.mark.parametrize("name", ["function", "coroutine", "args", "kwargs", "action", "request", "data", "type"])
    def test_a_task_parameter_may_have_any_name(self, serve: Serve, name: str) -> None:
        class Task(CounterEnvironment):
            def reset(self, seed: int | None = None, episode_id: str | None = None, **task: Any) -> Total:
                return Total(total=0, metadata=task)

        server = serve(Task)
        with GenericEnvClient(base_url=server.url).sync() as client:
            assert client.reset(**{name: "x"}).metadata == {name: "x"}


class TestLoss:
    def test_kill_9_reaches_every_waiting_client_at_once(self) -> None:
        """Async and blocking clients alike, long before their message timeout."""
        errors: list[BaseException] = []

        def wait(client: SyncEnvClient[Any, Any, Any]) -> None:
            try:
                client.step(HELD)
            except BaseException as error:  # noqa: BLE001  # looked at below
                errors.append(error)

        async def wait_for_all(clients: list[GenericEnvClient], kill: Callable[[], None]) -> list[BaseException]:
            await asyncio.gather(*(client.reset() for client in clients))
            calls = [asyncio.ensure_future(client.step(HELD)) for client in clients]
            await asyncio.to_thread(kill)
            results = await asyncio.gather(*calls, return_exceptions=True)
            return [result for result in results if isinstance(result, BaseException)]

        with ServerProcess("counter_server.py", "64", "0", "0.5") as server:
            blocking = [GenericEnvClient(base_url=server.url, message_timeout_s=60).sync() for _ in range(16)]
            for client in blocking:
                client.reset()
            threads = [threading.Thread(target=wait, args=(client,), daemon=True) for client in blocking]
            for thread in threads:
                thread.start()
            killed_at: list[float] = []

            def kill() -> None:
                server.wait_for_lines(["held"] * 32)
                killed_at.append(time.monotonic())
                server.kill()

            clients = [GenericEnvClient(base_url=server.url, message_timeout_s=60) for _ in range(16)]
            errors += asyncio.run(wait_for_all(clients, kill))
            for thread in threads:
                thread.join(60)
            assert time.monotonic() - killed_at[0] < 30
            assert [type(error) for error in errors] == [ConnectionLostError] * 32
            for client in blocking:
                client.close()

    def test_the_next_call_finds_a_server_that_was_started_again(self) -> None:
        app = partial(create_fastapi_app, CounterEnvironment, Add, Total)
        with RunningServer(app()) as server:
            client: Any = GenericEnvClient(base_url=server.url)
            client.reset()
            assert total(client.step(ONE)) == 1
            port = server.port
        again = RunningServer(app())
        again.listener.close()
        again.listener = socket.create_server(("127.0.0.1", port))
        again._thread = threading.Thread(  # the same port again
            target=again._server.run,
            kwargs={"sockets": [again.listener]},
            daemon=True,
        )
        with again:
            assert total(client.reset()) == 0
            assert total(client.step(ONE)) == 1
            client.close()

    def test_no_answer_in_time_and_the_next_call_opens_a_new_session(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=2)
        client: Any = GenericEnvClient(base_url=server.url, message_timeout_s=0.3)
        client.reset()
        client.step({"amount": 2})
        with pytest.raises(ResponseTimeoutError):
            client.step(HELD)
        assert total(client.reset()) == 0
        assert total(client.step(ONE)) == 1
        client.close()

    def test_no_answer_in_time_gives_the_only_place_back(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate), max_concurrent_envs=1)
        client: Any = GenericEnvClient(base_url=server.url, message_timeout_s=0.3)
        client.reset()
        with pytest.raises(ResponseTimeoutError):
            client.step(HELD)
        server.wait_for_sessions(0)
        assert total(client.reset()) == 0
        client.close()

    async def test_a_cancelled_step_leaves_the_answers_in_order(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset()
            held = asyncio.ensure_future(client.step(HELD))
            await asyncio.to_thread(gate.wait_until_entered)
            held.cancel()
            following = asyncio.ensure_future(client.state())
            await asyncio.sleep(0)
            gate.opened.set()
            assert (await following)["step_count"] == 1
            assert total(await client.step(ONE)) == 10

    async def test_calls_at_the_same_time_are_played_in_order(self, counter_server: RunningServer) -> None:
        async with GenericEnvClient(base_url=counter_server.url) as client:
            await client.reset()
            results = await asyncio.gather(*(client.step(ONE) for _ in range(9)))
            assert [total(result) for result in results] == list(range(1, 10))

    def test_a_client_can_be_used_again_after_close(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        client: Any = GenericEnvClient(base_url=server.url)
        for _ in range(3):
            assert total(client.reset()) == 0
            client.close()
            client.close()
            server.wait_for_sessions(0)

    def test_disconnect_and_connect(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=1)
        client: Any = GenericEnvClient(base_url=server.url)
        assert client.connect() is client
        server.wait_for_sessions(1)
        client.disconnect()
        server.wait_for_sessions(0)
        assert total(client.reset()) == 0
        client.close()


class TestChildren:
    @pytest.mark.parametrize("further", [False, True])
    async def test_a_session_that_is_still_being_opened_is_ended(self, serve: Serve, further: bool) -> None:
        server = serve(max_concurrent_envs=2 if further else 1)
        async with GenericEnvClient(base_url=server.url) as holder:
            client = GenericEnvClient(base_url=server.url, capacity_wait_s=60)
            if further:
                await client.connect()
            opening = asyncio.ensure_future(client.new_session() if further else client.connect())
            await asyncio.to_thread(eventually, lambda: queued(server) == 1, "the request waits for the holder's slot")
            await client.close()
            await holder.disconnect()
            with pytest.raises(ConnectionLostError, match="by close"):
                await opening
            server.wait_for_sessions(0)

    def test_new_session_is_of_the_same_class_and_apart(self, serve: Serve) -> None:
        server = serve()
        with GenericEnvClient(base_url=server.url).sync() as client:
            client.reset()
            client.step(ONE)
            child = client.new_session()
            assert isinstance(child, SyncEnvClient)
            assert isinstance(child.async_client, GenericEnvClient)
            child.reset()
            assert total(child.step({"amount": 5})) == 5
            assert total(client.step(ONE)) == 2
            assert server.sessions.active_sessions == 2
        server.wait_for_sessions(0)

    async def test_a_close_that_is_cancelled_ends_the_session_none_the_less(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=4)
        client: Any = GenericEnvClient(base_url=server.url)
        await client.reset()
        children = [await client.new_session() for _ in range(3)]
        for rounds, child in enumerate(children):
            closing = asyncio.ensure_future(child.close())
            for _ in range(1 + rounds):
                await asyncio.sleep(0)  # it has begun
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
        await asyncio.to_thread(server.wait_for_sessions, 1)
        await client.close()

    def test_a_server_is_reached_by_the_address_that_stands_for_all(self, serve: Serve) -> None:
        server = serve()
        url = server.url.replace("127.0.0.1", "0.0.0.0")
        assert url != server.url
        with GenericEnvClient(base_url=url).sync() as client:
            assert total(client.reset()) == 0
            assert client.schemas()["action"]["title"] == "Add"

    async def test_a_child_is_closed_with_its_parent(self, serve: Serve) -> None:
        server = serve()
        client = GenericEnvClient(base_url=server.url)
        child = await client.new_session()
        grandchild = await child.new_session()
        await grandchild.reset()
        await client.close()
        await asyncio.to_thread(server.wait_for_sessions, 0)


class ThreadProvider(RuntimeProvider):
    """Starts a server in a thread of this process, and keeps count."""

    def __init__(self, *, fails: str = "") -> None:
        self.calls: list[str] = []
        self.fails = fails
        self._server: RunningServer | None = None

    @property
    def base_url(self) -> str:
        if self._server is None:
            raise ProviderError("not started")
        return self._server.url

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        self.calls.append("start")
        if self.fails == "start":
            raise ProviderError("no machine to be had")
        self._server = RunningServer(create_fastapi_app(CounterEnvironment, Add, Total, max_concurrent_envs=4)).start()
        return self._server.url

    def wait_for_ready(self, timeout_s: float = 30.0) -> None:
        self.calls.append("wait")
        if self.fails == "wait":
            raise TimeoutError("never ready")
        super().wait_for_ready(timeout_s)

    def stop(self) -> None:
        self.calls.append("stop")
        if self._server is not None:
            self._server.stop()
            self._server = None


class ThreadContainerProvider(ContainerProvider):
    """The same in the form of a container provider that was made with its image."""

    def __init__(self) -> None:
        self.runtime = ThreadProvider()
        self.calls = self.runtime.calls

    def start_container(
        self, image: str = "counter", port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        return self.runtime.start()

    def stop_container(self) -> None:
        self.runtime.stop()

    def close(self) -> None:
        self.calls.append("close")


class TestProviders:
    def test_the_first_use_starts_the_server_and_close_stops_it_once(self) -> None:
        provider = ThreadProvider()
        client: Any = GenericEnvClient(provider=provider)
        assert (client.base_url, provider.calls) == (None, [])
        assert total(client.reset()) == 0
        assert client.base_url == provider.base_url
        assert total(client.step(ONE)) == 1
        client.close()
        client.close()
        assert provider.calls == ["start", "wait", "stop"]

    async def test_async(self) -> None:
        provider = ThreadProvider()
        async with GenericEnvClient(provider=provider) as client:
            await asyncio.gather(*(client.reset() for _ in range(5)))
        assert provider.calls == ["start", "wait", "stop"]

    def test_children_use_the_same_server_and_do_not_stop_it(self) -> None:
        provider = ThreadProvider()
        with GenericEnvClient(provider=provider).sync() as client:
            child = client.new_session()
            child.reset()
            child.close()
            assert total(client.reset()) == 0
        assert provider.calls == ["start", "wait", "stop"]

    def test_a_container_provider(self) -> None:
        provider = ThreadContainerProvider()
        with GenericEnvClient(provider=provider).sync() as client:
            assert total(client.reset()) == 0
        assert provider.calls == ["start", "stop", "close"]

    @pytest.mark.parametrize(("fails", "error"), [("start", ProviderError), ("wait", TimeoutError)])
    def test_a_server_that_does_not_come_up_is_not_left_running(self, fails: str, error: type[Exception]) -> None:
        provider = ThreadProvider(fails=fails)
        client: Any = GenericEnvClient(provider=provider)
        with pytest.raises(error):
            client.reset()
        assert provider.calls[-1] == "stop"
        client.close()

    def test_the_server_is_stopped_even_if_nothing_was_ever_sent(self) -> None:
        provider = ThreadProvider()
        with GenericEnvClient(provider=provider).sync():
            pass
        assert provider.calls == ["start", "wait", "stop"]

    def test_the_server_is_stopped_although_its_session_was_lost(self) -> None:
        provider = ThreadProvider()
        client: Any = GenericEnvClient(provider=provider)
        client.reset()
        provider.stop()
        client.close()
        assert provider.calls == ["start", "wait", "stop", "stop"]

    def test_neither_an_address_nor_a_provider(self) -> None:
        with pytest.raises(ConfigurationError, match="base_url"):
            GenericEnvClient()


class TestSettings:
    @pytest.mark.parametrize(
        "form", ["http://127.0.0.1:{}/", "ws://127.0.0.1:{}", "127.0.0.1:{}", "http://localhost:{}"]
    )
    def test_every_form_of_address_connects(self, counter_server: RunningServer, form: str) -> None:
        with GenericEnvClient(base_url=form.format(counter_server.port)).sync() as client:
            assert total(client.reset()) == 0

    def test_headers_are_part_of_the_handshake(self) -> None:
        seen: list[str | None] = []

        def handler(connection: ServerConnection) -> None:
            assert connection.request is not None
            seen.append(connection.request.headers.get("Authorization"))

        with answering(handler) as url, GenericEnvClient(base_url=url, headers={"Authorization": "Bearer x"}).sync():
            eventually(lambda: seen == ["Bearer x"], "the header")

    def test_loopback_bypasses_proxies(self, counter_server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "https_proxy", "all_proxy", "ws_proxy", "wss_proxy", "socks_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
            monkeypatch.setenv(name.upper(), "http://127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with GenericEnvClient(base_url=counter_server.url).sync() as client:
            assert total(client.reset()) == 0

    def test_the_mode(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert GenericEnvClient(base_url="h").mode == "simulation"
        assert GenericEnvClient(base_url="h", mode="PRODUCTION").mode == "production"
        monkeypatch.setenv("OPENENV_CLIENT_MODE", "Production")
        client = GenericEnvClient(base_url="h")
        assert client.mode == "production"
        with pytest.raises(AttributeError):
            client.mode = "simulation"  # type: ignore[misc]
        with pytest.raises(ConfigurationError, match="'bogus'"):
            GenericEnvClient(base_url="h", mode="bogus")
        monkeypatch.setenv("OPENENV_CLIENT_MODE", "wrong")
        with pytest.raises(ConfigurationError, match=r"in OPENENV_CLIENT_MODE: .* got 'wrong'"):
            GenericEnvClient(base_url="h")

    def test_the_client_is_abstract(self) -> None:
        with pytest.raises(TypeError, match="abstract"):
            EnvClient(base_url="h")  # type: ignore[abstract]


class Doubling(GenericEnvClient):
    """A subclass as users write it: it overrides a method as a coroutine."""

    async def step(self, action: Any, **kwargs: Any) -> Any:
        await super().step(action)
        return await super().step(action)


class TestSubclass:
    async def test_async(self, counter_server: RunningServer) -> None:
        async with Doubling(base_url=counter_server.url) as client:
            await client.reset()
            assert total(await client.step(ONE)) == 2

    def test_through_the_facade(self, counter_server: RunningServer) -> None:
        with Doubling(base_url=counter_server.url).sync() as client:
            client.reset()
            assert total(client.step(ONE)) == 2


def sockets() -> int:
    count = 0
    for descriptor in OPEN_FILES.iterdir():
        try:
            count += str(descriptor.readlink()).startswith("socket:")
        except FileNotFoundError:  # closed since
            continue
    return count


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts sockets in /proc, which only Linux has")
class TestLeaks:
    """200 sessions come and go, and nothing of them stays."""

    def counts(self) -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), sockets()

    @pytest.mark.parametrize("environment", [CounterEnvironment, GatedEnvironment], ids=["inline", "thread"])
    def test_blocking(self, serve: Serve, gate: Gate, environment: Any) -> None:
        factory = partial(environment, gate) if environment is GatedEnvironment else environment
        server = serve(factory, max_concurrent_envs=8, resume_window_s=0)

        def play(number: int) -> None:
            client = GenericEnvClient(base_url=server.url).sync()
            client.reset()
            client.step(ONE)
            if number % 2:
                client.close()
            else:
                link = client.async_client._client_session  # to cut it off as a crash does
                assert link is not None
                link.connection.loop.call_soon_threadsafe(link.connection.transport.abort)

        play(1)
        server.wait_for_sessions(0)
        before = self.counts()
        for number in range(200):
            play(number)
            server.wait_for_sessions(0)
        eventually(lambda: self.counts() <= before, f"{self.counts()} threads and sockets instead of {before}")

    def test_async(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=50, resume_window_s=0)
        tasks: list[int] = []

        async def play(number: int) -> None:
            # With headers of its own it has a connection of its own.
            client = GenericEnvClient(base_url=server.url, headers={"X-Number": str(number)})
            await client.reset()
            if number % 2:
                await client.close()
            else:
                assert client._client_session is not None  # to cut it off as a crash does
                client._client_session.connection.transport.abort()

        async def play_all() -> None:
            for start in range(0, 200, 20):
                await asyncio.gather(*(play(number) for number in range(start, start + 20)))
                await asyncio.to_thread(server.wait_for_sessions, 0)
            await asyncio.sleep(0.05)
            tasks.append(len(asyncio.all_tasks()))

        asyncio.run(play_all())
        before = self.counts()
        asyncio.run(play_all())
        assert tasks == [1, 1]
        eventually(lambda: self.counts() <= before, f"{self.counts()} threads and sockets instead of {before}")
