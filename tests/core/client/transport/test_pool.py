"""Sessions that share connections, against real servers and against some that do not behave."""

import asyncio
import gc
import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.conftest import Serve
from tests.support.servers import PROGRAMS, ServerProcess, answering, eventually
from tests.support.vectors import ONE, make_server, shown, total
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response
from websockets.sync.server import ServerConnection

from openenv.core.client.generic import GenericEnvClient
from openenv.core.client.transport.pool import ConnectionPool
from openenv.core.exceptions import (
    ConnectionFailedError,
    ConnectionLostError,
    InvalidAnswerError,
    OpenEnvError,
    ResponseTimeoutError,
    ServerError,
)

Message = dict[str, Any]
OBSERVED = {"observation": {"total": 0}, "reward": None, "done": False}


def client_of(url: str, **settings: Any) -> GenericEnvClient:
    settings.setdefault("message_timeout_s", 60)
    return GenericEnvClient(base_url=url, **settings)


class Actor:
    """Plays a server of v1 as it should be, but for what ``instead`` says of some types of message.

    Args:
        **instead: By the type of a message, a function that gives the frames to answer it with.
    """

    def __init__(self, **instead: Callable[[Message], list[Any]]) -> None:
        self.instead = instead
        self.connections = 0
        self.frames: list[Any] = []
        self.closed: list[str] = []
        self.sessions = 0

    def play(self, connection: ServerConnection) -> None:
        self.connections += 1
        try:
            for frame in connection:
                document = json.loads(frame)
                self.frames.append(document)
                for message in document if isinstance(document, list) else [document]:
                    for answer in self.answers(message):
                        self.send(connection, answer)
        except ConnectionClosed:
            pass

    def send(self, connection: ServerConnection, answer: Any) -> None:
        if answer is CLOSE:
            connection.close(1001, "going")
        else:
            connection.send(answer if isinstance(answer, str | bytes) else json.dumps(answer))

    def answers(self, message: Message) -> list[Any]:
        if message["type"] in self.instead:
            return self.instead[message["type"]](message)
        return [self.proper(message)]

    def proper(self, message: Message) -> Message:
        if message["type"] == "open":
            self.sessions += 1
            return {"type": "opened", "id": message["id"], "session": f"s{self.sessions}", "data": {}}
        if message["type"] == "close":
            self.closed.append(message["session"])
            return answer_to(message, "closed", {})
        data = {**OBSERVED, "observation": {"total": message.get("data", {}).get("amount", 0)}}
        return answer_to(message, "observation", data)


CLOSE = object()


def answer_to(message: Message, kind: str, data: Any) -> Message:
    return {"type": kind, "id": message["id"], "session": message["session"], "data": data}


@contextmanager
def acting(actor: Actor, workers: str | None = None) -> Iterator[str]:
    """Serve with an actor; its answer to the handshake may tell of workers."""

    def tell(_connection: ServerConnection, _request: Any, response: Response) -> None:
        if workers is not None:
            response.headers["X-OpenEnv-Workers"] = workers

    with answering(actor.play, subprotocols=["openenv.v1"], process_response=tell, close_timeout=0.5) as url:
        yield url


def pools() -> int:
    """How many pools of connections this process has."""
    gc.collect()
    return sum(type(each) is ConnectionPool for each in gc.get_objects())


