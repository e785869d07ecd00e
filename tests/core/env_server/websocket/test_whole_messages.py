"""A server reads and writes what uvicorn's own protocol does, which gives every frame to the parser of ``websockets``.

uvicorn's protocol gets each frame by itself: with a frame that breaks the rules it drops all that came in one piece.
"""

import asyncio
import socket
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send
from tests.chaos.hostility import HANDSHAKE
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from openenv.core.env_server.websocket.uvicorn_sockets import DecisiveSockets

LONGEST = 5_000
OFFER = b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FIN, COMPRESSED = 0x80, 0x40


class Served(NamedTuple):
    """What an application received, how many events it left, and what its client received after the handshake."""

    events: list[Message]
    events_left: int
    answer: bytes


class Application:
    """Accepts a socket, sends some events, and receives until the client has gone."""

    def __init__(self, outgoing: Sequence[Message] = ()) -> None:
        self.outgoing = outgoing
        self.events: list[Message] = []
        self.accepted = asyncio.Event()
        self.may_receive = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        for message in self.outgoing:
            await send(message)
        self.accepted.set()
        await self.may_receive.wait()
        while not self.events or self.events[-1]["type"] != "websocket.disconnect":
            self.events.append(await receive())
        self.ended.set()


async def connect(kind: type[WebSocketsSansIOProtocol], app: Application, *, deflate: bool = False) -> tuple[Any, Any]:
    """Have a protocol accept a socket; return the protocol and the client's end."""
    ours, client = socket.socketpair()
    config = Config(app, ws_max_size=LONGEST, ws_ping_interval=None, ws_per_message_deflate=deflate, log_config=None)
    config.load()
    loop = asyncio.get_running_loop()
    _, protocol = await loop.connect_accepted_socket(lambda: kind(config, ServerState(), {}), ours)
    protocol.data_received(HANDSHAKE.replace(b"\r\n\r\n", OFFER) if deflate else HANDSHAKE)
    await app.accepted.wait()
    return protocol, client


async def serve(
    kind: type[WebSocketsSansIOProtocol],
    pieces: Iterable[bytes],
    outgoing: Sequence[Message] = (),
    *,
    deflate: bool = False,
) -> Served:
    """Give what a client sends to a protocol piece by piece, and return what came of it."""
    app = Application(outgoing)
    protocol, client = await connect(kind, app, deflate=deflate)
    app.may_receive.set()
    for piece in pieces:
        if not protocol.transport.is_closing():
            protocol.data_received(piece)
        await asyncio.sleep(0)
    await app.ended.wait()
    protocol.transport.close()
    with client:
        answer = await asyncio.to_thread(read_all, client)
    return Served(app.events, protocol.queue.qsize(), answer.partition(b"\r\n\r\n")[2])


def read_all(client: socket.socket) -> bytes:
    received = bytearray()
    with suppress(ConnectionResetError):
        while data := client.recv(1 << 16):
            received += data
    return bytes(received)


def frame(first: int, payload: bytes, *, masked: bool = True) -> bytes:
    """Write a frame, whether the rules allow it or not."""
    size = len(payload)
    length = bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2)
    if not masked:
        return bytes([first]) + length + payload
    mask = b"\x01\x02\x03\x04"
    body = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
    return bytes([first, length[0] | 0x80]) + length[1:] + mask + body


GOODBYE = frame(FIN | CLOSE, (1000).to_bytes(2))
PAYLOADS = st.one_of(
    st.text(max_size=40).map(str.encode),
    st.binary(max_size=40),
    st.sampled_from([b"", b"x" * 125, b"x" * 126, b"x" * 4_090, b"x" * LONGEST, b"x" * (LONGEST + 1)]),
)
# Fragments are followed up and interrupted; now and then a frame breaks a rule.
FRAMES = st.one_of(
    st.builds(frame, st.sampled_from([FIN | TEXT, FIN | BINARY]), PAYLOADS),
    st.builds(frame, st.sampled_from([FIN | PING, FIN | PONG]), st.binary(max_size=125)),
    st.tuples(
        st.builds(frame, st.sampled_from([TEXT, BINARY]), PAYLOADS),
        st.builds(frame, st.sampled_from([FIN | PING, CONT]), st.binary(max_size=125)),
        st.builds(frame, st.just(FIN | CONT), PAYLOADS),
    ),
    st.builds(frame, st.integers(0, 255), PAYLOADS, masked=st.booleans()),
)
STREAMS = st.lists(FRAMES, max_size=8).map(
    lambda frames: [each for item in frames for each in (item if isinstance(item, tuple) else (item,))]
)


