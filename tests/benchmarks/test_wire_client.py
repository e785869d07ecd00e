"""The bare client's frames are those of a real WebSocket implementation."""

import asyncio
import socket

import pytest
from benchmarks.wire_client import UnexpectedAnswerError, WireSession, open_sessions, split_frame, step_all, text_frame
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

sizes = st.one_of(st.integers(0, 200), st.sampled_from([125, 126, 127, 65_535, 65_536, 70_000]))


def parsed_by_websockets(data: bytes) -> Frame:
    """Read a client's frame as the websockets library does on its server side."""
    reader = StreamReader()
    reader.feed_data(data)
    parser = Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as finished:
        next(parser)
    frame: Frame = finished.value.value
    return frame


@given(size=sizes)
def test_a_frame_is_read_as_sent_by_the_websockets_library(size: int) -> None:
    frame = parsed_by_websockets(text_frame(b"x" * size))

    assert (frame.opcode, frame.data, frame.fin) == (Opcode.TEXT, b"x" * size, True)


@given(sizes=st.lists(sizes, max_size=4), data=st.data())
def test_frames_are_taken_off_whatever_the_pieces_they_come_in(sizes: list[int], data: st.DataObject) -> None:
    messages = [bytes([65 + number]) * size for number, size in enumerate(sizes)]
    sent = b"".join(Frame(Opcode.TEXT, message).serialize(mask=False) for message in messages)
    cut = data.draw(st.integers(0, len(sent)))

    received, taken = b"", []
    for piece in (sent[:cut], sent[cut:]):
        received += piece
        while (split := split_frame(received)) is not None:
            message, received = split
            taken.append(message)

    assert taken == messages
    assert received == b""


async def test_a_server_that_closes_is_named_with_its_reason() -> None:
    async def close_at_once(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.close(1011, "keepalive ping timeout")

    async with serve(close_at_once, "127.0.0.1", 0) as server:
        session = await WireSession.connect(next(iter(server.sockets)).getsockname()[1])
        with pytest.raises(UnexpectedAnswerError, match="keepalive ping timeout"):
            await session.ask({"type": "reset"})
        session.close()


async def test_a_ping_is_answered_and_taken_for_no_answer() -> None:
    ponged = asyncio.Event()

    async def ping_before_each_answer(connection: ServerConnection) -> None:
        async for message in connection:
            await (await connection.ping(b"are you there?"))
            ponged.set()
            await connection.send(message)

    async with serve(ping_before_each_answer, "127.0.0.1", 0) as server:
        session = await WireSession.connect(server.sockets[0].getsockname()[1])
        assert await session.ask({"type": "step"}, 3) == {"type": "step"}
        assert ponged.is_set()
        session.close()


async def test_every_step_is_answered_and_timed() -> None:
    asked: list[str | bytes] = []

    async def echo(connection: ServerConnection) -> None:
        async for message in connection:
            asked.append(message)
            await connection.send(message)

    async with serve(echo, "127.0.0.1", 0) as server:
        sessions = await open_sessions(server.sockets[0].getsockname()[1], 3)
        latencies = await step_all(sessions, 5)
        for session in sessions:
            session.close()

    assert len(latencies) == 15
    assert min(latencies) > 0
    assert asked.count('{"type":"reset"}') == 3
    assert asked.count('{"type":"step","data":{"message":"hello there"}}') == 15


async def test_a_server_that_answers_with_errors_is_not_measured() -> None:
    async def refuse(connection: ServerConnection) -> None:
        async for _ in connection:
            await connection.send('{"type": "error", "data": {"message": "no"}}')

    async with serve(refuse, "127.0.0.1", 0) as server:
        with pytest.raises(UnexpectedAnswerError, match=r"expected an observation, got .*no"):
            await open_sessions(server.sockets[0].getsockname()[1], 1)


async def test_a_server_that_goes_away_is_not_waited_for() -> None:
    async def leave(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.abort()

    async with serve(leave, "127.0.0.1", 0) as server:
        with pytest.raises(UnexpectedAnswerError, match="closed the connection"):
            await open_sessions(server.sockets[0].getsockname()[1], 1)


async def test_a_server_without_websockets_is_not_measured() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, sock=socket.create_server(("127.0.0.1", 0))) as server:
        with pytest.raises(UnexpectedAnswerError, match="404"):
            await WireSession.connect(server.sockets[0].getsockname()[1])
