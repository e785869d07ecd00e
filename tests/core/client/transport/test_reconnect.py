"""What becomes of sessions whose connection goes: real servers and clients, with a proxy between them that cuts."""

import asyncio
import gc
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.conftest import Serve
from tests.support.environments.common import CounterEnvironment, Gate, GatedEnvironment
from tests.support.keeper import Keeper, Once, close_with, cut_off
from tests.support.proxy import Proxy, Way
from tests.support.servers import PROGRAMS, RunningServer, ServerProcess, answering, eventually
from tests.support.vectors import HELD, ONE, make_server, shown, total
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection

from openenv.core.client.generic import GenericEnvClient
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    EpisodeOrderError,
    RequestNotSentError,
    ResponseTimeoutError,
    ServerExecutionError,
    ServerSessionLostError,
    ServerUnauthorizedError,
)

pytestmark = pytest.mark.timeout(180)

SLOTS = 3
UNDISTURBED = [0, 1, 2, 3, 4]
WAYS = list(Way)


class AddingEnvironment(CounterEnvironment):
    """Counts, and never ends."""

    def step(self, action: Any) -> Any:
        return super().step(action).model_copy(update={"done": False})


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with make_server("v1", AddingEnvironment, max_concurrent_envs=200) as server:
        yield server


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


def client_of(url: str, **given: Any) -> GenericEnvClient:
    given.setdefault("message_timeout_s", 60)
    return GenericEnvClient(base_url=url, **given)


async def play(url: str) -> list[Any]:
    """What a client and a vector show, step by step, errors included, which a client must not lose either."""
    client = client_of(url)
    await connected(client)
    async with client:
        first = await client.reset(seed=7)
        vector = await client.vector(SLOTS)
        seen: list[Any] = [first.observation]
        results = await asyncio.gather(vector.reset(seeds=range(SLOTS)), client.reset(seed=8))
        for amount in (1, 0, 2, -1, 3):
            seen.append([shown(results[0]), results[1] if isinstance(results[1], type) else total(results[1])])
            results = await asyncio.gather(vector.step([{"amount": amount + n} for n in range(SLOTS)]), one(client))
        state = await client.state()
        return [*seen, state["step_count"]]


async def one(client: GenericEnvClient) -> Any:
    return await client.step(ONE)


