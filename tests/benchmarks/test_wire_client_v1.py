"""The bare v1 client counts answers however they come, and takes nothing for an answer that is none."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from benchmarks.wire_client import UnexpectedAnswerError
from benchmarks.wire_client_v1 import V1Socket, connect_v1, split, step_all_v1
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

Message = dict[str, Any]
Answering = Callable[[Message], Message]

SUBPROTOCOLS = [Subprotocol("openenv.v1")]


def answer(message: Message) -> Message:
    """Answer as a server does."""
    if message["type"] == "open":
        return {"type": "opened", "id": message["id"], "session": f"s{message['id']}", "data": {}}
    return {**message, "type": "observation", "data": {"observation": {}, "reward": None, "done": False}}


class Server:
    """A v1 server that notes what it is asked.

    Args:
        answering: Makes an answer.
        cut: How many answers it puts into a frame.
    """

    def __init__(self, answering: Answering = answer, cut: int = 1_000_000) -> None:
        self.asked: list[list[Message]] = []
        self._answering = answering
        self._cut = cut

    async def __call__(self, connection: ServerConnection) -> None:
        async for frame in connection:
            document = json.loads(frame)
            messages = document if isinstance(document, list) else [document]
            self.asked.append(messages)
            answers = [self._answering(message) for message in reversed(messages)]
            for start in range(0, len(answers), self._cut):
                part = answers[start : start + self._cut]
                text = json.dumps(part[0] if len(part) == 1 else part, separators=(",", ":"))
                await connection.send(text)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[int]:
        """Serve on some port."""
        async with serve(self, "127.0.0.1", 0, subprotocols=SUBPROTOCOLS) as server:
            yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("cut", [1, 3, 1_000])
async def test_every_session_steps_once_a_round_however_the_answers_are_cut(cut: int) -> None:
    server = Server(cut=cut)
    async with server.running() as port:
        sockets = await connect_v1(port, sockets=1, sessions=7)
        await step_all_v1(sockets, rounds=3)
        sockets[0].close()

    opens, resets, *rounds = server.asked
    assert [message["id"] for message in opens] == list(range(1, 8))
    assert {message["session"] for message in resets} == {f"s{number}" for number in range(1, 8)}
    assert len(rounds) == len(sockets[0].latencies) == 3
    for number, messages in enumerate(rounds, 2):
        assert {(message["session"], message["id"]) for message in messages} == {
            (f"s{session}", number) for session in range(1, 8)
        }


async def test_sessions_opened_later_count_their_own_requests() -> None:
    server = Server()
    async with server.running() as port:
        socket = await V1Socket.connect(port)
        await socket.open_sessions(1)
        await socket.step(2)
        await socket.open_sessions(1)
        await socket.step(1)
        socket.close()

    assert [message["id"] for message in server.asked[-1]] == [4, 2]
    assert [message["id"] for frame in server.asked for message in frame if message["type"] == "open"] == [1, 2]


async def test_sockets_step_side_by_side() -> None:
    server = Server()
    async with server.running() as port:
        sockets = await connect_v1(port, sockets=3, sessions=2)
        await step_all_v1(sockets, rounds=4)
        for socket in sockets:
            socket.close()

    assert sum(message["type"] == "step" for frame in server.asked for message in frame) == 3 * 2 * 4


def error_in_the_middle(message: Message) -> Message:
    """Fail one step of many."""
    failed = message["type"] == "step" and message["id"] == 3 and message["session"] == "s2"
    return {**message, "type": "error", "data": {"message": "no"}} if failed else answer(message)


async def test_a_single_error_among_many_answers_is_not_measured() -> None:
    async with Server(error_in_the_middle).running() as port:
        sockets = await connect_v1(port, sockets=1, sessions=5)
        with pytest.raises(UnexpectedAnswerError, match='"message":"no"'):
            await step_all_v1(sockets, rounds=10)
        sockets[0].close()


def refuse_opens(message: Message) -> Message:
    """Be full."""
    return {"type": "error", "id": message["id"], "data": {"message": "full"}}


async def test_a_server_that_opens_no_session_is_not_measured() -> None:
    async with Server(refuse_opens).running() as port:
        with pytest.raises(UnexpectedAnswerError, match="full"):
            await connect_v1(port, sockets=1, sessions=2)


async def test_a_server_without_v1_is_not_measured() -> None:
    async with serve(Server(), "127.0.0.1", 0) as server:
        with pytest.raises(UnexpectedAnswerError, match=r"a server of openenv\.v1"):
            await V1Socket.connect(server.sockets[0].getsockname()[1])


@given(st.lists(st.dictionaries(st.text(), st.integers()), min_size=1, max_size=5))
def test_a_frame_is_a_message_or_an_array_of_them(messages: list[Message]) -> None:
    assert split(json.dumps(messages)) == messages
    assert split(json.dumps(messages[0])) == [messages[0]]
