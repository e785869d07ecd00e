"""What is slow, hangs, breaks or goes in some slots of a vector."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import (
    AsyncMischievousEnvironment,
    Do,
    Gate,
    GatedEnvironment,
    HangingAsyncEnvironment,
    InlineMischievousEnvironment,
    Shown,
)
from tests.support.servers import RunningServer, ServerProcess, eventually
from tests.support.vectors import HELD, ONE, CountingClient, play, shown

from openenv.core.client.generic import GenericEnvClient
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    EpisodeOrderError,
    RequestNotSentError,
    ResponseTimeoutError,
    ServerExecutionError,
    ServerSessionError,
)

pytestmark = pytest.mark.timeout(180)


class TestApart:
    """What is slow, hangs, or breaks in one slot is of no matter to the other 63."""

    async def test_a_slow_slot_does_not_delay_the_other_63(self, serve_on: Serve, gate: Gate) -> None:
        server = serve_on(partial(GatedEnvironment, gate), max_concurrent_envs=128)
        async with CountingClient(base_url=server.url) as client:
            vector, other = await client.vector(64), await client.vector(63)
            await asyncio.gather(vector.reset(), other.reset())
            CountingClient.come = 0
            stepping = asyncio.ensure_future(vector.step([HELD, *[ONE] * 63]))
            await asyncio.to_thread(gate.wait_until_entered)
            await asyncio.to_thread(eventually, lambda: CountingClient.come == 63, "63 results while one slot is held")
            for number in range(1, 6):
                assert shown(await other.step([ONE] * 63)) == [number] * 63
            assert not stepping.done()
            gate.opened.set()
            assert shown(await stepping) == [9, *[1] * 63]

    @pytest.mark.parametrize(
        ("environment", "fault"),
        [
            (InlineMischievousEnvironment, "raise"),
            (AsyncMischievousEnvironment, "raise"),
            (InlineMischievousEnvironment, "unsendable"),
            (InlineMischievousEnvironment, "exit"),
        ],
    )
    def test_a_crashing_slot_is_one_error_and_63_results(self, serve_on: Serve, environment: Any, fault: str) -> None:
        def raise_it() -> Any:
            raise RuntimeError("boom")

        def leave() -> Any:
            raise SystemExit(3)

        table = {"raise": raise_it, "unsendable": lambda: Shown(value=object()), "exit": leave}
        server = serve_on(partial(environment, table), Do, Shown, max_concurrent_envs=65)
        with GenericEnvClient(base_url=server.url).sync() as client:
            vector = client.vector(64)
            vector.reset()
            for slot in (0, 31, 63):
                actions = [{"what": str(number)} for number in range(64)]
                actions[slot] = {"what": fault}
                results: list[Any] = vector.step(actions)
                assert isinstance(results.pop(slot), ServerExecutionError)
                assert [result.observation["value"] for result in results] == [
                    str(number) for number in range(64) if number != slot
                ]

    def test_the_log_names_the_slots_that_are_waited_for(
        self, serve_on: Serve, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = serve_on(HangingAsyncEnvironment, max_concurrent_envs=8)
        with GenericEnvClient(base_url=server.url, message_timeout_s=1).sync() as client:
            vector = client.vector(3)
            for _ in range(2):
                vector.reset()
                vector.step([HELD, ONE, HELD])
        said = [record.getMessage() for record in caplog.records if record.name == "openenv.core.client.vector"]
        given_up = "no answer of the environment within 1 s, given up: slot 0, 2"
        assert said == [
            "waiting for the environment's answer for 0.5 s now, which may take 1 s: slot 0, 2",
            given_up,
            given_up,  # whose wait was no longer than the one before
        ]

    def test_a_slot_that_hangs_is_given_up_and_opened_anew(self, serve_on: Serve) -> None:
        server = serve_on(HangingAsyncEnvironment, max_concurrent_envs=16)
        with GenericEnvClient(base_url=server.url, message_timeout_s=3).sync() as client:
            vector = client.vector(8)
            vector.reset()
            results = vector.step([HELD, *[ONE] * 6, HELD])
            assert shown(results) == [ResponseTimeoutError, *[1] * 6, ResponseTimeoutError]
            assert "3 s (message_timeout_s)" in str(results[0])
            results = vector.step([ONE] * 8)
            assert shown(results) == [EpisodeOrderError, *[2] * 6, EpisodeOrderError]
            assert shown(vector.reset(slots=[0, 7])) == [0, *[None] * 6, 0]
            assert shown(vector.step([ONE] * 8)) == [1, *[3] * 6, 1]

    def test_with_autoreset_a_slot_that_hung_begins_a_new_episode(self, serve_on: Serve) -> None:
        server = serve_on(HangingAsyncEnvironment, max_concurrent_envs=8)
        with GenericEnvClient(base_url=server.url, message_timeout_s=3).sync() as client:
            vector = client.vector(3, autoreset=True)
            vector.reset(seeds=[1, 2, 3])
            assert shown(vector.step([ONE, HELD, ONE])) == [1, ResponseTimeoutError, 1]
            assert shown(vector.step([ONE, ONE, ONE])) == [2, 0, 2]
            assert shown(vector.step([ONE, ONE, ONE])) == [3, 1, 3]

    def test_a_slot_that_hangs_keeps_no_place(self, serve: Serve) -> None:
        server = serve(HangingAsyncEnvironment, max_concurrent_envs=3)
        with GenericEnvClient(base_url=server.url, message_timeout_s=3).sync() as client:
            vector = client.vector(3)
            vector.reset()
            assert shown(vector.step([ONE, HELD, ONE])) == [1, ResponseTimeoutError, 1]
            assert shown(vector.reset()) == [0, 0, 0]

    def test_a_slot_whose_session_the_server_ends_is_opened_anew(self, serve_on: Serve) -> None:
        server = serve_on(max_concurrent_envs=8)
        client: Any = GenericEnvClient(base_url=server.url)
        vector = client.vector(3)
        play(vector, [ONE] * 3)
        asyncio.run_coroutine_threadsafe(close_one(server), server._server._loop).result(60)
        what = shown(vector.step([ONE] * 3))
        (lost,) = (slot for slot in range(3) if what[slot] != 2)
        assert issubclass(what[lost], ServerSessionError | ConnectionLostError)
        assert shown(vector.reset(slots=[lost]))[lost] == 0
        assert sorted(shown(vector.step([ONE] * 3))) == [1, 3, 3]
        client.close()


async def close_one(server: RunningServer) -> None:
    sessions = server.sessions._sessions
    sessions.close(next(iter(sessions)))


class TestLoss:
    def test_kill_9_in_the_middle_of_a_step(self) -> None:
        with ServerProcess("counter_server.py", "16", "0", "1") as server:
            client: Any = GenericEnvClient(base_url=server.url, message_timeout_s=60)
            vector = client.vector(8)
            vector.reset()
            with ThreadPoolExecutor(1) as pool:
                stepping = pool.submit(vector.step, [HELD, None, *[ONE] * 5, HELD])
                server.wait_for_lines(["held"] * 2)
                killed_at = time.monotonic()
                server.kill()
                results = stepping.result(60)
            assert time.monotonic() - killed_at < 30
            what = shown(results)
            assert (what[0], what[1], what[7]) == (ConnectionLostError, None, ConnectionLostError)
            # The others' answers may have been on their way.
            assert set(what[2:7]) <= {1, ConnectionLostError}
            with pytest.raises(ConnectionFailedError):
                raise vector.reset()[0]
            assert shown(vector.reset()) == [ConnectionFailedError] * 8
            with ServerProcess("counter_server.py", "16", str(server.port)):
                assert shown(vector.reset()) == [0] * 8
                assert shown(vector.step([ONE] * 8)) == [1] * 8
                client.close()

    def test_a_server_that_was_restarted_between_two_calls(self) -> None:
        with ServerProcess("counter_server.py", "16") as server:
            client: Any = GenericEnvClient(base_url=server.url, message_timeout_s=60)
            vector = client.vector(4, autoreset=True)
            play(vector, [ONE] * 4)
            server.kill()
        with ServerProcess("counter_server.py", "16", str(server.port)):
            results = shown(vector.step([ONE] * 4))
            assert set(results) <= {RequestNotSentError, ConnectionLostError}
            assert shown(vector.step([ONE] * 4)) == [0] * 4
            assert shown(vector.step([ONE] * 4)) == [1] * 4
            client.close()