class TestSharing:
    async def test_clients_with_equal_settings_share_and_others_do_not(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=64)
        alike = [client_of(server.url) for _ in range(20)]
        await asyncio.gather(*(client.reset() for client in alike))
        assert (server.connections, server.sessions.active_sessions) == (1, 20)
        others = [
            client_of(server.url, headers={"X-A": "1"}),
            client_of(server.url, headers={"X-A": "2"}),
            client_of(server.url, max_message_size_mb=1),
            client_of(server.url, websocket_ping_interval_s=None),
            client_of(server.url.replace("127.0.0.1", "localhost")),
        ]
        await asyncio.gather(*(client.reset() for client in others))
        assert (server.connections, server.sessions.active_sessions) == (6, 25)
        again = client_of(server.url, headers={"X-A": "1"})
        await again.reset()
        assert server.connections == 6
        await asyncio.gather(*(client.close() for client in [*alike, *others, again]))

    async def test_tokens_that_are_rotated_leave_no_pool(self, serve: Serve) -> None:
        server = serve()
        before = pools()
        for number in range(5):
            async with client_of(server.url, token=f"token-{number}") as client:
                await client.reset()
        del client
        assert pools() <= before

    async def test_loops_do_not_share(self, serve: Serve) -> None:
        server = serve()
        async with client_of(server.url) as client:
            await client.reset()
            with client_of(server.url).sync() as blocking:
                assert total(await asyncio.to_thread(blocking.reset)) == 0
                assert server.connections == 2

    async def test_a_connection_is_closed_with_its_last_session_and_opened_again(self, serve: Serve) -> None:
        server = serve()
        clients = [client_of(server.url) for _ in range(3)]
        for _ in range(3):
            await asyncio.gather(*(client.reset() for client in clients))
            for client in clients:
                assert server.connections == 1
                await client.close()
            await asyncio.to_thread(eventually, lambda: server.connections == 0, "no connection")

    async def test_what_is_asked_together_leaves_together(self) -> None:
        actor = Actor()
        with acting(actor) as url:
            client = client_of(url)
            vector = await client.vector(10)
            actor.frames.clear()
            await vector.step([{"amount": number} for number in range(10)])
            ((frame),) = actor.frames
            assert [message["data"]["amount"] for message in frame] == list(range(10))
            clients = [client_of(url) for _ in range(10)]
            await asyncio.gather(*(client.reset() for client in clients))
            actor.frames.clear()
            await asyncio.gather(*(client.reset() for client in clients))
            assert [len(frame) for frame in actor.frames if isinstance(frame, list)] == [9]
            await asyncio.gather(client.close(), *(client.close() for client in clients))

    async def test_large_messages_leave_in_several_frames(self) -> None:
        actor = Actor()
        with acting(actor) as url:
            client = client_of(url)
            vector = await client.vector(10)
            actor.frames.clear()
            results = await vector.step([{"amount": number, "text": "x" * 30_000} for number in range(10)])
            assert [total(result) for result in results] == list(range(10))
            assert [len(frame) for frame in actor.frames] == [3, 3, 3, 1]
            await client.close()

    async def test_ids_count_up_by_one_in_every_session(self) -> None:
        actor = Actor()
        with acting(actor) as url:
            client = client_of(url)
            vector = await client.vector(3)
            for _ in range(4):
                await vector.reset()
                await vector.step([ONE, None, ONE])
            await client.close()
        messages = [message for frame in actor.frames for message in (frame if isinstance(frame, list) else [frame])]
        numbers: dict[str, list[int]] = {}
        for message in messages:
            numbers.setdefault(message.get("session", "open"), []).append(message["id"])
        assert set(numbers) == {"open", "s1", "s2", "s3"}
        assert all(ids == list(range(1, len(ids) + 1)) for ids in numbers.values())

    @pytest.mark.parametrize("name", ['a"b', "back\\slash", "☃ snow", "", "x" * 5000, "None"])
    async def test_a_session_may_have_any_name(self, name: str) -> None:
        actor = Actor(open=lambda message: [{"type": "opened", "id": message["id"], "session": name, "data": {}}])
        with acting(actor) as url:
            client = client_of(url)
            await client.reset()
            assert total(await client.step({"amount": 3})) == 3
            await client.close()
            assert actor.closed == [name]


