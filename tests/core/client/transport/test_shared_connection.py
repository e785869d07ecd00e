"""Sessions that share a connection, where a server or the network does not do its part."""

import asyncio
import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.keeper import Keeper, Once, cut_off, refuse
from tests.support.proxy import Proxy
from tests.support.servers import answering, eventually
from tests.support.vectors import ONE, make_server, shown, total
from websockets.frames import CloseCode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.sync.server import ServerConnection
from websockets.typing import Subprotocol

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.vector import VectorEnv
from openenv.core.client_types import StepResult
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    EpisodeOrderError,
    InvalidAnswerError,
    RequestGivenUpError,
    RequestNotSentError,
    ServerCapacityError,
    ServerFactoryError,
    ServerRateLimitedError,
    ServerSessionLostError,
    ServerTimeoutError,
)

LOST = refuse("SESSION_LOST", "step 3 differs")
POISON = {"amount": 13}


def client_of(url: str, **settings: Any) -> GenericEnvClient:
    settings.setdefault("message_timeout_s", 60)
    return GenericEnvClient(base_url=url, **settings)


@contextmanager
def keeping(keeper: Keeper) -> Iterator[str]:
    with answering(keeper.play, subprotocols=["openenv.v1"], close_timeout=0.5) as url:
        yield url


async def until(condition: Any) -> None:
    await asyncio.to_thread(eventually, condition, "it happens")


async def lose(keeper: Keeper, *clients: GenericEnvClient) -> None:
    """Have a client's session lost while nobody waits for anything."""
    keeper.instead["attach"] = LOST
    keeper.cut()
    await until(lambda: not any(client._client_session is None or client._client_session.usable for client in clients))


async def lose_slots(keeper: Keeper, vector: VectorEnv[Any, Any, Any]) -> None:
    """Have all of a vector's sessions lost while nobody waits for anything."""
    keeper.instead["attach"] = LOST
    keeper.cut()
    await until(lambda: not any(link is None or link.usable for link in vector._sessions))


async def open_another(client: GenericEnvClient) -> Any:
    return await client.new_session()


async def fork(client: GenericEnvClient) -> Any:
    return await client.fork()


async def step(client: GenericEnvClient) -> Any:
    return await client.step(ONE)


async def state(client: GenericEnvClient) -> Any:
    return await client.state()


async def connect(client: GenericEnvClient) -> Any:
    return await client.connect()


async def test_a_server_s_own_timeout_of_an_open_is_told_as_its_own() -> None:
    keeper = Keeper()
    keeper.instead["open"] = refuse("TIMEOUT", "reset did not finish within 3 s", operation="reset", timeout_s=3.0)
    with keeping(keeper) as url:
        client = client_of(url)
        with pytest.raises(ServerTimeoutError, match="reset did not finish within 3 s"):
            await client.connect()
        await client.close()