class TestCuts:
    @settings(max_examples=25)
    @pytest.mark.level("process")  # each cut costs a connection
    @given(st.lists(st.tuples(st.sampled_from(WAYS), st.integers(0, 4000)), min_size=1, max_size=4))
    @example([(Way.TO_SERVER, 1), (Way.TO_SERVER, 1), (Way.TO_CLIENT, 1)])
    @example([(Way.TO_CLIENT, 2500), (Way.TO_CLIENT, 300), (Way.TO_CLIENT, 300)])
    @example([(Way.TO_CLIENT, 2600), (Way.TO_SERVER, 1200), (Way.TO_SERVER, 1300)])
    def test_at_any_byte_change_nothing(self, server: RunningServer, cuts: list[tuple[Way, int]]) -> None:
        """Not the rewards, not the errors, not how often a step is carried out."""
        expected = asyncio.run(play(server.url))
        with Proxy(server.port) as proxy:
            first = client_of(proxy.url).sync()
            first.reset()  # an opened session to begin with: what can't be opened at all is an error as ever
            for way, count in cuts:
                proxy.cut_after(way, count)
            assert asyncio.run(play(proxy.url)) == expected
            first.step(ONE)
            assert total(first.step(ONE)) == 2
            first.close()

    async def test_every_byte_of_a_step_and_of_what_takes_the_session_up(self, proxy: Proxy) -> None:
        async with client_of(proxy.url) as client:
            await client.reset()
            steps = 0
            for turn, count in enumerate(range(0, 600, 11), 1):
                proxy.cut_after(WAYS[turn % 2], count)
                while proxy.plans_cut:  # or else several would fall into one step, which is sent again five times only
                    steps += 1
                    assert total(await client.step(ONE)) == steps
            assert proxy.cuts >= turn

    async def test_again_and_again_while_hundreds_of_sessions_step(self, proxy: Proxy) -> None:
        async with client_of(proxy.url) as client:
            vector = await client.vector(100)
            await vector.reset()
            for number in range(1, 21):
                proxy.cut_after(WAYS[number % 2], 3_000 * (number % 5))
                assert shown(await vector.step([ONE] * 100)) == [number] * 100
            assert proxy.cuts >= 15

    def test_under_blocking_clients_in_threads(self, proxy: Proxy) -> None:
        def use(number: int) -> list[int]:
            with client_of(proxy.url).sync() as client:
                client.reset(seed=number)
                return [total(client.step(ONE)) for _ in range(30)]

        stop = threading.Event()
        cutting = threading.Thread(target=cut_until, args=(proxy, stop))
        with ThreadPoolExecutor(16) as pool:
            futures = [pool.submit(use, number) for number in range(16)]
            cutting.start()
            try:
                assert [future.result(60) for future in futures] == [list(range(1, 31))] * 16
            finally:
                stop.set()
                cutting.join()

    async def test_a_step_under_way_goes_on_and_its_answer_comes_later(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with Proxy(server.port) as proxy:
            async with client_of(proxy.url) as client:
                await client.reset()
                held = asyncio.ensure_future(client.step(HELD))
                await asyncio.to_thread(gate.wait_until_entered)
                for _ in range(3):
                    connections = proxy.accepted
                    proxy.cut()
                    await until(lambda connections=connections: proxy.accepted > connections)
                gate.opened.set()
                assert total(await held) == 9
                assert gate.calls.count("step") == 1

    async def test_what_was_asked_meanwhile_is_carried_out_in_turn(self, proxy: Proxy) -> None:
        async with client_of(proxy.url) as client:
            await client.reset()
            proxy.refuse()
            proxy.cut()
            calls = [asyncio.ensure_future(client.step(ONE)) for _ in range(10)]
            other = asyncio.ensure_future(client.new_session())
            await asyncio.sleep(0.2)
            assert not any(call.done() for call in [*calls, other])
            calls[4].cancel()
            proxy.accept()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [total(result) for result in results if not isinstance(result, BaseException)] == [*range(1, 10)]
            assert total(await (await other).reset()) == 0

    async def test_a_cancelled_step_that_was_sent_is_carried_out_once(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        with Proxy(server.port) as proxy:
            async with client_of(proxy.url) as client:
                await client.reset()
                held = asyncio.ensure_future(client.step(HELD))
                await asyncio.to_thread(gate.wait_until_entered)
                held.cancel()
                proxy.cut()
                gate.opened.set()
                assert total(await client.step(ONE)) == 10

    def test_with_several_workers_each_session_is_found_by_the_one_that_holds_it(self) -> None:
        with ServerProcess("worker_server.py", "2", "64", "1") as server, Proxy(server.port) as proxy:
            client: Any = client_of(proxy.url)
            vector = client.vector(8)
            vector.reset()
            homes = [result.observation["process"] for result in vector.step([ONE] * 8)]
            assert len(set(homes)) == 2
            for number in range(2, 8):
                assert proxy.cut() == 2
                results = vector.step([ONE] * 8)
                assert shown(results) == [number] * 8
                assert [result.observation["process"] for result in results] == homes
            client.close()


def cut_until(proxy: Proxy, stop: threading.Event) -> None:
    pause_s = 0.05
    while not stop.wait(pause_s):
        proxy.cut()
        pause_s *= 1.2  # a slow machine opens no connection for all between two cuts


async def connected(client: GenericEnvClient) -> None:
    """Open a session. Until there is one, a connection that goes is an error, and no outage."""
    while True:
        try:
            await client.connect()
        except (ConnectionFailedError, ConnectionLostError):
            continue
        return


async def until(condition: Any) -> None:
    await asyncio.to_thread(eventually, condition, "it happens")


class TestHalfOpen:
    async def test_a_connection_on_which_nothing_arrives_is_replaced(self, proxy: Proxy) -> None:
        async with client_of(proxy.url, websocket_ping_interval_s=0.2, websocket_ping_timeout_s=0.2) as client:
            await client.reset()
            proxy.pause()
            stepping = asyncio.ensure_future(client.step(ONE))
            await until(lambda: proxy.accepted == 2)
            proxy.go_on()
            assert total(await stepping) == 1
            assert total(await client.step(ONE)) == 2

    async def test_a_server_that_froze_goes_on(self) -> None:
        with ServerProcess("counter_server.py", "4") as server:
            given = {"websocket_ping_interval_s": 0.2, "websocket_ping_timeout_s": 0.2}
            async with client_of(server.url, **given) as client:
                vector = await client.vector(3)
                await vector.reset()
                server.process.send_signal(19)  # SIGSTOP
                stepping = asyncio.ensure_future(vector.step([ONE] * 3))
                await asyncio.sleep(1.5)
                server.process.send_signal(18)  # SIGCONT
                assert shown(await stepping) == [1] * 3


class TestWindow:
    @pytest.fixture
    def short(self, serve: Serve) -> RunningServer:
        return serve(AddingEnvironment, resume_window_s=0.6, max_concurrent_envs=16)

    async def test_when_it_has_passed_everybody_is_told(self, short: RunningServer) -> None:
        with Proxy(short.port) as proxy:
            client, vector = client_of(proxy.url), await (other := client_of(proxy.url)).vector(3)
            await asyncio.gather(client.reset(), vector.reset())
            proxy.refuse()
            proxy.cut()
            begun = time.monotonic()
            results = await asyncio.gather(
                vector.step([ONE] * 3), client.step(ONE), one(client), return_exceptions=True
            )
            assert 0.5 < time.monotonic() - begun < 20
            assert {type(result) for result in [*results[0], *results[1:]]} <= {
                ConnectionLostError,
                RequestNotSentError,
            }
            said = str(results[1])
            assert "within 0.6 s" in said
            assert "resume_window_s" in said
            assert "Last failure: Failed to connect to " in said
            proxy.accept()
            with pytest.raises(EpisodeOrderError):
                await client.step(ONE)
            assert total(await client.reset()) == 0
            assert shown(await vector.reset()) == [0] * 3
            await asyncio.gather(client.close(), other.close())
            await asyncio.to_thread(short.wait_for_sessions, 0)

    async def test_a_session_that_the_server_has_ended_meanwhile_is_lost(self, short: RunningServer) -> None:
        """The client learns of a loss later than the server: its window begins later too."""
        with Proxy(short.port) as proxy:
            given = {"websocket_ping_interval_s": 1.5, "websocket_ping_timeout_s": 0.2}
            client = client_of(proxy.url, **given)
            await client.reset()
            proxy.cut_server()
            with pytest.raises(ConnectionLostError, match="the server does not keep the session"):
                await client.step(ONE)
            assert total(await client.reset()) == 0
            await client.close()

    def test_a_window_of_0_means_none(self, serve: Serve) -> None:
        server = serve(resume_window_s=0)
        with Proxy(server.port) as proxy:
            client: Any = client_of(proxy.url)
            client.reset()
            proxy.pause()
            with ThreadPoolExecutor(1) as pool:
                stepping = pool.submit(client.step, ONE)
                proxy.cut()
                proxy.go_on()
                with pytest.raises((ConnectionLostError, EpisodeOrderError)):
                    stepping.result(60)
            assert total(client.reset()) == 0
            client.close()

    def test_a_legacy_session_ends_with_its_connection(self) -> None:
        with make_server("legacy", max_concurrent_envs=4) as server, Proxy(server.port) as proxy:
            client: Any = client_of(proxy.url)
            client.reset()
            proxy.cut()
            with pytest.raises((ConnectionLostError, EpisodeOrderError)):
                client.step(ONE)
            assert total(client.reset()) == 0
            client.close()

    def test_a_server_that_was_restarted_without_a_journal_says_that_it_has_no_such_session(self) -> None:
        with ServerProcess("counter_server.py", "4") as server, Proxy(server.port) as proxy:
            client: Any = client_of(proxy.url)
            vector = client.vector(2)
            vector.reset()
            with ThreadPoolExecutor(1) as pool:
                stepping = pool.submit(vector.step, [HELD, HELD])
                server.wait_for_lines(["held"] * 2)
                server.kill()
                with ServerProcess("counter_server.py", "4") as restarted:
                    proxy.server_port = restarted.port
                    results = stepping.result(60)
                    assert shown(results) == [ConnectionLostError] * 2
                    assert "does not keep the session" in str(results[0])
                    assert shown(vector.reset()) == [0] * 2
                    client.close()

    async def test_a_reset_that_was_not_sent_yet_is_asked_again_in_a_new_session(self, server: RunningServer) -> None:
        """As where a server was restarted between two calls, and nobody was waiting."""
        with make_server("v1", max_concurrent_envs=16) as other, Proxy(server.port) as proxy:
            clients = [client_of(proxy.url) for _ in range(3)]
            vector = await clients[0].vector(2)
            await asyncio.gather(vector.reset(), clients[1].reset(), clients[2].reset())
            blocking = client_of(proxy.url).sync()
            await asyncio.to_thread(blocking.reset)
            proxy.refuse()
            proxy.cut()
            proxy.server_port = other.port
            links = [client._client_session for client in (*clients[1:], blocking.async_client)]
            await until(lambda: not any(link is not None and link.connection.is_open for link in links))
            calls = [
                asyncio.ensure_future(call)
                for call in (vector.reset(), clients[1].reset(), asyncio.to_thread(blocking.reset))
            ]
            stepping = asyncio.ensure_future(clients[2].step(ONE))
            await asyncio.sleep(0)
            proxy.accept()
            results: list[Any] = await asyncio.gather(*calls)
            assert (shown(results[0]), total(results[1]), total(results[2])) == ([0, 0], 0, 0)
            with pytest.raises(RequestNotSentError, match="does not keep the session"):
                await stepping
            await asyncio.to_thread(blocking.close)
            await asyncio.gather(*(client.close() for client in clients))
            await asyncio.to_thread(other.wait_for_sessions, 0)


class TestGivingUp:
    async def test_a_call_that_takes_too_long_gives_its_session_up_and_no_other(self, proxy: Proxy) -> None:
        hasty, patient = client_of(proxy.url, message_timeout_s=0.3), client_of(proxy.url)
        await asyncio.gather(hasty.reset(), patient.reset())
        proxy.refuse()
        proxy.cut()
        waiting = asyncio.ensure_future(patient.step(ONE))
        with pytest.raises(ResponseTimeoutError):
            await hasty.step(ONE)
        proxy.accept()
        assert total(await waiting) == 1
        with pytest.raises(EpisodeOrderError):
            await hasty.step(ONE)
        await asyncio.gather(hasty.close(), patient.close())

    async def test_a_session_closed_in_an_outage_is_ended_on_the_next_connection(self, serve: Serve) -> None:
        server = serve()
        with Proxy(server.port) as proxy:
            await self.close_one_of_two(server, proxy)

    async def close_one_of_two(self, server: RunningServer, proxy: Proxy) -> None:
        first, second = client_of(proxy.url), client_of(proxy.url)
        await asyncio.gather(first.reset(), second.reset())
        proxy.refuse()
        proxy.cut()
        waiting = asyncio.ensure_future(first.step(ONE))
        stepping = asyncio.ensure_future(second.step(ONE))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        await second.close()
        assert time.monotonic() - begun < 5
        with pytest.raises(ConnectionLostError, match="The client closed"):
            await stepping
        proxy.accept()
        assert total(await waiting) == 1
        await asyncio.to_thread(server.wait_for_sessions, 1)
        await first.close()
        await asyncio.to_thread(server.wait_for_sessions, 0)

    @pytest.mark.parametrize("how", ["refused", "silent"])
    async def test_nothing_is_left_when_all_is_closed_in_an_outage(self, server: RunningServer, how: str) -> None:
        before = count_hubs()
        await self.close_all(server, how)
        assert len(asyncio.all_tasks()) == 1
        assert count_hubs() <= before

    async def close_all(self, server: RunningServer, how: str) -> None:
        with Proxy(server.port) as proxy:
            clients = [client_of(proxy.url) for _ in range(3)]
            vector = await clients[0].vector(3)
            await asyncio.gather(vector.reset(), *(client.reset() for client in clients))
            if how == "silent":
                proxy.pause()
            else:
                proxy.refuse()
            proxy.cut()
            calls = [asyncio.ensure_future(one(client)) for client in clients]
            await asyncio.sleep(0.15)
            begun = time.monotonic()
            await asyncio.gather(*(client.close() for client in clients))
            assert time.monotonic() - begun < 5
            for call in calls:
                with pytest.raises(ConnectionLostError, match="The client closed"):
                    await call
            proxy.go_on()

    def test_a_blocking_client_closes_in_an_outage_at_once(self, proxy: Proxy) -> None:
        before = count_hubs()
        client: Any = client_of(proxy.url)
        client.reset()
        proxy.refuse()
        proxy.cut()
        begun = time.monotonic()
        client.close()
        asyncio.run(close_elsewhere(proxy))
        assert time.monotonic() - begun < 10
        eventually(lambda: count_hubs() <= before, "nothing is left")

    @pytest.mark.parametrize("way", ["async", "sync"])
    def test_a_program_that_ends_in_an_outage_ends_at_once(self, proxy: Proxy, way: str) -> None:
        program = [sys.executable, "-X", "dev", "-W", "error", str(PROGRAMS / "lost_client.py"), proxy.url, way]
        with subprocess.Popen(
            program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE
        ) as running:
            assert running.stdin is not None
            assert running.stdout is not None
            assert running.stdout.readline() == b"ready\n"
            proxy.refuse()
            proxy.cut()
            begun = time.monotonic()
            stdout, stderr = running.communicate(b"end\n", timeout=60)
        assert (stdout, stderr, running.returncode) == (b"done\n", b"", 0)
        assert time.monotonic() - begun < 20

    @pytest.mark.parametrize("phase", ["executor", "generators", "tasks"])
    def test_a_loop_that_ends_between_two_attempts_leaves_none(
        self, proxy: Proxy, caplog: pytest.LogCaptureFixture, phase: str
    ) -> None:
        caplog.set_level(logging.INFO, "openenv")
        lingering: list[Any] = []
        with asyncio.Runner() as runner:
            runner.run(leave_in_an_outage(proxy, phase, lingering))
            before = proxy.accepted
        proxy.refuse()
        proxy.go_on()
        gc.collect()
        assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
        assert phase == "tasks" or proxy.accepted == before  # tasks that are cancelled may still use the session


class LossNotice(logging.Handler):
    """Notice that a client connects again."""

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "Connecting again" in record.getMessage():
            self.came.set()


async def leave_in_an_outage(proxy: Proxy, phase: str, lingering: list[Any]) -> None:
    """Return between two attempts to connect again, while something makes the end of the loop last for half a second.

    That is ten times the first pause, so that the next attempt falls due; nothing answers it.
    """
    vector = await client_of(proxy.url).vector(2)
    await vector.reset()
    notice = LossNotice()
    logging.getLogger("openenv").addHandler(notice)
    if phase == "executor":
        asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 0.5)
    elif phase == "generators":
        lingering.append(linger())
        await anext(lingering[0])
    else:
        lingering.append(asyncio.create_task(ended_late()))
        await asyncio.sleep(0)
    proxy.pause()
    await asyncio.to_thread(proxy.cut)
    await asyncio.wait_for(notice.came.wait(), 60)
    logging.getLogger("openenv").removeHandler(notice)


async def linger() -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.sleep(0.5)


async def ended_late() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.5)