class TestWorkers:
    @pytest.mark.parametrize("count", [1, 3])
    async def test_sessions_spread_evenly_over_as_many_connections(self, count: int) -> None:
        actor = Actor()
        with acting(actor, str(count)) as url:
            client = client_of(url)
            vector = await client.vector(12)
            hubs = Counter(link.connection for link in vector._sessions if link is not None)
            assert actor.connections == count
            assert set(hubs.values()) == {12 // count}
            assert [total(result) for result in await vector.step([{"amount": n} for n in range(12)])] == list(
                range(12)
            )
            await client.close()

    @pytest.mark.parametrize("header", ["", "0", "-1", "two", "1.5", "2, 2", "²", "9" * 5000])
    async def test_a_count_that_is_none_means_one(self, header: str) -> None:
        actor = Actor()
        with acting(actor, header) as url:
            client = client_of(url)
            await client.vector(8)
            assert actor.connections == 1
            await client.close()

    def test_a_real_server_of_two_workers(self) -> None:
        with ServerProcess("worker_server.py", "2", "64", "1") as server:
            client: Any = client_of(server.url)
            vector = client.vector(16)
            vector.reset()
            results = vector.step([ONE] * 16)
            processes = Counter(result.observation["process"] for result in results)
            assert sorted(processes.values()) == [8, 8]
            assert shown(vector.step([ONE] * 16)) == [2] * 16
            # One of them goes, and takes its own sessions only.
            results = vector.step([{"amount": 1, "what": "leave"}, *[ONE] * 15])
            lost = [slot for slot, result in enumerate(results) if isinstance(result, ConnectionLostError)]
            assert 1 <= len(lost) <= 8
            results = vector.reset()
            assert sum(isinstance(result, OpenEnvError) for result in results) == 0
            client.close()


class TestOpening:
    async def test_one_that_is_given_up_is_ended_when_the_server_has_opened_it(self) -> None:
        held = threading.Event()

        def open_slowly(message: Message) -> list[Any]:
            if message["id"] == 2:
                held.wait(60)
            return [actor.proper(message)]

        actor = Actor(open=open_slowly)
        with acting(actor) as url:
            first, second = client_of(url), client_of(url, message_timeout_s=0.2)
            await first.reset()
            with pytest.raises(ConnectionFailedError, match=r"0\.2 s \(message_timeout_s\)"):
                await second.connect()
            held.set()
            await asyncio.to_thread(eventually, lambda: actor.closed == ["s2"], "the session is ended")
            assert total(await first.step({"amount": 3})) == 3
            await first.close()
            await second.close()
            assert actor.connections == 1

    async def test_one_that_is_cancelled_leaves_no_session(self, serve: Serve) -> None:
        server = serve(max_concurrent_envs=100)
        async with client_of(server.url) as other:
            for turns in [*range(12), 20, 40]:
                client = client_of(server.url)
                connecting = asyncio.ensure_future(client.connect())
                for _ in range(turns):
                    await asyncio.sleep(0)
                connecting.cancel()
                await asyncio.gather(connecting, return_exceptions=True)
                await client.close()
            await asyncio.to_thread(server.wait_for_sessions, 1)
            assert server.connections == 1
            assert total(await other.reset()) == 0

    @pytest.mark.parametrize("clients", [1, 64])
    async def test_a_connection_that_goes_meanwhile_is_replaced_once(self, clients: int) -> None:
        actor = Actor(open=lambda message: [CLOSE] if actor.connections == 1 else [actor.proper(message)])
        with acting(actor) as url:
            many = [client_of(url) for _ in range(clients)]
            results = await asyncio.gather(*(client.reset() for client in many))
            assert [total(result) for result in results] == [0] * clients
            assert actor.connections == 2
            await asyncio.gather(*(client.close() for client in many))

    @pytest.mark.parametrize("last", [[CLOSE], ["opened and gone"]], ids=["unanswered", "answered"])
    async def test_a_server_that_always_goes_meanwhile_is_not_asked_for_ever(self, last: list[Any]) -> None:
        def open_and_go(message: Message) -> list[Any]:
            return last if last == [CLOSE] else [actor.proper(message), CLOSE]

        actor = Actor(open=open_and_go)
        with acting(actor) as url:
            many = [client_of(url, message_timeout_s=60) for _ in range(64)]
            results = await asyncio.gather(*(client.reset() for client in many), return_exceptions=True)
            assert all(isinstance(result, ConnectionLostError) for result in results)
            assert actor.connections < 64
            await asyncio.gather(*(client.close() for client in many))

    async def test_a_connection_that_went_unnoticed_is_replaced(self) -> None:
        actor = Actor(step=lambda message: [answer_to(message, "observation", OBSERVED), CLOSE])
        with acting(actor) as url:
            for _ in range(10):
                first, second = client_of(url), client_of(url)
                await first.reset()
                await first.step(ONE)
                assert total(await second.reset()) == 0
                await asyncio.gather(first.close(), second.close())

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            ("not json", InvalidAnswerError),
            ("3", InvalidAnswerError),
            ("null", InvalidAnswerError),
            ("[[]]", InvalidAnswerError),
            (b"\xff\xfe", InvalidAnswerError),
            ({}, InvalidAnswerError),
            ({"type": "opened"}, InvalidAnswerError),
            ({"type": "opened", "id": None, "session": "s"}, InvalidAnswerError),
            ({"type": "opened", "id": "1", "session": "s"}, InvalidAnswerError),
            ({"type": "opened", "id": 1}, InvalidAnswerError),
            ({"type": "opened", "id": 1, "session": None}, InvalidAnswerError),
            ({"type": "opened", "id": 1, "session": 7, "data": {}}, InvalidAnswerError),
            ({"type": "opened", "id": 1, "session": ["s"], "data": {}}, InvalidAnswerError),
            ({"type": "observation", "id": 1, "data": {}}, InvalidAnswerError),
            ({"type": "error", "id": 1}, InvalidAnswerError),
            ({"type": "error", "id": 1, "data": None}, InvalidAnswerError),
            ({"type": "error", "id": 1, "data": {"code": [], "message": {}}}, ServerError),
            ({"type": "error", "id": 1, "data": {"code": "NEW", "message": "no"}}, ServerError),
            ({"type": "error", "data": {"code": "NEW", "message": "no"}}, ServerError),
            ([], ConnectionFailedError),
            ({"type": "opened", "id": 99, "session": "s", "data": {}}, ConnectionFailedError),
            ({"type": "observation", "id": 1, "session": "s", "data": OBSERVED}, ConnectionFailedError),
        ],
        ids=repr,
    )
    async def test_an_answer_that_is_none_is_a_typed_error(self, answer: Any, error: type[OpenEnvError]) -> None:
        actor = Actor(open=lambda _message: [answer])
        with acting(actor) as url:
            client = client_of(url, message_timeout_s=0.5)
            with pytest.raises(error):
                await client.reset()
            with pytest.raises(error):
                await client.vector(3)
            del actor.instead["open"]
            assert total(await client.reset()) == 0
            await client.close()

    @pytest.mark.parametrize("data", [None, [], "text", {"max_message_bytes": None}, {"max_message_bytes": "much"}, {}])
    async def test_an_opened_session_whose_server_says_no_limit(self, data: Any) -> None:
        actor = Actor(open=lambda message: [{"type": "opened", "id": message["id"], "session": "s", "data": data}])
        with acting(actor) as url:
            async with client_of(url) as client:
                assert total(await client.step({"amount": 3, "text": "x" * 100_000})) == 3

    async def test_one_session_is_not_given_to_two(self) -> None:
        actor = Actor(open=lambda message: [{"type": "opened", "id": message["id"], "session": "same", "data": {}}])
        with acting(actor) as url:
            first, second = client_of(url), client_of(url)
            await first.reset()
            with pytest.raises(InvalidAnswerError, match="opened"):
                await second.reset()
            assert total(await first.step({"amount": 3})) == 3
            await first.close()

    async def test_a_repeated_opened_is_of_no_matter(self) -> None:
        actor = Actor(open=lambda message: [opened := actor.proper(message), opened])
        with acting(actor) as url:
            client = client_of(url)
            for number in range(3):
                assert total(await client.step({"amount": number})) == number
            await client.close()

    async def test_a_repeated_opened_that_comes_late_is_no_answer_to_the_request_of_its_number(self) -> None:
        opened: list[Message] = []

        def open_and_remember(message: Message) -> list[Any]:
            opened.append(actor.proper(message))
            return opened

        actor = Actor(open=open_and_remember, step=lambda message: [*opened, actor.proper(message)])
        with acting(actor) as url:
            client = client_of(url)
            for number in range(3):
                assert total(await client.step({"amount": number})) == number
            await client.close()