async def _end_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a handshake and end the connection, as a server that ends between the two."""
    protocol = ServerProtocol(subprotocols=[Subprotocol("openenv.v1")])
    protocol.receive_data(await reader.readuntil(b"\r\n\r\n"))
    (request,) = protocol.events_received()
    assert isinstance(request, Request)
    protocol.send_response(protocol.accept(request))
    protocol.send_close(CloseCode.SERVICE_RESTART)
    writer.write(b"".join(protocol.data_to_send()))
    writer.close()


async def test_a_connection_that_ends_with_its_handshake_is_no_wait() -> None:
    async with await asyncio.start_server(_end_at_once, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        for _ in range(20):  # the end is seen before the session is opened, or after it
            client = client_of(f"http://{host}:{port}", message_timeout_s=600)
            async with asyncio.timeout(60):
                with pytest.raises(ConnectionLostError):
                    await client.connect()
            await client.close()


class TestLostWhileNobodyWaits:
    @pytest.mark.parametrize("call", [step, state, fork, connect, open_another])
    async def test_the_next_call_is_told_and_the_one_after_opens_another(self, call: Any) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client = client_of(url)
            await client.reset()
            await lose(keeper, client)
            with pytest.raises(ServerSessionLostError, match="step 3 differs"):
                await call(client)
            assert len(keeper.of_type("open")) == 1
            assert total(await client.step(ONE)) == 1
            assert len(keeper.of_type("open")) == 2
            await client.close()

    async def test_a_reset_starts_afresh(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client = client_of(url)
            await client.reset()
            await lose(keeper, client)
            assert total(await client.reset()) == 1
            assert total(await client.step(ONE)) == 2
            await client.close()

    async def test_a_session_that_nothing_was_asked_of_is_replaced(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client = client_of(url)
            await client.connect()
            await lose(keeper, client)
            assert total(await client.step(ONE)) == 1
            await client.close()

    def test_a_blocking_client_is_told_as_well(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client: Any = client_of(url)
            client.reset()
            asyncio.run(lose(keeper, client))
            with pytest.raises(ServerSessionLostError):
                client.step(ONE)
            assert total(client.step(ONE)) == 1
            client.close()

    async def test_each_slot_of_a_vector_is_told_by_itself(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client = client_of(url)
            vector = await client.vector(3)
            await vector.reset()
            await lose_slots(keeper, vector)
            assert shown(await vector.reset(slots=[0])) == [1, None, None]
            results = await vector.step([ONE, ONE, None])
            assert shown(results) == [2, ServerSessionLostError, None]
            assert shown(await vector.step([ONE] * 3)) == [3, 1, ServerSessionLostError]
            assert shown(await vector.reset()) == [4, 2, 1]
            await client.close()

    async def test_a_slot_that_resets_itself_begins_the_next_episode(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client = client_of(url)
            vector = await client.vector(2, autoreset=True)
            await vector.reset()
            await lose_slots(keeper, vector)
            assert shown(await vector.step([ONE] * 2)) == [ServerSessionLostError] * 2
            assert shown(await vector.step([ONE] * 2)) == [1, 1]
            assert [message["type"] for message in keeper.messages[-2:]] == ["reset"] * 2
            await client.close()

    async def test_a_step_that_waited_for_the_connection_is_not_sent_elsewhere(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client, other = client_of(url), client_of(url)
            await asyncio.gather(client.reset(), other.reset())
            link = client._client_session
            assert link is not None
            keeper.instead["attach"] = refuse("SESSION_ERROR", "No such session.")
            keeper.cut()
            await until(lambda: not link.connection.is_open)
            calls = [client.step(ONE), client.state(), other.reset()]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(result) for result in results[:2]] == [RequestNotSentError] * 2
            assert "No such session." in str(results[0])
            assert total(results[2]) == 1
            assert keeper.of_type("step") == []
            await asyncio.gather(client.close(), other.close())

    async def test_the_end_of_the_window_is_told(self, serve: Serve) -> None:
        server = serve(resume_window_s=0.2, max_concurrent_envs=4)
        with Proxy(server.port) as proxy:
            client = client_of(proxy.url)
            await client.reset()
            proxy.refuse()
            proxy.cut()
            link = client._client_session
            await until(lambda: link is not None and not link.answers)
            proxy.accept()
            with pytest.raises(ConnectionLostError, match=r"within 0\.2 s.*Last failure: Failed to connect"):
                await client.step(ONE)
            with pytest.raises(EpisodeOrderError):
                await client.step(ONE)
            await client.close()

    @pytest.mark.parametrize("wire", ["v1", "legacy"])
    async def test_a_session_that_ends_with_its_connection_is_told(self, wire: str) -> None:
        settings = {"resume_window_s": 0} if wire == "v1" else {}
        with make_server(wire, **settings) as server, Proxy(server.port) as proxy:
            client, vector = client_of(proxy.url), await client_of(proxy.url).vector(2)
            await asyncio.gather(client.reset(), vector.reset())
            proxy.cut()
            link = client._client_session
            await until(lambda: link is not None and not link.answers and not any(map(vector._is_open, range(2))))
            with pytest.raises(ConnectionLostError, match="The server closed the connection"):
                await client.step(ONE)
            assert shown(await vector.step([ONE, None])) == [RequestNotSentError, None]
            assert shown(await vector.reset()) == [0, 0]
            assert total(await client.reset()) == 0
            await asyncio.gather(client.close(), vector.close())

    async def test_a_forked_child_that_was_not_used_yet_had_a_state_to_lose(self) -> None:
        keeper = Keeper()
        forked = [{"session": "child", "token": "t"}]
        keeper.instead["fork"] = lambda _connection, message: {
            **{key: message[key] for key in ("id", "session")},
            "type": "forked",
            "data": {"sessions": forked, "resume_window_s": 5},
        }
        with keeping(keeper) as url:
            client = client_of(url)
            await client.reset()
            (child,) = await client.fork()
            await lose(keeper, client, child)
            with pytest.raises(ServerSessionLostError):
                await child.step(ONE)
            await client.close()

    async def test_a_request_for_a_session_that_was_lost_meanwhile_is_told_why(self) -> None:
        """A slot's session is lost while the vector opens another slot's."""
        keeper = Keeper(window_s=5)
        with keeping(keeper) as url:
            client = client_of(url)
            vector = await client.vector(2)
            await vector.reset()
            first, second = vector._sessions
            assert first is not None
            assert second is not None
            first.abort()

            def lose_the_second(connection: Any, message: dict[str, Any]) -> Any:
                if keeper.instead["attach"] is not LOST:
                    keeper.instead["attach"] = LOST
                    cut_off(connection, message)
                    return None
                return keeper.answer(connection, message)

            keeper.instead.update(open=lose_the_second, attach=None)
            results = await vector.step([ONE, ONE])
            assert shown(results) == [1, ServerSessionLostError]
            assert "step 3 differs" in str(results[1])
            await client.close()


class TestWhatEndsEveryConnection:
    async def test_a_request_is_sent_again_five_times_and_no_other_session_is_harmed(self) -> None:
        keeper = Keeper()

        def answer_or_die(connection: Any, message: dict[str, Any]) -> Any:
            if message["data"] == POISON:
                cut_off(connection, message)
                return None
            return keeper.answer(connection, message)

        keeper.instead["step"] = answer_or_die
        with keeping(keeper) as url:
            client, other = client_of(url), client_of(url)
            await asyncio.gather(client.reset(), other.reset())
            poisoned = asyncio.ensure_future(client.step(POISON))
            following = asyncio.ensure_future(client.step(ONE))
            steps = 0
            while not poisoned.done():
                steps += 1
                assert total(await other.step(ONE)) == steps + 1
            with pytest.raises(RequestGivenUpError, match="6 connections"):
                await poisoned
            with pytest.raises(RequestNotSentError):
                await following
            assert [message["data"] for message in keeper.of_type("step")].count(POISON) == 6
            assert total(await other.step(ONE)) == steps + 2
            await until(lambda: keeper.of_type("close"))
            (close,) = keeper.of_type("close")
            assert (close["session"], close["id"]) == ("s1", 3)
            assert total(await client.reset()) == 1
            await asyncio.gather(client.close(), other.close())

    async def test_an_open_is_sent_again_five_times(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client, other = client_of(url), client_of(url)
            await client.reset()
            keeper.instead["open"] = cut_off
            opening = asyncio.ensure_future(other.reset())
            steps = 0
            while not opening.done():
                steps += 1
                assert total(await client.step(ONE)) == steps + 1
            with pytest.raises(ConnectionFailedError, match="6 connections"):
                await opening
            assert len(keeper.of_type("open")) == 7
            keeper.instead.clear()
            assert total(await other.reset()) == 1
            await asyncio.gather(client.close(), other.close())

    async def test_a_close_is_sent_again_five_times(self) -> None:
        keeper = Keeper()
        with keeping(keeper) as url:
            client, other = client_of(url), client_of(url)
            await asyncio.gather(client.reset(), other.reset())
            keeper.instead["close"] = cut_off
            await client.close()
            await until(lambda: len(keeper.of_type("close")) == 6)
            keeper.instead.clear()
            for number in range(2, 5):
                keeper.cut()
                assert total(await other.step(ONE)) == number
            assert len(keeper.of_type("close")) == 6
            await other.close()


class TestOutages:
    async def test_the_time_that_a_server_takes_to_take_sessions_up_is_not_part_of_the_window(self) -> None:
        """As where it rebuilds them from a journal, and the connection goes meanwhile once more."""
        keeper = Keeper(window_s=0.6)

        def take_long(connection: Any, message: dict[str, Any]) -> Any:
            time.sleep(1)
            cut_off(connection, message)

        keeper.instead["attach"] = Once(keeper, take_long)
        with keeping(keeper) as url:
            client = client_of(url)
            await client.reset()
            keeper.cut()
            assert total(await client.step(ONE)) == 2
            assert keeper.connections == 3
            await client.close()

    async def test_each_has_a_window_of_its_own(self) -> None:
        keeper = Keeper(window_s=5)
        with keeping(keeper) as url, Proxy(int(url.rpartition(":")[2])) as proxy:
            client = client_of(proxy.url)
            await client.reset()
            link = client._client_session
            assert link is not None
            for number in range(2, 4):
                proxy.refuse()
                proxy.cut()
                stepping = asyncio.ensure_future(client.step(ONE))
                await asyncio.sleep(2.6)  # twice that is longer than the window
                proxy.accept()
                assert total(await stepping) == number
            await client.close()

    async def test_a_call_between_the_loss_and_its_notice_asks_the_same_session(self) -> None:
        """The library knows of a connection's end a turn of the loop before it tells anybody."""
        keeper = Keeper()
        with keeping(keeper) as url:
            client = client_of(url)
            await client.reset()
            link = client._client_session
            assert link is not None
            for number in range(2, 22):
                keeper.cut()
                while link.connection.is_open:  # noqa: ASYNC110  # the very next turn is what matters
                    await asyncio.sleep(0)
                assert total(await client.step(ONE)) == number
            assert len(keeper.of_type("open")) == 1
            await client.close()


