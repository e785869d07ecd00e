"""A session on v1: one request at a time, and sessions that continue from it."""

import asyncio
import gc
import json
import threading
import time
import weakref
from functools import partial
from itertools import count
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.environments.common import Add, CounterEnvironment, Gate, GatedEnvironment, Total
from tests.support.proxy import Proxy, Way
from tests.support.servers import answering
from tests.support.vectors import HELD, ONE, make_server, total
from websockets.sync.server import ServerConnection

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.sync import SyncEnvClient
from openenv.core.client.transport.shared_session import Terms
from openenv.core.client.typed import TypedEnvClient
from openenv.core.env_server.types import State
from openenv.core.exceptions import (
    ConfigurationError,
    EpisodeOrderError,
    InvalidAnswerError,
    ResponseTimeoutError,
    ServerCapacityError,
    ServerExecutionError,
)


class TestTerms:
    @pytest.mark.parametrize("data", [None, [], "text", 3, {}, {"token": 3, "resume_window_s": "30"}])
    def test_what_says_nothing_promises_nothing(self, data: Any) -> None:
        assert Terms.of(data) == (None, 0.0, None)

    @pytest.mark.parametrize("window", [-1, 0, float("nan"), float("inf"), 1e300, None, "1"])
    def test_a_window_is_a_number_of_seconds(self, window: Any) -> None:
        assert Terms.of({"token": "t", "resume_window_s": window}).window_s == 0

    def test_all(self) -> None:
        data = {"token": "t", "resume_window_s": 2.5, "max_message_bytes": 10, "last_id": 0}
        assert Terms.of(data) == ("t", 2.5, 10)
        assert Terms.of(data, "another") == ("another", 2.5, 10)


class TestTurns:
    async def test_one_request_of_a_session_is_under_way_at_a_time(self) -> None:
        server = Repeating()
        with answering(server.play, subprotocols=["openenv.v1"]) as url:
            async with GenericEnvClient(base_url=url) as client:
                results = await asyncio.gather(*(client.step({"amount": number}) for number in range(5)))
                assert [total(result) for result in results] == list(range(5))
        steps = [message for message in server.messages if message["type"] == "step"]
        assert [message["data"]["amount"] for message in steps] == list(range(5))
        assert [message["id"] for message in steps] == [1, 2, 3, 4, 5]
        assert server.longest_frame == 1

    async def test_a_request_that_is_cancelled_before_its_turn_is_never_sent(self, serve: Serve, gate: Gate) -> None:
        server = serve(partial(GatedEnvironment, gate))
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset()
            held = asyncio.ensure_future(client.step(HELD))
            await asyncio.to_thread(gate.wait_until_entered)
            later = [asyncio.ensure_future(client.reset()) for _ in range(3)]
            await asyncio.sleep(0)
            for call in later[:2]:
                call.cancel()
            gate.opened.set()
            assert total(await held) == 9
            assert total(await later[2]) == 0
            assert gate.calls.count("reset") == 2


class Repeating:
    """Plays a server of v1 that answers a step with its amount, and what ``instead`` has with something else.

    Args:
        **instead: By the type of a message, the answer's ``type`` and ``data``.
    """

    def __init__(self, **instead: tuple[str, Any]) -> None:
        self.instead = instead
        self.messages: list[dict[str, Any]] = []
        self.longest_frame = 0

    def play(self, connection: ServerConnection) -> None:
        for frame in connection:
            document = json.loads(frame)
            messages = document if isinstance(document, list) else [document]
            self.longest_frame = max(self.longest_frame, len(messages))
            for message in messages:
                self.messages.append(message)
                connection.send(json.dumps(self.answer(message)))

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        amount = message.get("data", {}).get("amount", 0)
        observed: dict[str, Any] = {"observation": {"total": amount}, "reward": None, "done": False}
        answers: dict[str, tuple[str, Any]] = {"open": ("opened", {}), "close": ("closed", {})}
        session = f"s{message['id']}"
        kind, data = {**answers, **self.instead}.get(message["type"], ("observation", observed))
        return {"type": kind, "id": message["id"], "session": message.get("session", session), "data": data}