def cut(stream: bytes, edges: Iterable[int]) -> list[bytes]:
    """Cut a stream into pieces."""
    places = [0, *sorted(edge % (len(stream) + 1) for edge in edges), len(stream)]
    return [stream[start:end] for start, end in pairwise(places)]


@settings(deadline=None)
@given(STREAMS, st.lists(st.integers(0, 40_000), max_size=12))
def test_a_stream_in_any_pieces_is_served_as_by_uvicorn(frames: list[bytes], edges: list[int]) -> None:
    sent = [*frames, GOODBYE]
    expected = asyncio.run(serve(WebSocketsSansIOProtocol, sent))
    assert asyncio.run(serve(DecisiveSockets, cut(b"".join(sent), edges))) == expected


NOTEWORTHY = {
    "a message between the parts of another": [frame(TEXT, b"he"), frame(FIN | TEXT, b"x"), frame(FIN | CONT, b"llo")],
    "a ping between the parts of a message": [frame(TEXT, b"he"), frame(FIN | PING, b"x"), frame(FIN | CONT, b"llo")],
    "a message after one that is no UTF-8": [frame(FIN | TEXT, b"\xff"), frame(FIN | TEXT, b"x")],
    "a message after one that is too long": [frame(FIN | TEXT, b"x" * (LONGEST + 1)), frame(FIN | TEXT, b"x")],
    "a message after one without a mask": [frame(FIN | TEXT, b"x", masked=False), frame(FIN | TEXT, b"x")],
    "a message after the end": [GOODBYE, frame(FIN | TEXT, b"x")],
    "a message of many bytes": [frame(FIN | BINARY, b"x" * LONGEST), frame(FIN | TEXT, b"x")],
}
HANGS_UP: Message = {"type": "websocket.close", "code": 4001, "reason": "enough"}


@pytest.mark.parametrize("sent", NOTEWORTHY.values(), ids=NOTEWORTHY)
@pytest.mark.parametrize("outgoing", [[], [HANGS_UP]], ids=["while the server is there", "when the server has closed"])
def test_a_noteworthy_stream_is_served_as_by_uvicorn(sent: list[bytes], outgoing: list[Message]) -> None:
    sent = [frame(FIN | TEXT, b"hello"), *sent, GOODBYE]
    expected = asyncio.run(serve(WebSocketsSansIOProtocol, sent, outgoing))
    assert asyncio.run(serve(DecisiveSockets, [b"".join(sent)], outgoing)) == expected


def test_compressed_messages_between_others_are_served_as_by_uvicorn() -> None:
    deflate = zlib.compressobj(wbits=-12)
    compressed = [(deflate.compress(text) + deflate.flush(zlib.Z_SYNC_FLUSH))[:-4] for text in (b"hello", b"hello" * 9)]
    sent = [
        frame(FIN | COMPRESSED | TEXT, compressed[0]),
        frame(FIN | TEXT, b"plain"),
        frame(FIN | COMPRESSED | BINARY, compressed[1]),
        GOODBYE,
    ]
    outgoing: list[Message] = [{"type": "websocket.send", "text": "hello" * 9}]
    expected = asyncio.run(serve(WebSocketsSansIOProtocol, sent, outgoing, deflate=True))
    assert [event.get("text", event.get("bytes")) for event in expected.events[:3]] == ["hello", "plain", b"hello" * 9]
    assert asyncio.run(serve(DecisiveSockets, sent, outgoing, deflate=True)) == expected


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_messages_are_written_as_by_uvicorn(size: int) -> None:
    outgoing: list[Message] = [
        {"type": "websocket.send", "text": "é" * (size // 2)},
        {"type": "websocket.send", "bytes": b"x" * size},
    ]
    expected = asyncio.run(serve(WebSocketsSansIOProtocol, [GOODBYE], outgoing))
    assert asyncio.run(serve(DecisiveSockets, [GOODBYE], outgoing)) == expected


async def test_no_more_is_read_while_messages_wait_for_the_application() -> None:
    app, messages, sent = Application(), frame(FIN | TEXT, b"x" * 1_000) * 1_000, 0
    protocol, client = await connect(DecisiveSockets, app)
    with client:
        client.setblocking(False)
        with suppress(BlockingIOError):  # once the buffers between both are full
            while sent < len(messages):
                sent += client.send(messages[sent : sent + 5_000])
                await asyncio.sleep(0)
        waiting = protocol.queue.qsize()
        await asyncio.sleep(0)
        assert (protocol.transport.is_reading(), protocol.queue.qsize()) == (False, waiting)
        app.may_receive.set()
        await asyncio.get_running_loop().sock_sendall(client, messages[sent:] + GOODBYE)
        await app.ended.wait()
    assert len(app.events) == 1_001