class TestRefusedForNow:
    @pytest.mark.parametrize(
        "refusal",
        [
            refuse("CAPACITY_REACHED", "All taken.", active_sessions=2, max_sessions=2),
            refuse("CAPACITY_REACHED", "About to end.", draining=True),
            refuse("RATE_LIMITED", "Too fast.", retry_after_s=0.05),
        ],
        ids=["capacity", "draining", "rate"],
    )
    async def test_the_server_is_asked_again(self, refusal: Any) -> None:
        keeper = Keeper()
        keeper.instead["attach"] = Once(keeper, refusal)
        with keeping(keeper) as url:
            client = client_of(url)
            await client.reset()
            keeper.cut()
            assert total(await client.step(ONE)) == 2
            assert len(keeper.of_type("attach")) == 2
            await client.close()

    @pytest.mark.parametrize(
        ("code", "error"), [("CAPACITY_REACHED", ServerCapacityError), ("RATE_LIMITED", ServerRateLimitedError)]
    )
    async def test_until_the_window_has_passed(self, code: str, error: type[Exception]) -> None:
        keeper = Keeper(window_s=0.8)
        with keeping(keeper) as url:
            client, other = client_of(url), client_of(url)
            await asyncio.gather(client.reset(), other.reset())
            no_place = refuse(code, "Not now.", retry_after_s=0.2)

            def attach(connection: Any, message: dict[str, Any]) -> Any:
                chosen = no_place if message["session"] == "s1" else keeper.answer
                return chosen(connection, message)

            keeper.instead["attach"] = attach
            keeper.cut()
            begun = time.monotonic()
            waiting = asyncio.ensure_future(client.step(ONE))
            assert total(await other.step(ONE)) == 2
            with pytest.raises(error, match=r"Not now\."):
                await waiting
            assert 0.5 < time.monotonic() - begun < 5
            assert len(keeper.of_type("attach")) > 3
            assert total(await other.step(ONE)) == 3
            await asyncio.gather(client.close(), other.close())