async def close_elsewhere(proxy: Proxy) -> None:
    """Close a blocking client's session from another loop, in an outage."""
    client = client_of(proxy.url)
    proxy.accept()
    await asyncio.to_thread(client.sync().reset)
    proxy.refuse()
    proxy.cut()
    await asyncio.sleep(0.1)
    await client.disconnect()


def count_hubs() -> int:
    gc.collect()
    return sum(type(one).__name__ in ("SharedConnection", "ConnectionPool", "Reconnect") for one in gc.get_objects())


class TestServers:
    async def test_all_sessions_are_taken_up_in_one_frame_with_what_they_need(self) -> None:
        keeper = Keeper()
        keeper.instead["step"] = Once(keeper, close_with(1012))
        with answering(keeper.play, subprotocols=["openenv.v1"]) as url:
            client = client_of(url)
            vector = await client.vector(3)
            await vector.reset()
            assert shown(await vector.step([ONE, None, {"amount": 5}])) == [2, None, 2]
            attaches = keeper.of_type("attach")
            assert keeper.headers == [None, "s1"]
            assert [message["session"] for message in attaches] == ["s1", "s2", "s3"]
            assert [message["id"] for message in attaches] == [4, 5, 6]
            assert attaches[0]["data"]["token"] == "token of s1"
            assert [message["data"]["answered"] for message in attaches] == [1, 1, 1]
            again = [
                (message["id"], message["data"]) for message in keeper.of_type("step") if message["session"] == "s3"
            ]
            assert again[-1] == (2, {"amount": 5})
            await client.close()

    @pytest.mark.parametrize("name", ["ä", "a\r\nX-Evil: 1", "", "x" * 5000])
    async def test_a_name_that_fits_no_header_stands_in_none(self, name: str) -> None:
        keeper = Keeper()
        keeper.instead["step"] = Once(keeper, close_with(1012))
        keeper.instead["open"] = lambda connection, message: {**keeper.answer(connection, message), "session": name}
        with answering(keeper.play, subprotocols=["openenv.v1"]) as url:
            async with client_of(url) as client:
                await client.reset()
                assert total(await client.step(ONE)) == 2
                assert keeper.headers == [None, None]

    @pytest.mark.parametrize("code", [1000, 1001, 1006, 1011, 1012, 1013, 4000])
    async def test_a_server_that_leaves_is_waited_for(self, code: int) -> None:
        keeper = Keeper()
        keeper.instead["step"] = Once(keeper, cut_off if code == 1006 else close_with(code))
        with answering(keeper.play, subprotocols=["openenv.v1"]) as url:
            async with client_of(url) as client:
                await client.reset()
                assert total(await client.step(ONE)) == 2

    @pytest.mark.parametrize("code", [1002, 1003, 1007, 1008, 1009])
    async def test_what_a_server_can_t_take_is_not_sent_again(self, code: int) -> None:
        keeper = Keeper(step=close_with(code))
        with answering(keeper.play, subprotocols=["openenv.v1"]) as url:
            client = client_of(url)
            await client.reset()
            with pytest.raises(ConnectionLostError, match=f"{code} enough"):
                await client.step(ONE)
            assert (keeper.connections, len(keeper.of_type("step"))) == (1, 1)
            assert total(await client.reset()) == 1
            await client.close()

    @pytest.mark.parametrize("kind", ["step", "attach", "open"])
    async def test_what_ends_every_connection_is_not_sent_for_ever(self, kind: str) -> None:
        keeper = Keeper(window_s=1)
        with answering(keeper.play, subprotocols=["openenv.v1"]) as url:
            client, other = client_of(url), client_of(url)
            await client.reset()
            keeper.instead.update({kind: cut_off, "step": cut_off} if kind == "attach" else {kind: cut_off})
            begun = time.monotonic()
            with pytest.raises(ConnectionError):
                await (other.reset() if kind == "open" else client.step(ONE))
            assert time.monotonic() - begun < 30
            assert 2 < keeper.connections < 60
            keeper.instead.clear()
            assert total(await client.reset()) >= 1
            await asyncio.gather(client.close(), other.close())

    @pytest.mark.parametrize(
        ("data", "error", "said"),
        [
            ({"code": "SESSION_LOST", "message": "step 3 differs"}, ServerSessionLostError, "step 3 differs"),
            ({"code": "SESSION_ERROR", "message": "No such session."}, ConnectionLostError, "No such session."),
            ({"code": "UNAUTHORIZED", "message": "Another token."}, ServerUnauthorizedError, "Another token."),
            ({"code": "EXECUTION_ERROR", "message": "boom"}, ServerExecutionError, "boom"),
        ],
        ids=lambda value: value["code"] if isinstance(value, dict) else "",
    )
    async def test_a_session_that_is_refused_is_lost_alone(self, data: Any, error: Any, said: str) -> None:
        keeper = Keeper()

        def attach(connection: ServerConnection, message: dict[str, Any]) -> Any:
            if message["session"] == "s2":
                return {"type": "error", "id": message["id"], "data": data}
            return keeper.answer(connection, message)

        keeper.instead.update(step=Once(keeper, cut_off), attach=attach)
        with answering(keeper.play, subprotocols=["openenv.v1"]) as url:
            client = client_of(url)
            vector = await client.vector(3)
            await vector.reset()
            results = await vector.step([ONE] * 3)
            assert shown(results) == [2, error, 2]
            assert said in str(results[1])
            assert shown(await vector.reset()) == [3, 1, 3]
            await client.close()

    async def test_a_server_that_asks_for_another_token_ends_the_attempts(self) -> None:
        keeper = Keeper(window_s=30, step=cut_off)

        def refuse(connection: ServerConnection, _request: Request) -> Response | None:
            if keeper.connections == 0:
                return None
            return connection.respond(401, json.dumps({"detail": "Give the new token.", "code": "UNAUTHORIZED"}))

        with answering(keeper.play, subprotocols=["openenv.v1"], process_request=refuse) as url:
            client = client_of(url)
            await client.reset()
            begun = time.monotonic()
            with pytest.raises(ServerUnauthorizedError, match=r"Give the new token\."):
                await client.step(ONE)
            assert time.monotonic() - begun < 15
            await client.close()

    async def test_a_server_that_does_not_speak_v1_any_more_ends_the_attempts(self) -> None:
        with make_server("v1") as server, make_server("legacy") as legacy, Proxy(server.port) as proxy:
            client = client_of(proxy.url)
            await client.reset()
            proxy.server_port = legacy.port
            proxy.pause()
            stepping = asyncio.ensure_future(client.step(ONE))
            await asyncio.sleep(0)
            proxy.cut()
            proxy.go_on()
            with pytest.raises(ConnectionLostError, match="does not speak v1 any more"):
                await stepping
            assert total(await client.reset()) == 0
            await client.close()

    @pytest.mark.parametrize("window", [None, "30", True, -1, float("nan"), [], {}, 0])
    async def test_a_server_that_names_no_window_keeps_nothing(self, window: Any) -> None:
        keeper = Keeper(window_s=window, step=cut_off)
        if window is True:
            keeper.window_s = None
        with answering(keeper.play, subprotocols=["openenv.v1"]) as url:
            client = client_of(url)
            await client.reset()
            with pytest.raises(ConnectionLostError):
                await client.step(ONE)
            assert keeper.of_type("attach") == []
            await client.close()

    async def test_an_outage_is_logged_once_and_so_is_its_end(
        self, proxy: Proxy, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "openenv.core")
        async with client_of(proxy.url) as client:
            vector = await client.vector(3)
            await vector.reset()
            proxy.refuse()
            proxy.cut()
            stepping = asyncio.ensure_future(vector.step([ONE] * 3))
            await until(lambda: proxy.accepted > 2)
            proxy.accept()
            assert shown(await stepping) == [1] * 3
        name = "openenv.core.client.transport.shared_connection"
        lines = [record.getMessage() for record in caplog.records if record.name == name]
        assert lines == [
            "The server closed the connection without a closing handshake. Connecting again for 3 sessions, for 30 s",
            "Connected again: 3 sessions go on, 0 were lost",
        ]