class TestAnswers:
    @pytest.mark.parametrize(
        "answer",
        ["not json", "3", "null", '"text"', "[[1]]", "[null]", "{}", '{"id": "1"}', '{"type": "observation"}', b"\xff"],
        ids=repr,
    )
    async def test_a_frame_that_cannot_be_read_ends_the_connection(self, answer: Any) -> None:
        actor = Actor(step=lambda _message: [answer])
        with acting(actor) as url:
            first, second = client_of(url), client_of(url)
            await asyncio.gather(first.reset(), second.reset())
            with pytest.raises(InvalidAnswerError, match=r"Expected (the server to answer|a part's two lengths)"):
                await first.step(ONE)
            assert total(await second.reset()) == 0  # in a new session
            assert total(await first.reset()) == 0
            assert actor.connections == 2
            await asyncio.gather(first.close(), second.close())

    @pytest.mark.parametrize(
        ("kind", "data", "error"),
        [
            ("observation", None, InvalidAnswerError),
            ("observation", [1], InvalidAnswerError),
            ("bogus", {}, InvalidAnswerError),
            ("opened", {}, InvalidAnswerError),
            ("closed", {}, InvalidAnswerError),
            (None, {}, InvalidAnswerError),
            ("error", None, InvalidAnswerError),
            ("error", {}, ServerError),
            ("error", {"code": {"a": 1}, "message": [], "errors": 3}, ServerError),
        ],
    )
    async def test_an_answer_that_is_none_is_its_session_s_alone(
        self, kind: Any, data: Any, error: type[OpenEnvError]
    ) -> None:
        actor = Actor(step=lambda message: [answer_to(message, kind, data)])
        with acting(actor) as url:
            client = client_of(url)
            vector = await client.vector(3)
            await vector.reset()
            results = await vector.step([ONE, None, None])
            assert isinstance(results[0], error)
            assert shown(await vector.reset(slots=[1, 2])) == [None, 0, 0]
            assert actor.connections == 1
            await client.close()

    @pytest.mark.parametrize(
        "change",
        [{"id": 99}, {"id": 0}, {"session": "other"}, {"session": None}, {"session": 5}, {"session": ["s1"]}, None],
        ids=str,
    )
    async def test_an_answer_to_nobody_is_as_none(self, change: dict[str, Any] | None) -> None:
        def mislead(message: Message) -> list[Any]:
            return [] if change is None else [{**answer_to(message, "observation", OBSERVED), **change}]

        actor = Actor(step=mislead)
        with acting(actor) as url:
            first, second = client_of(url, message_timeout_s=0.3), client_of(url)
            await second.reset()
            with pytest.raises(ResponseTimeoutError):
                await first.step(ONE)
            assert total(await second.reset()) == 0
            await asyncio.gather(first.close(), second.close())

    async def test_a_repeated_answer_is_of_no_matter(self) -> None:
        actor = Actor(step=lambda message: [actor.proper(message)] * 3)
        with acting(actor) as url:
            client = client_of(url)
            for number in range(20):
                assert total(await client.step({"amount": number})) == number
            await client.close()

    async def test_a_flood_of_answers_to_nobody(self) -> None:
        def flood(message: Message) -> list[Any]:
            nobody = json.dumps([{**answer_to(message, "observation", OBSERVED), "id": n + 1000} for n in range(100)])
            return [*[nobody] * 300, actor.proper(message)]

        actor = Actor(step=flood)
        with acting(actor) as url:
            client = client_of(url)
            assert total(await client.step({"amount": 3})) == 3
            await client.close()

    async def test_a_late_answer_of_a_session_that_was_given_up_opens_no_other(self) -> None:
        """The number of a request and that of an open may be the same."""
        unanswered: list[Message] = []

        def hold(message: Message) -> list[Any]:
            if message["data"] == ONE and not unanswered:
                unanswered.append(message)
                return []
            return [actor.proper(message)]

        def open_after_the_late_answer(message: Message) -> list[Any]:
            late = [answer_to(held, "observation", OBSERVED) for held in unanswered if held["id"] == message["id"]]
            return [*late, actor.proper(message)]

        actor = Actor(step=hold, open=open_after_the_late_answer)
        with acting(actor) as url:
            other, client = client_of(url), client_of(url, message_timeout_s=0.3)
            await other.reset()
            await client.reset()
            await client.reset()
            with pytest.raises(ResponseTimeoutError):
                await client.step(ONE)
            assert total(await client.step({"amount": 4})) == 4
            assert (unanswered[0]["id"], actor.sessions, actor.connections) == (3, 3, 1)
            await asyncio.gather(other.close(), client.close())

    async def test_an_error_without_a_number_reaches_all_who_wait(self) -> None:
        refusal = {"type": "error", "data": {"code": "INVALID_JSON", "message": "what was that?"}}
        actor = Actor(step=lambda message: [refusal] if message["data"]["amount"] == 2 else [])
        with acting(actor) as url:
            client = client_of(url)
            vector = await client.vector(3)
            results = await vector.step([ONE, None, {"amount": 2}])
            assert [str(results[at]) for at in (0, 2)] == ["Server error: what was that? (code: INVALID_JSON)"] * 2
            assert shown(await vector.reset()) == [0] * 3
            await client.close()