async def test_a_session_whose_environment_could_not_be_made_anew_gives_its_place_back() -> None:
    """A reset may need a new process; the server keeps the session where there is none."""
    keeper = Keeper()
    with keeping(keeper) as url:
        client, other = client_of(url), client_of(url)
        await asyncio.gather(client.reset(), other.reset())
        keeper.instead["reset"] = lambda _connection, message: {
            **{key: message[key] for key in ("id", "session")},
            "type": "error",
            "data": {"code": "FACTORY_ERROR", "message": "no memory"},
        }
        with pytest.raises(ServerFactoryError):
            await client.reset()
        await until(lambda: keeper.of_type("close"))
        assert [message["session"] for message in keeper.of_type("close")] == ["s1"]
        assert total(await other.step(ONE)) == 2
        await asyncio.gather(client.close(), other.close())


ARRAY_LIES = {
    "an offset outside of its arrays": ["uint8", [4], 8],
    "a type that does not exist": ["float128", [1], 0],
    "4 GiB": ["uint8", [2**32], 0],
}


def binary(message: dict[str, Any], buffers: bytes) -> bytes:
    """Write a binary frame with one message."""
    text = json.dumps(message).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<II", len(text), len(buffers)) + text + buffers


class TestArraysThatLie:
    @pytest.mark.parametrize("header", ARRAY_LIES.values(), ids=ARRAY_LIES)
    async def test_it_is_the_error_of_its_slot(self, header: list[Any]) -> None:
        def show(connection: ServerConnection, message: dict[str, Any]) -> None:
            is_false = message["session"] == "s1" and message["id"] == 2
            shown = {"total": {"$array": header if is_false else ["uint8", [4], 0]}}
            data = {"observation": shown, "reward": None, "done": False}
            answer = {"type": "observation", "id": message["id"], "session": message["session"], "data": data}
            connection.send(binary(answer, b"\1\2\3\4\0\0\0\0"))

        with keeping(Keeper(step=show)) as url:
            vector = await client_of(url, arrays=True).vector(2)
            await vector.reset()
            wrong, right = await vector.step([ONE] * 2)
            assert isinstance(wrong, InvalidAnswerError)
            assert str(wrong).startswith("Expected ")
            assert isinstance(right, StepResult)
            assert right.observation["total"].tolist() == [1, 2, 3, 4]
            for result in await vector.step([ONE] * 2):
                assert isinstance(result, StepResult), "neither session is lost"
            await vector.close()
