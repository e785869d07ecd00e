"""The relay: an application in another worker answers as if the client had come to it."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openenv.core.env_server.workers.forwarding import Forwarder, Stream, answer_forwarded

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
# The one dictionary that stands for something else.
EVENTS = st.dictionaries(st.text(), VALUES, max_size=3).filter(lambda event: "base64" not in str(event))

SOCKET = {"type": "websocket", "query_string": b"session_id=1.abc", "headers": [], "path": "/ws"}
STEP = {
    "type": "http",
    "method": "POST",
    "path": "/step",
    "query_string": b"",
    "headers": [(b"x-openenv-session", b"1.abc")],
}


class Client:
    """Sends some events, then waits; keeps what it gets."""

    def __init__(self, sends: Iterable[Message]) -> None:
        self._sends = iter(sends)
        self.got: list[Message] = []

    async def receive(self) -> Message:
        for event in self._sends:
            return event
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, event: Message) -> None:
        self.got.append(event)


async def no_app(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise AssertionError("called in the wrong worker")


class Workers:
    """Two workers, of which number 1 answers."""

    def __init__(self, app: ASGIApp, here: ASGIApp = no_app) -> None:
        self._app = app
        self.relay = Forwarder(here, {"1"}, self._connect)
        self.answering: asyncio.Task[None] | None = None
        self.asked: list[str] = []

    async def _connect(self, worker: str) -> Stream:
        self.asked.append(worker)
        ours, theirs = socket.socketpair()
        stream = await Stream.over(theirs)
        self.answering = asyncio.create_task(answer_forwarded(self._app, {"kept": 1}, stream))
        return await Stream.over(ours)

    async def call(self, scope: Scope, *sends: Message) -> list[Message]:
        client = Client(sends)
        async with asyncio.timeout(60):
            await self.relay(scope, client.receive, client.send)
            if self.answering is not None:
                await self.answering
        return client.got


@given(st.lists(EVENTS, max_size=4))
def test_events_arrive_as_they_were(events: list[Message]) -> None:
    async def through() -> list[Message | None]:
        ours, theirs = socket.socketpair()
        here, there = await Stream.over(ours), await Stream.over(theirs)
        for event in events:
            await here.send(event)
        finished = asyncio.create_task(here.finish())
        received = [await there.receive() for _ in range(len(events) + 2)]
        await there.close()
        await finished
        return received

    assert asyncio.run(through()) == [*events, None, None]


async def test_a_request_and_its_answer_pass_unchanged() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        seen.extend([await receive(), await receive()])
        await send({"type": "http.response.start", "status": 201, "headers": [(b"a", b"\xff")]})
        await send({"type": "http.response.body", "body": b"\x00\xff" * 100_000, "more_body": False})

    body = [{"type": "http.request", "body": bytes([n]), "more_body": n == 0} for n in range(2)]
    start, end = await Workers(app).call({**STEP, "extensions": {}, "state": {"not": "sent"}}, *body)
    assert (start["status"], start["headers"]) == (201, [[b"a", b"\xff"]])
    assert end == {"type": "http.response.body", "body": b"\x00\xff" * 100_000, "more_body": False}
    scope, *bodies = seen
    assert bodies == body
    assert scope["state"] == {"kept": 1}
    assert (scope["method"], scope["path"], scope["headers"]) == ("POST", "/step", [[b"x-openenv-session", b"1.abc"]])


async def test_an_answer_that_does_not_wait_for_the_body_arrives() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await sending.wait()
        await send({"type": "http.response.start", "status": 413, "headers": []})
        await send({"type": "http.response.body", "body": b"too large"})

    sending = asyncio.Event()

    class SlowClient(Client):
        async def receive(self) -> Message:
            sending.set()
            return await super().receive()

        async def send(self, event: Message) -> None:
            await super().send(event)
            # The other side has nothing more to say, but may not leave before this one has heard it.
            assert workers.answering is not None
            await asyncio.wait({workers.answering}, timeout=0.1)

    workers = Workers(app)
    client = SlowClient([{"type": "http.request", "body": bytes(4_000_000), "more_body": True}])
    async with asyncio.timeout(60):
        await workers.relay(STEP, client.receive, client.send)
        assert workers.answering is not None
        await workers.answering
    assert [event["type"] for event in client.got] == ["http.response.start", "http.response.body"]
    assert client.got[0]["status"] == 413


async def test_a_socket_is_carried_both_ways_until_its_client_goes() -> None:
    gone: list[Message] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        assert await receive() == {"type": "websocket.connect"}
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": event["text"].upper()})
        gone.append(event)

    frames = [{"type": "websocket.receive", "text": text} for text in ("é", "\ud800", "x" * 300_000)]
    got = await Workers(app).call(
        SOCKET, {"type": "websocket.connect"}, *frames, {"type": "websocket.disconnect", "code": 1001}
    )
    assert [event.get("text") for event in got] == [None, "É", "\ud800", "X" * 300_000]
    assert gone == [{"type": "websocket.disconnect", "code": 1001}]


@pytest.mark.parametrize(
    "scope",
    [
        {**STEP, "headers": []},
        {**STEP, "headers": [(b"x-openenv-session", b"0.abc")]},
        {**STEP, "headers": [(b"x-openenv-session", b"2.abc")]},
        {**STEP, "headers": [(b"x-openenv-session", b"1")]},
        {**STEP, "headers": [(b"x-openenv-session", b"9" * 5000 + b".abc")]},
        # As the transports do: the header wins over the cookie.
        {**STEP, "headers": [(b"x-openenv-session", b"0.a"), (b"cookie", b"openenv_session=1.abc")]},
        {**SOCKET, "query_string": b""},
        {**SOCKET, "query_string": b"session_id="},
        {"type": "lifespan"},
    ],
)
async def test_what_is_not_of_another_worker_stays_here(scope: Scope) -> None:
    calls: list[Scope] = []

    async def here(scope: Scope, _receive: Receive, _send: Send) -> None:
        calls.append(scope)

    workers = Workers(no_app, here)
    await workers.call(scope)
    assert calls == [scope]
    assert workers.asked == []


async def test_the_cookie_names_a_session_too() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": b"there"})

    got = await Workers(app).call({**STEP, "headers": [(b"cookie", b"a=b; openenv_session=1.abc")]})
    assert got == [{"type": "http.response.body", "body": b"there"}]


async def test_where_that_worker_is_not_there_this_one_answers_and_reads_the_body() -> None:
    async def here(_scope: Scope, receive: Receive, send: Send) -> None:
        await send(await receive())

    async def connect_to_nobody(_worker: str) -> Stream:
        ours, theirs = socket.socketpair()
        theirs.close()
        return await Stream.over(ours)

    client = Client([{"type": "http.request", "body": b"all of it"}])
    await Forwarder(here, {"1"}, connect_to_nobody)(STEP, client.receive, client.send)
    assert client.got == [{"type": "http.request", "body": b"all of it"}]


Die = Callable[[Send], Awaitable[None]]


async def dies_at_once(_send: Send) -> None:
    raise ConnectionResetError("as if the process had died")


async def dies_after_accepting(send: Send) -> None:
    await send({"type": "websocket.accept"})
    await dies_at_once(send)


async def raises(_send: Send) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("scope", "die", "types"),
    [
        (STEP, dies_at_once, ["http.response.start", "http.response.body"]),
        (STEP, raises, ["http.response.start", "http.response.body"]),
        (SOCKET, dies_at_once, ["websocket.accept", "websocket.send", "websocket.close"]),
        (SOCKET, dies_after_accepting, ["websocket.accept", "websocket.close"]),
    ],
)
async def test_a_client_is_told_when_the_other_worker_dies(
    scope: Scope, die: Die, types: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await die(send)

    got = await Workers(app).call(scope)
    assert [event["type"] for event in got] == types
    if scope is STEP:
        assert got[0]["status"] == 404
        assert b"the process that held it was ended" in got[1]["body"]
    else:
        assert got[-1]["code"] == 1012
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == (die is raises)


@pytest.mark.parametrize("error", [OSError, RuntimeError])  # the latter where the server has closed the socket itself
async def test_a_client_that_goes_ends_the_call_there(error: type[Exception]) -> None:
    ended = asyncio.Event()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await receive()
        ended.set()

    class GoneClient(Client):
        async def send(self, event: Message) -> None:
            raise error("the client has gone")

    client = GoneClient([])
    workers = Workers(app)
    async with asyncio.timeout(60):
        await workers.relay(SOCKET, client.receive, client.send)
        await ended.wait()
        assert workers.answering is not None
        await workers.answering