class CounterEnv(TypedEnvClient[Add, Total, State]):
    """A typed client."""


class LockedEnvironment(CounterEnvironment):
    """Can be copied in no way, and plays no episode twice."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.first = next(numbers)

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Total:
        return super().reset(seed, episode_id).model_copy(update={"total": self.first})


numbers = count()


class TestFork:
    async def test_each_goes_on_from_the_same_state_on_its_own(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=16)
        async with CounterEnv(base_url=server.url) as parent:
            await parent.reset(seed=1)
            await parent.step(Add(amount=3))
            children = await parent.fork(3)
            assert [type(child) for child in children] == [CounterEnv] * 3
            amounts = [1, 2, 3, 4]
            stepped = await asyncio.gather(
                *(env.step(Add(amount=n)) for env, n in zip([parent, *children], amounts, strict=True))
            )
            assert [result.observation.total for result in stepped] == [4, 5, 6, 7]
            (grandchild,) = await children[2].fork()
            assert (await grandchild.step(Add(amount=1))).observation.total == 8
            assert server.sessions.active_sessions == 5
            assert server.connections == 1
            await children[0].close()
            await asyncio.to_thread(server.wait_for_sessions, 4)
        await asyncio.to_thread(server.wait_for_sessions, 0)

    def test_blocking(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=16)
        with GenericEnvClient(base_url=server.url).sync() as parent:
            parent.reset()
            parent.step({"amount": 3})
            children = parent.fork(2)
            assert [type(child) for child in children] == [SyncEnvClient] * 2
            assert [total(child.step(ONE)) for child in children] == [4, 4]
        server.wait_for_sessions(0)
        bare: Any = GenericEnvClient(base_url=server.url)
        bare.reset()
        assert total(bare.fork(1)[0].step(ONE)) == 1
        bare.close()
        server.wait_for_sessions(0)

    @pytest.mark.parametrize("count", [0, -1])
    async def test_at_least_one(self, count: int) -> None:
        with pytest.raises(ConfigurationError, match=f"Expected at least 1 session, got {count}"):
            await GenericEnvClient(base_url="http://127.0.0.1:9").fork(count)

    async def test_on_the_legacy_wire_it_is_refused_before_anything_is_sent(self) -> None:
        with make_server("legacy", max_concurrent_envs=4) as server:
            async with GenericEnvClient(base_url=server.url) as client:
                await client.reset()
                with pytest.raises(ConfigurationError, match="v1"):
                    await client.fork(2)
                assert total(await client.step(ONE)) == 1
                assert server.sessions.active_sessions == 1

    async def test_all_or_none_where_places_are_missing(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=3)
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset()
            with pytest.raises(ServerCapacityError):
                await client.fork(3)
            assert server.sessions.active_sessions == 1
            assert total(await client.step(ONE)) == 1
            assert len(await client.fork(2)) == 2

    async def test_an_environment_that_cannot_be_forked_says_why_and_goes_on(self, serve: Serve) -> None:
        server = serve(LockedEnvironment)
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset()
            with pytest.raises(ServerExecutionError, match="deepcopy"):
                await client.fork(2)
            assert total(await client.step(ONE)) == 1
            assert server.sessions.active_sessions == 1

    async def test_an_answer_that_is_cut_off_brings_each_session_once(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=200)
        with Proxy(server.port) as proxy:
            async with GenericEnvClient(base_url=proxy.url) as client:
                await client.reset()
                for cut in range(0, 500, 25):
                    await client.step(ONE)
                    proxy.cut_after(Way.TO_CLIENT, cut)
                    children = await client.fork(2)
                    results = await asyncio.gather(*(child.step(ONE) for child in children))
                    assert len({total(result) for result in results}) == 1
                    await asyncio.gather(*(child.close() for child in children))
                    await client.reset()
                await asyncio.to_thread(server.wait_for_sessions, 1)
                assert proxy.cuts >= 10

    async def test_children_that_were_closed_are_forgotten(self, serve: Serve) -> None:
        """A trainer forks one client at every step of its training."""
        server = serve(max_concurrent_envs=16)
        async with GenericEnvClient(base_url=server.url) as client:
            await client.reset()
            closed = []
            for _ in range(10):
                children = [*await client.fork(2), await client.new_session()]
                closed += [weakref.ref(child) for child in children]
                await asyncio.gather(*(child.close() for child in children))
            del children
            gc.collect()
            assert [child() for child in closed] == [None] * 30
            (child,) = await client.fork()
        with pytest.raises(EpisodeOrderError):  # it was closed with its parent, and opens another
            await child.step(ONE)
        await child.close()
        await asyncio.to_thread(server.wait_for_sessions, 0)

    async def test_children_are_closed_together(self) -> None:
        server = Repeating(close=("nothing", {}))  # for which each waits a while
        with answering(server.play, subprotocols=["openenv.v1"]) as url:
            client = GenericEnvClient(base_url=url)
            for _ in range(4):
                await (await client.new_session()).reset()
            begun = time.monotonic()
            await client.close()
            assert time.monotonic() - begun < 3

    async def test_a_vector_of_a_child_leaves_the_forked_state_as_it_is(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=16)
        async with GenericEnvClient(base_url=server.url) as parent:
            await parent.reset()
            await parent.step({"amount": 3})
            (child,) = await parent.fork()
            vector = await child.vector(2)
            assert [total(result) for result in await vector.reset()] == [0, 0]
            assert total(await child.step(ONE)) == 4

    @pytest.mark.parametrize("how", ["cancelled", "too late"])
    async def test_sessions_that_nobody_waits_for_any_more_are_ended(self, serve: Serve, gate: Gate, how: str) -> None:
        class SlowToCopy(CounterEnvironment):
            BLOCKING = True

            def __deepcopy__(self, _memo: Any) -> Any:
                gate.pass_through()
                return SlowToCopy()

        server = serve(SlowToCopy, max_concurrent_envs=16)
        timeout_s = 0.5 if how == "too late" else 60
        client = GenericEnvClient(base_url=server.url, message_timeout_s=timeout_s)
        async with GenericEnvClient(base_url=server.url) as other:
            await asyncio.gather(client.reset(), other.reset())
            forking = asyncio.ensure_future(client.fork(3))
            await asyncio.to_thread(gate.wait_until_entered)
            if how == "cancelled":
                forking.cancel()
            with pytest.raises((asyncio.CancelledError, ResponseTimeoutError)):
                await forking
            gate.opened.set()
            await asyncio.to_thread(server.wait_for_sessions, 1 if how == "too late" else 2)
            await client.close()
            await asyncio.to_thread(server.wait_for_sessions, 1)

    @pytest.mark.parametrize(
        "data",
        [
            None,
            [],
            {},
            {"sessions": None},
            {"sessions": [1]},
            {"sessions": [{"session": "a"}]},
            {"sessions": [{"session": "s1", "token": "t"}]},
            {"sessions": [{"session": 1, "token": "t"}]},
        ],
        ids=repr,
    )
    async def test_an_answer_that_is_none_is_a_typed_error(self, data: Any) -> None:
        with answering(Repeating(fork=("forked", data)).play, subprotocols=["openenv.v1"]) as url:
            async with GenericEnvClient(base_url=url) as client:
                await client.reset()
                with pytest.raises(InvalidAnswerError, match="forked"):
                    await client.fork(1)
                assert total(await client.step({"amount": 4})) == 4

    @pytest.mark.parametrize("kind", ["observation", "closed", "opened", None])
    async def test_an_answer_of_another_kind_is_a_typed_error(self, kind: Any) -> None:
        with answering(Repeating(fork=(kind, {})).play, subprotocols=["openenv.v1"]) as url:
            async with GenericEnvClient(base_url=url) as client:
                await client.reset()
                with pytest.raises(InvalidAnswerError, match="forked"):
                    await client.fork(1)
