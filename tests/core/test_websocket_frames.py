"""Frames of whole messages are told from all others, however a stream is cut into pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from openenv.core.websocket_frames import (
    PIECE,
    FrameSplitter,
    client_frame,
    payload_of,
    server_frame,
    server_frames,
)

LONGEST = 70_000
MESSAGES = (Opcode.TEXT, Opcode.BINARY)
SIZES = [0, 125, 126, 65_535, 65_536]
LENGTHS = st.sampled_from([0, 1, 125, 126, 127, 65_535, 65_536, LONGEST])
FRAMES = st.builds(
    lambda opcode, length, fin: Frame(opcode, b"x" * (min(length, 125) if opcode >= Opcode.CLOSE else length), fin),
    st.sampled_from([Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG]),
    LENGTHS,
    st.booleans(),
).map(lambda frame: Frame(frame.opcode, frame.data, True) if frame.opcode >= Opcode.CLOSE else frame)


def whole(frame: Frame) -> bool:
    return frame.opcode in MESSAGES and frame.fin


@pytest.mark.parametrize("message", ["é" * (2 * PIECE + 1), "x" * 2 * PIECE, b"\xff" * (3 * PIECE - 1)], ids=len)
def test_a_long_message_is_written_in_pieces(message: str | bytes) -> None:
    reader = Protocol(Side.CLIENT, max_size=None)
    reader.state = State.OPEN
    written = list(server_frames(message))
    for piece in written:
        assert len(piece) <= 2 * PIECE + 16
        reader.receive_data(piece)
    frames = [event for event in reader.events_received() if isinstance(event, Frame)]
    assert [frame.fin for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert frames[0].opcode is (Opcode.TEXT if isinstance(message, str) else Opcode.BINARY)
    received = b"".join(bytes(frame.data) for frame in frames)
    assert (received.decode() if isinstance(message, str) else received) == message


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(0, 2 * LONGEST), max_size=12), st.booleans())
def test_a_stream_in_any_pieces_gives_its_frames(frames: list[Frame], cuts: list[int], masked: bool) -> None:
    written = [frame.serialize(mask=masked) for frame in frames]
    stream = b"".join(written)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = FrameSplitter(masked=masked)

    parts = [part for start, end in pairwise(edges) for part in splitter.split(stream[start:end], LONGEST)]

    assert b"".join(part for _, part in parts) == stream
    messages = [payload_of(part, head) for head, part in parts if head]
    assert messages == [bytes(frame.data) for frame in frames if whole(frame)]
    assert [part for head, part in parts if head] == [
        each for frame, each in zip(frames, written, strict=True) if whole(frame)
    ]


@pytest.mark.parametrize("masked", [True, False])
def test_a_frame_above_the_limit_is_handed_on_at_once(masked: bool) -> None:
    begun = Frame(Opcode.TEXT, b"x" * (LONGEST + 1)).serialize(mask=masked)[:50]
    assert FrameSplitter(masked=masked).split(begun, LONGEST) == [(0, begun)]


@pytest.mark.parametrize("masked", [True, False])
def test_what_the_other_side_may_not_send_is_handed_on(masked: bool) -> None:
    wrongly_masked = Frame(Opcode.TEXT, b"hello").serialize(mask=not masked)
    compressed = b"\xc1" + Frame(Opcode.TEXT, b"hello").serialize(mask=masked)[1:]
    unknown = b"\x83" + Frame(Opcode.TEXT, b"hello").serialize(mask=masked)[1:]
    for frame in (wrongly_masked, compressed, unknown):
        assert FrameSplitter(masked=masked).split(frame, LONGEST) == [(0, frame)]


@pytest.mark.parametrize("length", SIZES)
def test_a_server_reads_what_a_client_writes(length: int) -> None:
    assert read_by(Side.SERVER, client_frame(b"y" * length)) == (Opcode.TEXT, True, b"y" * length)


@pytest.mark.parametrize("length", SIZES)
@pytest.mark.parametrize("opcode", MESSAGES)
def test_a_client_reads_what_a_server_writes(length: int, opcode: Opcode) -> None:
    written = server_frame(b"y" * length, binary=opcode is Opcode.BINARY)
    assert read_by(Side.CLIENT, written) == (opcode, True, b"y" * length)


def read_by(side: Side, written: bytes) -> tuple[Opcode, bool, bytes]:
    """Read a frame as the library does."""
    reader = Protocol(side, state=State.OPEN)
    reader.receive_data(written)
    (frame,) = reader.events_received()
    assert isinstance(frame, Frame)
    return frame.opcode, frame.fin, bytes(frame.data)


def test_masks_differ() -> None:
    assert len({client_frame(b"hello") for _ in range(8)}) > 1