class TestLoss:
    def test_a_server_that_freezes_is_found_by_pings_in_every_session(self) -> None:
        with ServerProcess("counter_server.py", "16", "0", "1") as server:
            client: Any = client_of(
                server.url, message_timeout_s=60, websocket_ping_interval_s=0.2, websocket_ping_timeout_s=0.2
            )
            vector = client.vector(8)
            vector.reset()
            server.process.send_signal(signal.SIGSTOP)
            begun = time.monotonic()
            results = vector.step([*[ONE] * 7, None])
            assert time.monotonic() - begun < 30
            assert shown(results) == [*[ConnectionLostError] * 7, None]
            assert "websocket_ping_timeout_s" in str(results[0])
            server.process.send_signal(signal.SIGCONT)
            assert shown(vector.reset()) == [0] * 8
            client.close()

    @pytest.mark.parametrize("wire", ["v1", "legacy"])
    @pytest.mark.parametrize("which", ["inherited", "closed", "dropped"])
    def test_a_forked_child_has_sessions_of_its_own_and_leaves_its_parent_s(self, wire: str, which: str) -> None:
        with make_server(wire) as server:
            arguments = [sys.executable, str(PROGRAMS / "forking_vector.py"), server.url, which]
            ended = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
            assert (ended.returncode, ended.stderr) == (0, "")
